"""Substitute for an agent of Ray's until it is needed. A program of its own, stdlib only.

A raylet starts two agents, waits until they have written their ports to files, and ends if one of them ends. One
serves a dashboard, which Muster's own Ray does not have; the other prepares runtime environments, which no actor of
Muster has. Each imports Ray: 50 MB, and 0.7 s of processor time at the start. This program takes 5 MB and sleeps until
the raylet ends. In place of the second agent it listens, and becomes the agent for the first connection, whoever makes
it. The agent gets the listening socket: were it closed and bound again, any user of the machine could bind the port in
between, and the raylet would end.

usage: agent.py PROGRAM ARGUMENT..., those of the agent; with the socket's number in ``MUSTER_AGENT_SOCKET`` to run
the agent on it.
"""

from __future__ import annotations

import os
import runpy
import select
import socket
import sys
from pathlib import Path

_DASHBOARD = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port")
_RUNTIME_ENV = "runtime_env_agent_port"
_BIND = "bind"
_SOCKET = "MUSTER_AGENT_SOCKET"
_NOT_IN_USE = -1
"""Port that Ray's agent writes for a service that it does not offer."""


def run(program: str, *arguments: str) -> None:
    """Return when the raylet has ended."""
    options = dict(argument.removeprefix("--").split("=", 1) for argument in arguments if "=" in argument)
    own_option = _RUNTIME_ENV.replace("_", "-")
    if own_option in options:
        server = _await_connection(options, int(options[own_option]))
        if server is not None:
            port = server.getsockname()[1]
            os.set_inheritable(server.fileno(), True)
            os.environ[_SOCKET] = str(server.fileno())
            command = [sys.executable, "-u", __file__, program, *arguments, f"--{own_option}={port}"]
            os.execv(sys.executable, command)
    else:
        for name in _DASHBOARD:
            _persist(options, name, _NOT_IN_USE)
        _await(os.pidfd_open(os.getppid()))


def become(server: socket.socket, program: str, *arguments: str) -> None:
    """Run the agent, whose socket of that port is ``server``."""
    port = server.getsockname()[1]
    bind = socket.socket.bind

    def bind_or_take(bound: socket.socket, address: tuple[str, int]) -> None:
        if isinstance(address, tuple) and address[1] == port:
            os.dup2(server.fileno(), bound.fileno(), inheritable=False)
            server.close()
            setattr(socket.socket, _BIND, bind)
        else:
            bind(bound, address)

    setattr(socket.socket, _BIND, bind_or_take)
    sys.argv = [program, *arguments]
    sys.path[0] = str(Path(program).parent)
    runpy.run_path(program, run_name="__main__")


def _await_connection(options: dict[str, str], port: int) -> socket.socket | None:
    """Listen until a client connects. Return the listening socket, or None if the raylet has ended."""
    host = options["node-ip-address"]
    server = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    _persist(options, _RUNTIME_ENV, server.getsockname()[1])
    return server if server.fileno() in _await(os.pidfd_open(os.getppid()), server.fileno()) else None


def _await(*files: int) -> list[int]:
    """Return the files that have something to read; a process's, once it has ended."""
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
    if (inherited := os.environ.pop(_SOCKET, None)) is not None:
        become(socket.socket(fileno=int(inherited)), *sys.argv[1:])
    else:
        run(*sys.argv[1:])
