"""Program in place of Ray's agents: tells the raylet their ports, and becomes the agent that is needed."""

from __future__ import annotations

import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from muster.gateway.cli.ray import agent

AGENT = """
import select, socket, sys
port = int(sys.argv[-1].rpartition("=")[2])
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(("127.0.0.1", port))
server.listen(128)
another = socket.create_server(("127.0.0.1", 0))
print(sys.argv[-1], flush=True)
while server in select.select([server, sys.stdin], [], [])[0]:
    with server.accept()[0] as client:
        client.sendall(b"agent")
"""
RAYLET = "import subprocess, sys; subprocess.Popen(sys.argv[1:]); sys.stdin.read()"
NODE = "--node-id=abc"


@contextmanager
def started(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Yield the program as a child of a process whose stdin is a pipe, and which ends with it."""
    substitute = folder / "agent.py"
    substitute.write_text(AGENT)
    program = [sys.executable, "-I", "-S", str(Path(agent.__file__)), str(substitute)]
    command = [sys.executable, "-c", RAYLET, *program, f"--session-dir={folder}", NODE, "--minimal", *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as raylet:
        yield raylet


def written(path: Path) -> int:
    """Return the port in the file, once it is there."""
    deadline = time.monotonic() + 100
    while not path.exists():
        assert time.monotonic() < deadline, f"no {path.name}"
        time.sleep(0.01)
    return int(path.read_text())


@pytest.mark.parametrize("name", ["metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port"])
def test_services_of_the_dashboard_are_not_in_use(tmp_path: Path, name: str) -> None:
    with started(tmp_path) as raylet:
        assert written(tmp_path / f"{name}_abc") == -1
        assert raylet.communicate()[0] == ""  # the output ends once the program has ended, with its raylet


def test_first_connection_starts_the_agent_of_runtime_environments(tmp_path: Path) -> None:
    with started(tmp_path, "--runtime-env-agent-port=0", "--node-ip-address=127.0.0.1") as raylet:
        port = written(tmp_path / "runtime_env_agent_port_abc")
        socket.create_connection(("127.0.0.1", port)).close()
        assert raylet.stdout is not None
        assert raylet.stdout.readline().strip() == f"--runtime-env-agent-port={port}"


def test_nobody_else_can_take_the_port_when_the_agent_starts(tmp_path: Path) -> None:
    """Another user of the machine who connects first does not get the port."""
    with started(tmp_path, "--runtime-env-agent-port=0", "--node-ip-address=127.0.0.1"):
        port = written(tmp_path / "runtime_env_agent_port_abc")
        with socket.create_connection(("127.0.0.1", port), timeout=100) as first:
            response = ""
            while not response:
                with socket.socket() as thief:
                    thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    with pytest.raises(OSError, match="Address already in use"):
                        thief.bind(("127.0.0.1", port))
                if select.select([first], [], [], 0)[0]:
                    response = first.recv(10).decode()
        assert response == "agent", "the connection that started it is served, too"


def test_ends_with_its_raylet(tmp_path: Path) -> None:
    with started(tmp_path, "--runtime-env-agent-port=0", "--node-ip-address=127.0.0.1") as raylet:
        written(tmp_path / "runtime_env_agent_port_abc")
        assert raylet.communicate()[0] == ""
