"""A gateway's listening sockets, which outlive its process: another process of its node holds duplicates of them.

While the gateway is dead, the holder's process serves its clients. Its next process gets the same sockets, with the
same ports.

The holder (:mod:`muster.actors.wire.sockets.holder`) listens on a Unix domain socket; a node can have two of them for a
while. A gateway keeps a connection to one (:class:`HeldSockets`) for as long as it lives, so the end of the connection
is the end of the gateway. Messages are packets of JSON, sockets are passed with them (SCM_RIGHTS, unix(7)). First, both
sides prove that they know the cluster's secret, as on the internal socket
(:mod:`muster.actors.wire.internal.envelope`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
import socket
from collections.abc import Callable, Iterable
from pathlib import Path

from muster.actors.wire.internal.envelope import NONCE_BYTES, Unauthenticated, proof, same_proof
from muster.actors.wire.sockets.passing import GATEWAY, HOLDER, MAX_PACKET_BYTES, Held, close_all, receive, send

log = logging.getLogger(__name__)

BACKLOG = 1024
"""Connections that wait to be accepted, at most; the kernel may allow fewer (net.core.somaxconn)."""
_TIMEOUT_S = 5.0
"""How long a holder may take to respond. It is on the same node, in a thread of its own, which waits up to 1 s for each
gateway that is served there."""
_RETRY_S = 1.0

Listening = Callable[[str, int], list[socket.socket]]
"""Function like :func:`listening_sockets`."""


def listening_sockets(host: str, port: int) -> list[socket.socket]:
    """Listen at all addresses of ``host``, as asyncio's ``create_server`` does; port 0: a free one, the same for all.

    Raises OSError if one cannot be bound; none is then left.
    """
    flags, kind = socket.AI_PASSIVE, socket.SOCK_STREAM
    found: list[socket.socket] = []
    try:
        for family, _, protocol, _, address in dict.fromkeys(
            socket.getaddrinfo(host or None, port, type=kind, flags=flags)
        ):
            chosen = found[0].getsockname()[1] if found else port
            found.append(made := socket.socket(family, kind, protocol))
            made.setblocking(False)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                made.bind((address[0], chosen, *address[2:]))
                made.listen(BACKLOG)
            except OSError as error:
                problem = f"error while attempting to bind on address {address}: {(error.strerror or '').lower()}"
                raise OSError(error.errno, problem) from error
    except BaseException:
        close_all(found)
        raise
    return found


class HeldSockets:
    """The listening sockets of a gateway's process. For one event loop; its process ends them all, except the held."""

    def __init__(self, holders: Callable[[], Iterable[Path]], secret: bytes, name: str) -> None:
        """``holders`` gives the sockets of the node's holders at the time; ``name`` is that of the gateway's actor."""
        self._holders = holders
        self._secret = secret
        self._name = name
        self._connection: socket.socket | None = None
        self._fetched: list[Held] = []
        self._listening: list[Held] = []
        self._keeper: asyncio.Task[None] | None = None

    async def fetch(self) -> None:
        """Get the sockets of the gateway's previous process, if a holder has them."""
        await asyncio.to_thread(self._connect)

    def listen(self, use: str, host: str, port: int) -> list[socket.socket]:
        """Sockets that listen there: those that were fetched, else new ones, which the caller closes. Raises OSError.

        ``use`` distinguishes them from others with the same host and port; a port of 0 is kept in later processes.
        """
        key = f"{use} {host}:{port}"
        found = [held for name, held in self._fetched if name == key]
        self._fetched = [each for each in self._fetched if each[1] not in found]
        found = found or listening_sockets(host, port)
        self._listening += [(key, each.dup()) for each in found]
        return found

    def hold(self) -> None:
        """From now on, have a holder hold them, and the next one if that ends."""
        close_all([held for _, held in self._fetched])
        self._fetched = []
        self._keeper = asyncio.get_running_loop().create_task(self._keep())

    async def _keep(self) -> None:
        while True:
            if self._connection is None and any(self._holders()):
                await asyncio.to_thread(self._connect)
                close_all([held for _, held in self._fetched])
                self._fetched = []
            if self._connection is not None and await asyncio.to_thread(self._give):
                await _until_closed(self._connection)
                self._disconnect()
                log.info("the sockets of %s are held no more", self._name)
            else:
                await asyncio.sleep(_RETRY_S)

    def _connect(self) -> None:
        """Become the owner of the sockets under this name, and get them. Blocks; no effect without a holder."""
        for path in self._holders():
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            connection.settimeout(_TIMEOUT_S)
            try:
                connection.connect(str(path))
                found = self._own(connection)
            except (FileNotFoundError, ConnectionRefusedError):  # it has ended
                connection.close()
            except (OSError, ValueError, Unauthenticated) as error:
                connection.close()
                log.info("%s holds no sockets for %s: %s", path.name, self._name, error)
            else:
                self._disconnect()
                self._connection, self._fetched = connection, found
                if found:
                    return

    def _own(self, connection: socket.socket) -> list[Held]:
        self._authenticate(connection)
        connection.send(json.dumps({"own": self._name}).encode())
        response, found = receive(connection)
        if "error" in response:
            raise OSError(response["error"])
        return found

    def _authenticate(self, connection: socket.socket) -> None:
        challenge, nonce = connection.recv(MAX_PACKET_BYTES), secrets.token_bytes(NONCE_BYTES)
        if len(challenge) != NONCE_BYTES:
            raise Unauthenticated("no challenge")
        connection.send(proof(self._secret, GATEWAY, challenge) + nonce)
        if not same_proof(connection.recv(MAX_PACKET_BYTES), proof(self._secret, HOLDER, nonce)):
            raise Unauthenticated("a holder without the cluster's secret")

    def _give(self) -> bool:
        """Have the holder hold what this process listens on. Blocks. Returns whether it does."""
        assert self._connection is not None
        try:
            send(self._connection, {"hold": [key for key, _ in self._listening]}, [held for _, held in self._listening])
            response, _ = receive(self._connection)
        except (OSError, ValueError) as error:
            log.info("the sockets of %s are not held: %s", self._name, error)
            self._disconnect()
            return False
        return "error" not in response

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def abandon(self) -> None:
        """Abandon the sockets: the gateway has not started, and the holder keeps them for the next attempt."""
        self._close_all()
        self._disconnect()

    def _close_all(self) -> None:
        close_all([held for _, held in (*self._listening, *self._fetched)])
        self._listening, self._fetched = [], []

    async def release(self) -> None:
        """Release the gateway's sockets in every other process: it stops. This process closes its own."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        self._close_all()
        await asyncio.to_thread(self._release)

    def _release(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(OSError, ValueError):
                send(self._connection, {"release": True})
                receive(self._connection)
            self._disconnect()


async def _until_closed(connection: socket.socket) -> None:
    """Return once the other side has closed the connection, on which it sends nothing by itself."""
    loop, closed = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(connection.fileno(), closed.set)
    try:
        await closed.wait()
    finally:
        loop.remove_reader(connection.fileno())
