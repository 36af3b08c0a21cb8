"""Ports that are reserved for the gateways until these start."""

from __future__ import annotations

import socket

import pytest

from muster.gateway.cli.errors import CliError
from muster.gateway.cli.lifecycle.ports import Ports

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
