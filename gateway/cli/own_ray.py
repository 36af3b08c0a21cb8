"""A Ray of Muster's own: one node, private to one ``muster up``, gone with it.

Ray binds the lives of its processes to ours (PR_SET_PDEATHSIG on its head processes; workers end with their
raylet), so that nothing stays behind even if we are killed. Only the temporary directory would: the next
``muster up`` on the same storage removes it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import site
import tempfile
from collections.abc import Mapping
from pathlib import Path

import psutil

from actors.settings import NAMESPACE
from gateway.cli.errors import CliError

_TEMP_PREFIX = "muster-ray-"
_LONGEST_TEMP_ROOT = 30
"""Ray adds some 65 characters for its sockets, whose paths end at 107 bytes."""
_OBJECT_STORE_BYTES = 100_000_000
"""Muster keeps nothing in the object store; RayDP moves a little through it."""
_STOP_TIMEOUT_S = 5


class OwnRay:
    """Ray's head processes, and what must be known to reach them. ``start`` in the main thread: see PDEATHSIG."""

    def __init__(self, storage: Path, environment: Mapping[str, str]) -> None:
        """``environment`` (Java's) is for Ray's workers."""
        self._environment = environment
        self._others = set(psutil.Process().children())
        self._vital: list[psutil.Process] = []
        self.token_path = storage / "run" / "ray-token"
        self.temp_dir = _make_temp_dir()
        self.address = ""

    def start(self) -> None:
        """Start Ray and connect to it. CliError if it does not start."""
        _write_token(self.token_path)
        os.environ.update(self._environment)
        use_token(self.token_path)
        make_importable()
        import ray

        try:
            context = ray.init(
                address="local",
                namespace=NAMESPACE,
                include_dashboard=False,
                object_store_memory=_OBJECT_STORE_BYTES,
                num_cpus=max(2, os.cpu_count() or 2),
                _temp_dir=str(self.temp_dir),
                log_to_driver=False,
                configure_logging=False,
            )
        except Exception as error:
            raise CliError(f"Ray did not start: {first_line(error)}") from error
        self.address = str(context["address"])
        self._vital = [process for process in self._started() if _name(process) in ("gcs_server", "raylet")]

    def missing(self) -> str | None:
        """Name of a process of Ray's head that has ended; None while all are alive."""
        return next((_name(process) for process in self._vital if not _alive(process)), None)

    def stop(self) -> None:
        """End Ray and every actor on it, also when it started only in part; remove its temporary directory."""
        import ray

        started = self._started()
        descendants = [process for head in started for process in _descendants(head)]
        ray.shutdown()
        _, left = psutil.wait_procs([*started, *descendants], timeout=_STOP_TIMEOUT_S)
        for process in left:
            process.kill()
        psutil.wait_procs(left, timeout=_STOP_TIMEOUT_S)
        remove_temp_dir(self.temp_dir)
        self.token_path.unlink(missing_ok=True)

    def _started(self) -> list[psutil.Process]:
        """Our children that work in Ray's temporary directory."""
        ours = (child for child in psutil.Process().children() if child not in self._others)
        return [child for child in ours if str(self.temp_dir) in _command(child)]


def connect(address: str, token_path: str | None) -> None:
    """Connect to a Ray that runs already. CliError if there is none or it does not let us in."""
    if token_path:
        use_token(Path(token_path))
    make_importable()
    import ray

    try:
        ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, configure_logging=False)
    except Exception as error:
        raise CliError(
            f"no Ray answers at {address}: {first_line(error)}; "
            "check the address, and RAY_AUTH_MODE=token if that Ray wants a token"
        ) from error


def use_token(token_path: Path) -> None:
    """Make this process and its children show that token to Ray. Before the first import of ray."""
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=str(token_path), RAY_USAGE_STATS_ENABLED="0")
    os.environ.pop("RAY_AUTH_TOKEN", None)


def make_importable() -> None:
    """Let Ray's workers import Muster also where it runs from a checkout that is not installed."""
    root = str(Path(__file__).resolve().parents[2])
    if root not in site.getsitepackages():
        known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *(path for path in known if path and path != root)])


def remove_temp_dir(temp_dir: Path) -> None:
    """Remove what a Ray of ours left; anything else is left alone."""
    if temp_dir.name.startswith(_TEMP_PREFIX):
        shutil.rmtree(temp_dir, ignore_errors=True)


def first_line(error: BaseException) -> str:
    """The first line of what an exception says, or its type where it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _write_token(path: Path) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_hex(32))


def _make_temp_dir() -> Path:
    root = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix=_TEMP_PREFIX, dir=root if len(root) <= _LONGEST_TEMP_ROOT else "/tmp"))


def _alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.NoSuchProcess:
        return "a process that has ended"


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        return list(process.children(recursive=True))
    except psutil.NoSuchProcess:
        return []
