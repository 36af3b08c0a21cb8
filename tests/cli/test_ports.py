"""Ports that are reserved for the gateways until these start."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from muster.gateway.cli.errors import CliError
from muster.gateway.cli.lifecycle.ports import Ports
from muster.gateway.cli.ray.watchdog import MARKER

HOST = "127.0.0.1"


def refuses(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=10).close()
    except ConnectionRefusedError:
        return True
    return False


def test_clients_are_refused_and_others_do_not_get_it() -> None:
    """A client that is accepted there would wait for a response that never comes."""
    held = Ports()
    (port,) = held.take(HOST, 0, 1, "say another")
    assert refuses(port)
    with pytest.raises(CliError, match=rf"port {port} on {HOST} is taken"):
        Ports().take(HOST, port, 1, "say another")
    held.release()
    socket.create_server((HOST, port)).close()


LISTEN = (
    "import socket; held = socket.create_server(('127.0.0.1', 0)); print(held.getsockname()[1], flush=True); input()"
)


@pytest.mark.parametrize(("name", "who"), [(MARKER, "another Muster"), ("OTHER", r"python[\d.]*")])
def test_the_process_that_has_it_is_named(name: str, who: str) -> None:
    command, piped = [sys.executable, "-c", LISTEN], subprocess.PIPE
    with subprocess.Popen(command, env={name: "x"}, stdin=piped, stdout=piped, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with pytest.raises(CliError, match=rf"is taken by {who} \(pid {process.pid}\); say another"):
            Ports().take(HOST, port, 1, "say another")
        process.stdin.close()


def test_a_port_whose_last_connections_the_kernel_still_remembers() -> None:
    """A connection that this side closes first is in TIME_WAIT: the gateways were killed or stopped a moment ago."""
    (port,) = (before := Ports()).take(HOST, 0, 1, "say another")
    before.release()
    with socket.create_server((HOST, port)) as server, socket.create_connection((HOST, port)) as client:
        accepted, _ = server.accept()
        accepted.close()
        assert client.recv(1) == b""
    held = Ports()
    assert held.take(HOST, port, 1, "say another") == (port,)
    assert refuses(port)
    held.release()
    socket.create_server((HOST, port)).close()
