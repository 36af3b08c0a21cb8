"""A Ray of Muster's own: one node, private to one ``muster up``, which ends with it.

Nothing is left behind, even if we are killed: Ray binds its head processes to us (PR_SET_PDEATHSIG), and a
watchdog (:mod:`muster.gateway.cli.ray.watchdog`) ends the rest and removes the temporary directory.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil

from muster.actors.runtime.errors import first_line
from muster.actors.runtime.ray.imports import environment_to_import, job_config
from muster.actors.runtime.ray.light_worker import without_arrow_serialization
from muster.actors.runtime.ray.loopback import use_loopback
from muster.actors.runtime.settings import NAMESPACE
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.ray.connection import keep_stdout, use_token
from muster.gateway.cli.ray.find_ray import PRIVATE_PREFIX
from muster.gateway.cli.ray.watchdog import MARKER
from muster.gateway.cli.ray.worker_launch import FORKS, SETUP

_RAY_DIR = "r"
"""Ray makes its own directory accessible to all; the one around it is ours alone."""
_MAX_TEMP_ROOT = 21
"""Paths of sockets are limited to 107 bytes, of which Ray adds 64, and this module 22."""
_OBJECT_STORE_BYTES = 100_000_000
"""Small, since Muster keeps nothing in the object store; RayDP moves a little through it."""
_STOP_TIMEOUT_S = 15
_RAY_SETTINGS = {
    # Ray expects one process per core and warns on the terminal about more; ours mostly wait, and start in turn.
    "worker_maximum_startup_concurrency": "64",
    # The default is 15: actors would wait for any other process.
    "worker_niceness": "0",
    # Workers are not started before it is known for whom: only those of Muster's actors are forked.
    "prestart_worker_first_driver": "0",
    # Below are settings for less work at rest. None of them concerns how Ray notices that a process has ended (sockets
    # that close), or that a node is lost (health checks).
    # Events of tasks are for the dashboard, and wake every process once a second.
    "task_events_report_interval_ms": "0",
    # Statistics of Ray's event loops, for its logs and the dashboard: a tenth of what an idle worker takes.
    "event_stats": "0",
    "enable_metrics_collection": "0",
    "debug_dump_period_milliseconds": "3600000",
    # Threads that serve Ray's own calls, each of which wakes four times a second; calls between actors are few.
    "worker_num_grpc_internal_threads": "1",
    "core_worker_num_server_call_thread": "1",
    "num_server_call_thread": "1",
    "gcs_server_rpc_server_thread_num": "1",
    "gcs_server_rpc_client_thread_num": "1",
    "object_manager_rpc_threads_num": "1",
    # How often a raylet looks after its object store, in which Muster keeps nothing, for idle workers, of which there
    # are none, and after the machine's memory.
    "raylet_check_gc_period_milliseconds": "1000",
    "object_manager_timer_freq_ms": "1000",
    "kill_idle_workers_interval_ms": "2000",
    "memory_monitor_refresh_ms": "1000",
    # For an autoscaler.
    "gcs_pull_resource_loads_period_milliseconds": "10000",
}
"""Ray's settings (``ray_config_def.h``) for this Ray, unless the environment has others."""
_AGENT_INTERPRETER = "_build_python_executable_command_memory_profileable"
"""Function of Ray for the first part of the command that starts an agent."""
_FORKS_BACKLOG = 64
_START_RAYLET = "start_raylet"
_SETUP_PATH = "setup_worker_path"
"""Option of Ray for the program that starts a worker."""


class OwnRay:
    """Ray's processes, and how to reach them. Call ``start`` in the main thread: see PDEATHSIG."""

    def __init__(self, storage: Path, environment: Mapping[str, str]) -> None:
        """Prepare a start. ``environment`` (Java's) is for Ray's workers."""
        self._environment = environment
        self._vital: list[psutil.Process] = []
        self._ray: ModuleType | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._forks: subprocess.Popen[bytes] | None = None
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
        for name, value in _RAY_SETTINGS.items():
            os.environ.setdefault(f"RAY_{name}", value)
        use_token(self.token_path)
        use_loopback()
        os.environ[FORKS] = str(self.temp_dir / "forks")
        self._forks = start_forks(self.temp_dir / "forks")
        without_arrow_serialization()
        import ray

        self._ray = ray
        keep_stdout()
        _without_helpers()
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
        started = (child for child in psutil.Process().children() if child not in others)
        self._vital = [child for child in started if _name(child) in ("gcs_server", "raylet")]

    def missing(self) -> str | None:
        """Name the process of Ray's head that has ended by itself; None while all are alive."""
        ended = (_name(process) for process in self._vital if not is_alive(process))
        return next((f"{name} ended by itself" for name in ended), None)

    def stop(self) -> None:
        """End Ray and every actor on it, even if only part of it started; remove its temporary directory."""
        if self._ray:
            self._ray.shutdown()
        if self._forks and self._forks.stdin:
            self._forks.stdin.close()
            self._forks.wait(_STOP_TIMEOUT_S)
        if self._watchdog and self._watchdog.stdin:
            self._watchdog.stdin.close()
            self._watchdog.wait(_STOP_TIMEOUT_S)
        remove_temp_dir(self.temp_dir)
        self.token_path.unlink(missing_ok=True)


def _without_helpers() -> None:
    """Start Ray without the dashboard's server, the autoscaler's monitor and the forwarding of logs.

    ``ray.init`` has no options for them, ``include_dashboard=False`` only keeps the server from serving, and none of
    the three is needed on one node of ours: only ``ray status`` then shows nothing. They cost 160 MB and two seconds of
    processor time, and delay the start of Ray by two seconds, since it waits for the server.
    """
    from ray._private.node import Node

    def start_api_server(node: Node, **_: object) -> None:
        node._webui_url = ""

    for name, replacement in (
        ("start_api_server", start_api_server),
        ("start_monitor", lambda node: None),
        ("start_log_monitor", lambda node: None),
    ):
        if hasattr(Node, name):  # private to Ray, and free to be renamed: then it is started
            setattr(Node, name, replacement)
    with_late_agents()
    with_forked_workers()


def with_late_agents() -> None:
    """Let the raylets of this process run :mod:`muster.gateway.cli.ray.agent` in place of their agents."""
    from ray._private import ray_constants, services

    agents = (
        getattr(ray_constants, "PROCESS_TYPE_DASHBOARD_AGENT", None),
        getattr(ray_constants, "PROCESS_TYPE_RUNTIME_ENV_AGENT", None),
    )
    program = str(Path(__file__).with_name("agent.py"))
    interpreter = getattr(services, _AGENT_INTERPRETER, None)
    if interpreter is None:
        return

    def command(component: str, *arguments: Any, **options: Any) -> list[str]:
        if component in agents:
            return [sys.executable, "-I", "-S", program]
        found: list[str] = interpreter(component, *arguments, **options)
        return found

    setattr(services, _AGENT_INTERPRETER, command)


def with_forked_workers() -> None:
    """Let the raylets of this process run :mod:`muster.gateway.cli.ray.worker_launch` to start a worker."""
    from ray._private.node import Node

    start = getattr(Node, _START_RAYLET)

    def start_raylet(node: Node, *arguments: Any, **options: Any) -> Any:
        if setup := getattr(node._ray_params, _SETUP_PATH, None):
            os.environ[SETUP] = setup
            setattr(node._ray_params, _SETUP_PATH, str(Path(__file__).with_name("worker_launch.py")))
        return start(node, *arguments, **options)

    setattr(Node, _START_RAYLET, start_raylet)


def start_forks(path: Path) -> subprocess.Popen[bytes]:
    """Start the process that forks workers, with a socket at the path. It imports Ray and Muster while Ray starts.

    It ends when its stdin is closed.
    """
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(_FORKS_BACKLOG)  # launchers that come before it is ready wait
        return subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("worker_forks.py")), str(listener.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=environment_to_import(),
            pass_fds=[listener.fileno()],
            start_new_session=True,  # Ctrl-C is for us alone
        )


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


def is_alive(process: psutil.Process) -> bool:
    """Return False also for a process that has ended and whose parent has not collected its exit code."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.NoSuchProcess:
        return "a process that has ended"
