"""The listener inside an actor: gateways connect, authenticate, and send requests."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import secrets
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from muster.actors.wire.internal import envelope
from muster.actors.wire.internal.envelope import TOKEN_HEAD, Kind, Role
from muster.actors.wire.internal.fetch import FetchRequest, read_fetch
from muster.actors.wire.internal.markers import Marker, read_markers
from muster.actors.wire.internal.produce import ProduceRequest, read_produce
from muster.actors.wire.internal.verification import VerifyRequest, read_verify
from muster.actors.wire.kafka.framing import Framer, FrameTooLarge, Outbox
from muster.actors.wire.limited_log import LimitedLog
from muster.actors.wire.sockets.options import TlsListener, internal_tls, keep_alive
from muster.placement.client import Context
from muster.placement.view import Endpoint

log = logging.getLogger(__name__)


_PROOF_BYTES = 64
"""Largest frame of a peer that has not authenticated yet."""
_PROOF_S = 5.0
MAX_UNSENT_BYTES = 4 << 20
"""Records of fetches are not read while a gateway has not taken so much."""


class Handler(Protocol):
    """Serves the requests. All methods are called on the event loop and must not block."""

    def request(self, peer: Peer, token: int, context: Context, frame: bytes) -> None:
        """Handle a Kafka request frame. Answer it, now or later, with ``peer.reply(token, frame)``."""

    def query(self, peer: Peer, token: int, query: dict[str, Any]) -> None:
        """Handle a query other than Kafka's APIs. Answer it, now or later, with ``peer.respond(token, response)``."""

    def produce(self, peer: Peer, token: int, request: ProduceRequest) -> None:
        """Append these batches, and send what became of them."""

    def markers(self, peer: Peer, token: int, markers: list[Marker]) -> None:
        """End these transactions in the actor's logs, and send what became of that."""

    def verify(self, peer: Peer, token: int, request: VerifyRequest) -> None:
        """Send whether these partitions are in that transaction, once they are."""

    def fetch(self, peer: Peer, token: int, request: FetchRequest) -> None:
        """Send what is in the logs of these partitions, or where it is."""

    def cancel(self, peer: Peer, token: int) -> None:
        """Cancel the request under that token: its response is no longer needed."""

    def heartbeats_seen(self, peer: Peer, leases: list[envelope.SeenLease]) -> None:
        """Handle the gateway's report of heartbeats that it has answered with these leases."""

    def lease_confirmed(self, peer: Peer, lease: int) -> None:
        """Handle the gateway's confirmation that it does not use this lease of a group any more."""

    def joined(self, peer: Peer) -> None:
        """Note that a gateway, or another actor, has connected and authenticated."""

    def left(self, peer: Peer) -> None:
        """Note that the gateway has disconnected; no response can reach it."""


class Peer(asyncio.Protocol):
    """The connection of one gateway, or of another actor, on the actor's side."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._framer = Framer(_PROOF_BYTES)
        self._nonce = secrets.token_bytes(envelope.NONCE_BYTES)
        self._proven = False
        self.is_gateway = True
        """Else it is another actor."""
        self._host = "this node"
        self._out = Outbox()
        self.send = self._out.put
        """Queues the parts of a message. All messages of one turn of the event loop are sent with one write."""
        self._is_paused = False
        """Whether the transport says when it has sent enough."""
        self._on_drained: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._out.open(transport, MAX_UNSENT_BYTES)
        self._server.remember(self)
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self._host = str(peer[0])
            keep_alive(transport.get_extra_info("socket"))
        self._deadline = asyncio.get_running_loop().call_later(_PROOF_S, self._too_late)
        self.send(bytes([Kind.CHALLENGE]) + self._nonce)

    def _too_late(self) -> None:
        self._closes("silent", "the peer did not prove that it knows the secret")

    @property
    def is_full(self) -> bool:
        """Whether so much is to be sent to it that large messages should wait."""
        return self._out.queued_bytes > MAX_UNSENT_BYTES

    def when_drained(self, work: Callable[[], None]) -> None:
        """Call it once when it has taken most of what is to be sent; instead of what was passed before."""
        self._on_drained = work
        asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        """Call the work if nothing is to be sent: the transport says nothing after it sent everything at once."""
        if self._is_paused or self._out.transport is None:
            return
        if self.is_full:
            asyncio.get_running_loop().call_soon(self._look)
        else:
            self._drained()

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._drained()

    def _drained(self) -> None:
        work, self._on_drained = self._on_drained, None
        if work is not None:
            work()

    def connection_lost(self, exc: Exception | None) -> None:
        self._out.lost()
        self._deadline.cancel()
        self._server.forget(self)
        if self._proven:
            self._server.handler.left(self)

    def data_received(self, data: bytes) -> None:
        try:
            for message in self._framer.feed(data):
                if message[0] == Kind.REQUEST and self._proven:
                    self._server.handler.request(self, *envelope.read_request(message))
                else:
                    self._receive(message)
        except (FrameTooLarge, envelope.Unauthenticated, ValueError, IndexError) as error:
            self._closes(type(error).__name__, str(error))

    def _closes(self, kind: str, why: str) -> None:
        """Anyone who can reach the port can cause this line."""
        self._server.limited_log.warning(kind, self._host, "internal connection of %s closed: %s", self._host, why)
        self.close()

    def _receive(self, message: bytes) -> None:
        kind = message[0]
        if not self._proven:
            self._prove(message)
        elif kind == Kind.PRODUCE:
            self._server.handler.produce(self, *read_produce(message))
        elif kind == Kind.MARKERS:
            self._server.handler.markers(self, *read_markers(message))
        elif kind == Kind.VERIFY:
            self._server.handler.verify(self, *read_verify(message))
        elif kind == Kind.FETCH:
            self._server.handler.fetch(self, *read_fetch(message))
        elif kind == Kind.QUERY:
            self._query(*envelope.read_token(message))
        elif kind == Kind.CANCEL:
            self._server.handler.cancel(self, envelope.read_token(message)[0])
        elif kind == Kind.PING:
            self.send(message)
        elif kind == Kind.SEEN:
            self._server.handler.heartbeats_seen(self, envelope.read_seen(message))
        elif kind == Kind.REVOKED:
            self._server.handler.lease_confirmed(self, envelope.read_token(message)[0])
        else:
            raise ValueError(f"unexpected internal message of kind {kind}")

    def _query(self, token: int, data: bytes) -> None:
        try:
            query = envelope.read_query(data)
        except envelope.InvalidQuery as error:
            self.respond(token, {"error": str(error)})
        else:
            self._server.handler.query(self, token, query)

    def _prove(self, message: bytes) -> None:
        claim, nonce = message[1:33], message[33:]
        roles = (Role.GATEWAY, Role.ACTOR)
        proofs = {role: envelope.proof(self._server.secret, role.value, self._nonce) for role in roles}
        role = next((role for role in roles if envelope.same_proof(claim, proofs[role])), None)
        if len(nonce) != envelope.NONCE_BYTES or role is None:
            raise envelope.Unauthenticated("a peer without the cluster's secret")
        self._proven = True
        self.is_gateway = role is Role.GATEWAY
        self._deadline.cancel()
        self._framer.limit_bytes = envelope.LIMIT_BYTES
        self.send(bytes([Kind.CHALLENGE]) + envelope.proof(self._server.secret, Role.LISTENER.value, nonce))
        self._server.handler.joined(self)

    def reply(self, token: int, frame: bytes) -> None:
        """Respond to a request; dropped if the gateway has disconnected."""
        self._out.put(TOKEN_HEAD.pack(Kind.RESPONSE, token), frame)

    def respond(self, token: int, response: dict[str, Any]) -> None:
        """Respond to a query; dropped if the gateway is gone.

        Raises TypeError or ValueError if JSON cannot represent it.
        """
        self.reply(token, envelope.write_response(response))

    def close(self) -> None:
        """Close the connection after sending what is queued."""
        self._out.close()


class Server:
    """Listens on a Unix domain socket for this node and on TCP for others."""

    def __init__(self, handler: Handler, secret: bytes) -> None:
        self.handler = handler
        self.secret = secret
        self.limited_log = LimitedLog(log)
        self._peers: set[Peer] = set()
        self._servers: list[asyncio.Server | TlsListener] = []
        self._path: Path | None = None

    async def start(
        self, *, node_id: str, host: str, path: Path, ports: Sequence[int] = (0,), tls: bool = False
    ) -> Endpoint:
        """Listen; ``host`` is this node's address, ``path`` the socket file (replaced if it exists).

        ``ports``: listens on one of these; 0 is any free port. Raises OSError if all are taken. ``tls``: for other
        nodes.
        """
        loop = asyncio.get_running_loop()
        make_room(path)
        self._path = path
        self._servers = [await loop.create_unix_server(self._accept, str(path))]
        os.chmod(path, 0o600)  # noqa: PTH101 - the socket was made just now
        context = internal_tls(self.secret, is_server=True) if tls else None
        remote = await self._on_one_of(ports, host, context)
        self._servers.append(remote)
        port = remote.sockets[0].getsockname()[1]
        return Endpoint(node_id=node_id, host=host, port=port, path=str(path), secret=self.secret, tls=tls)

    async def _on_one_of(
        self, ports: Sequence[int], host: str, tls: ssl.SSLContext | None
    ) -> asyncio.Server | TlsListener:
        start = os.getpid() % len(ports)  # keeps actors that start together from all trying the same one
        for port in [*ports[start:], *ports[:start]]:
            try:
                if tls is not None:
                    return TlsListener(host, port, tls, self._accept, self._handshake_failed)
                return await asyncio.get_running_loop().create_server(self._accept, host, port)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
        raise OSError(errno.EADDRINUSE, f"all ports from {ports[0]} to {ports[-1]} of {host} are taken")

    def _accept(self) -> Peer:
        return Peer(self)

    def _handshake_failed(self, host: str, error: OSError) -> None:
        why = getattr(error, "reason", None) or str(error) or "closed in the middle of the handshake"
        text = "internal connection of %s closed: no TLS with the cluster's secret (%s)"
        self.limited_log.warning("TLS", host, text, host, str(why).replace("_", " ").lower())

    def remember(self, peer: Peer) -> None:
        """Remember a connected peer: with TLS, after the handshake."""
        self._peers.add(peer)

    def forget(self, peer: Peer) -> None:
        self._peers.discard(peer)

    async def stop(self) -> None:
        """Stop listening, and close every connection after sending what is queued for it."""
        for server in self._servers:
            server.close()
        for peer in list(self._peers):
            peer.close()
        self.limited_log.flush()
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def make_room(path: Path) -> None:
    """Prepare a path for a Unix domain socket. Raises PermissionError if another user has its folder."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.parent.stat().st_uid != os.getuid():
        raise PermissionError(f"{path.parent} belongs to another user; remove it")
    path.unlink(missing_ok=True)
