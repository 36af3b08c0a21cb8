"""Ports for the gateways, checked before anything starts."""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Iterator
from contextlib import suppress

import psutil

from muster.actors.runtime.ray.processes import TITLE
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.ray.watchdog import MARKER

_FREE_PORTS = range(20_000, 32_000)
"""Below the ports of outgoing connections, so that none takes a port between the check and its use."""
_TRIES = 200
_TITLES = (f"{TITLE}GatewayActor", f"{TITLE}StandbyActor")
"""Processes that may listen for Muster's clients. On a given Ray they have no mark in their environment."""


class Ports:
    """Ports of this process alone, held until ``release``, so that two are never the same.

    No server listens on them meanwhile: clients are refused, as by a broker that is down, and retry.
    """

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def take(self, host: str, first: int, count: int, hint: str) -> tuple[int, ...]:
        """Return ``first`` and the following, or free ones if it is 0. Raises CliError with a taken one and the hint.

        ``host``: the address that gateways will bind; "" for all interfaces.
        """
        if first == 0:
            return tuple(self._free(host) for _ in range(count))
        wanted = range(first, first + count)
        if wanted[-1] > 65535:
            raise CliError(f"{count} gateways from port {first} on exceed port 65535; {hint}")
        for port in wanted:
            self._bind(host, port, hint)
        return tuple(wanted)

    def release(self) -> None:
        """Release them for the gateways."""
        while self._held:
            self._held.pop().close()

    def _free(self, host: str) -> int:
        for port in random.sample(_FREE_PORTS, _TRIES):
            bound = _bound(host, port)
            if isinstance(bound, socket.socket):
                self._held.append(bound)
                return port
        raise CliError(f"no free port between {_FREE_PORTS.start} and {_FREE_PORTS.stop}; choose one with --port")

    def _bind(self, host: str, port: int, hint: str) -> None:
        bound = _bound(host, port)
        if isinstance(bound, socket.socket):
            self._held.append(bound)
            return
        where = f"port {port} on {host or 'this host'}"
        if bound.errno == errno.EADDRINUSE:
            raise CliError(f"{where} is taken{_by_whom(port)}; {hint}") from bound
        raise CliError(f"{where} cannot be bound: {bound.strerror or bound}; {hint}") from bound


def _bound(host: str, port: int) -> socket.socket | OSError:
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        return error
    held = socket.socket(family, kind)
    with suppress(OSError):
        held.bind(address)
        return held
    # Taken, or connections to the previous owner are in TIME_WAIT, which does not keep a gateway from binding it.
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(address)
        held.listen()  # two sockets with SO_REUSEADDR may both bind; only one may listen
        held.shutdown(socket.SHUT_RDWR)  # clients that reconnect before the gateways serve would wait for a response
    except OSError as error:
        held.close()
        return error
    return held


def _by_whom(port: int) -> str:
    return next((f" by {who}" for who in _listeners(port)), "")


def _listeners(port: int) -> Iterator[str]:
    try:
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
                name = "another Muster" if _is_of_muster(connection.pid) else psutil.Process(connection.pid).name()
                yield f"{name} (pid {connection.pid})"
    except psutil.Error:
        return


def _is_of_muster(pid: int) -> bool:
    process = psutil.Process(pid)
    try:
        return " ".join(process.cmdline()).strip() in _TITLES or MARKER in process.environ()
    except psutil.AccessDenied:  # another user's environment
        return False
