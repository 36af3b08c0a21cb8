"""Changes to a Ray that make it small: fewer processes, less work at rest, workers that are forks.

They concern processes that this one starts, by ``ray.init`` or as :class:`ray.cluster_utils.Cluster`.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from muster.actors.runtime.ray.imports import environment_to_import
from muster.actors.runtime.ray.light_worker import without_arrow_serialization
from muster.actors.runtime.ray.loopback import use_loopback
from muster.gateway.cli.ray.worker_launch import FORKS, SETUP

RAY_SETTINGS = {
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


def prepare(forks: Path) -> subprocess.Popen[bytes]:
    """Change what Ray reads when it is imported. Returns the process that forks workers, with a socket at the path."""
    for name, value in RAY_SETTINGS.items():
        os.environ.setdefault(f"RAY_{name}", value)
    use_loopback()
    os.environ[FORKS] = str(forks)
    process = start_forks(forks)
    without_arrow_serialization()
    return process


def change_ray() -> None:
    """Change what is imported of Ray."""
    without_helpers()
    with_late_agents()
    with_forked_workers()


def without_helpers() -> None:
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
            [sys.executable, "-P", str(Path(__file__).with_name("worker_forks.py")), str(listener.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=environment_to_import(),
            pass_fds=[listener.fileno()],
            start_new_session=True,  # Ctrl-C is for us alone
        )
