"""A Ray of Muster's own: one node, private to one ``muster up``, which ends with it.

Nothing is left behind, even if we are killed: Ray binds its head processes to us (PR_SET_PDEATHSIG), and a
watchdog (:mod:`muster.gateway.cli.ray.watchdog`) ends the rest and removes the temporary directory.
"""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import psutil

from muster.actors.runtime.errors import first_line
from muster.actors.runtime.ray.imports import job_config
from muster.actors.runtime.ray.public_api import public_api_only
from muster.actors.runtime.settings import NAMESPACE
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.ray.connection import keep_stdout, use_token
from muster.gateway.cli.ray.find_ray import PRIVATE_PREFIX
from muster.gateway.cli.ray.reach import Reach, is_alive
from muster.gateway.cli.ray.small_ray import change_ray, prepare
from muster.gateway.cli.ray.watchdog import MARKER

_RAY_DIR = "r"
"""Ray makes its own directory accessible to all; the one around it is ours alone."""
_MAX_TEMP_ROOT = 21
"""Paths of sockets are limited to 107 bytes, of which Ray adds 64, and this module 22."""
_OBJECT_STORE_BYTES = 100_000_000
"""Small, since Muster keeps nothing in the object store; RayDP moves a little through it."""
_STOP_TIMEOUT_S = 15


class OwnRay:
    """Ray's processes, and how to reach them. Call ``start`` in the main thread: see PDEATHSIG."""

    def __init__(self, storage: Path, environment: Mapping[str, str]) -> None:
        """Prepare a start. ``environment`` (Java's) is for Ray's workers."""
        self._environment = environment
        self._vital: list[psutil.Process] = []
        self._ray: ModuleType | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._forks: subprocess.Popen[bytes] | None = None
        self._reach: Reach | None = None
        self.token_path = storage / "run" / "ray-token"
        self.temp_dir = _make_temp_dir()
        self.address = ""

    def start(self) -> None:
        """Start Ray and connect to it. CliError if it does not start."""
        marker = secrets.token_hex(8)
        self._watchdog = _guarded(f"{MARKER}={marker}", self.temp_dir)
        _write_token(self.token_path)
        others = set(psutil.Process().children())
        os.environ.update(self._environment)
        scratch = str(self.temp_dir / "tmp")  # Spark's: for what executors spill, even if they are killed
        os.environ.update({MARKER: marker, "TMPDIR": scratch, "SPARK_LOCAL_DIRS": scratch})
        use_token(self.token_path)
        if not public_api_only():
            self._forks = prepare(self.temp_dir / "forks")
        import ray

        self._ray = ray
        keep_stdout()
        if not public_api_only():
            change_ray()
        try:
            context = ray.init(
                address="local",
                namespace=NAMESPACE,
                job_config=job_config(),
                include_dashboard=False,
                object_store_memory=_OBJECT_STORE_BYTES,
                num_cpus=max(2, os.cpu_count() or 2),
                _temp_dir=str(self.temp_dir / _RAY_DIR),
                log_to_driver=False,
                configure_logging=False,
            )
        except Exception as error:
            raise CliError(f"Ray did not start: {first_line(error)}") from error
        self.address = str(context.address_info["address"])  # type: ignore[attr-defined]
        if public_api_only():
            self._reach = Reach(self.address, ray.get_runtime_context().get_node_id())
        started = (child for child in psutil.Process().children() if child not in others)
        self._vital = [child for child in started if _name(child) in ("gcs_server", "raylet")]

    def missing(self) -> str | None:
        """Name the process of Ray's head that has ended by itself; None while all are alive."""
        if self._reach is not None:
            return self._reach.missing()
        ended = (_name(process) for process in self._vital if not is_alive(process))
        return next((f"{name} ended by itself" for name in ended), None)

    @property
    def responds(self) -> bool:
        """Whether it can be called now; a call to a GCS that has ended would not return."""
        return self.missing() is None if self._reach is None else self._reach.responds

    def stop(self) -> None:
        """End Ray and every actor on it, even if only part of it started; remove its temporary directory."""
        if self._ray is not None:
            if self.responds:
                self._ray.shutdown()
            else:
                atexit.unregister(self._ray.shutdown)  # it would end this process, or wait for what has ended
        if self._forks and self._forks.stdin:
            self._forks.stdin.close()
            self._forks.wait(_STOP_TIMEOUT_S)
        if self._watchdog and self._watchdog.stdin:
            self._watchdog.stdin.close()
            self._watchdog.wait(_STOP_TIMEOUT_S)
        remove_temp_dir(self.temp_dir)
        self.token_path.unlink(missing_ok=True)


def remove_temp_dir(temp_dir: Path) -> None:
    """Remove what a Ray of ours left; leave anything else."""
    if temp_dir.name.startswith(PRIVATE_PREFIX):
        shutil.rmtree(temp_dir, ignore_errors=True)


def _write_token(path: Path) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_hex(32))


def _make_temp_dir() -> Path:
    root = tempfile.gettempdir()
    made = Path(tempfile.mkdtemp(prefix=PRIVATE_PREFIX, dir=root if len(root) <= _MAX_TEMP_ROOT else "/tmp"))
    (made / "tmp").mkdir()
    return made


def _guarded(marker: str, temp_dir: Path) -> subprocess.Popen[bytes]:
    """Start the watchdog, in its own session so that Ctrl-C does not reach it. It must run before what it guards."""
    program = Path(__file__).with_name("watchdog.py")
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(program), marker, str(temp_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.NoSuchProcess:
        return "a process that has ended"
