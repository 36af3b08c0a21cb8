"""Runs in place of an agent of Ray's until it is needed. A program of its own, stdlib only.

A raylet starts two agents, waits until they have written their ports to files, and ends if one of them ends. One
serves a dashboard, which Muster's own Ray does not have; the other prepares runtime environments, which no actor of
Muster has. Each imports Ray: 50 MB, and 0.7 s of processor time at the start. This program takes 5 MB and sleeps until
the raylet ends. In place of the second agent it listens, and becomes the agent for the first connection; the raylet
repeats its requests.

usage: ray_agent.py PROGRAM ARGUMENT..., those of the agent.
"""

from __future__ import annotations

import os
import select
import socket
import sys
from pathlib import Path

_DASHBOARD = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port")
_RUNTIME_ENV = "runtime_env_agent_port"
_NOT_IN_USE = -1
"""As Ray's agent writes for a service that it does not offer."""


def run(program: str, *arguments: str) -> None:
    """Returns when the raylet has ended."""
    options = dict(argument.removeprefix("--").split("=", 1) for argument in arguments if "=" in argument)
    own_option = _RUNTIME_ENV.replace("_", "-")
    if own_option in options:
        port = _await_connection(options, int(options[own_option]))
        if port is not None:
            os.execv(sys.executable, [sys.executable, "-u", program, *arguments, f"--{own_option}={port}"])
    else:
        for name in _DASHBOARD:
            _persist(options, name, _NOT_IN_USE)
        _await(os.pidfd_open(os.getppid()))


def _await_connection(options: dict[str, str], port: int) -> int | None:
    """Listen until a client connects; the port then. None if the raylet has ended."""
    host = options["node-ip-address"]
    with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as server:
        port = server.getsockname()[1]
        _persist(options, _RUNTIME_ENV, port)
        return port if server.fileno() in _await(os.pidfd_open(os.getppid()), server.fileno()) else None


def _await(*files: int) -> list[int]:
    """The files that have something to read; a process's, once it has ended."""
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    return [file for file, _ in poll.poll()]


def _persist(options: dict[str, str], name: str, port: int) -> None:
    """Write the port where the raylet waits for it."""
    path = Path(options["session-dir"], f"{name}_{options['node-id']}")
    written = path.with_name(f"{path.name}.new")
    written.write_text(str(port))
    written.rename(path)


if __name__ == "__main__":
    run(*sys.argv[1:])
