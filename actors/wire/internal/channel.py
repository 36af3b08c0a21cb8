"""A connection to one actor's listener, of a gateway or another actor: sends requests, matches responses by token."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import secrets
from collections.abc import Callable, Sequence
from typing import Any

from muster.actors.wire.internal import envelope
from muster.actors.wire.internal.envelope import REQUEST_HEAD, Kind, Role
from muster.actors.wire.internal.fetch import FetchedPartition, FetchRequest, LastFetched, read_fetched, write_fetch
from muster.actors.wire.internal.leader_epochs import OnLeaderEpochs, read_epochs
from muster.actors.wire.internal.leases import ChannelLeases, MemberLease
from muster.actors.wire.internal.markers import Marked, Marker, read_marked, write_markers
from muster.actors.wire.internal.produce import ProducedPartition, ProduceRequest, read_produced, write_produce
from muster.actors.wire.internal.verification import VerifyRequest, read_verified, write_verify
from muster.actors.wire.kafka.codec import ErrorCode
from muster.actors.wire.kafka.framing import Framer, FrameTooLarge, Outbox
from muster.actors.wire.sockets.options import internal_tls, keep_alive
from muster.placement.mapping.registration import RegistrationUpdate
from muster.placement.view import Endpoint

log = logging.getLogger(__name__)

OnUpdates = Callable[[int, int, tuple[RegistrationUpdate, ...], bool], None]
"""Called with partition, epoch, updates and whether they are a snapshot."""

_TOKENS = 1 << 32
_CONNECT_S = 5.0


class ChannelLost(ConnectionError):
    """The actor's connection is lost, or it did not respond in time. The request may or may not have taken effect."""


class NotSent(ChannelLost):
    """The request was not sent: it has had no effect."""


OnLease = Callable[[MemberLease, bytes], None]
"""Called with the lease that came with a response, and the response frame, before the response is used."""


OnResponse = Callable[["bytes | ChannelLost"], None]
"""Called once, with the response frame or the reason why there is none."""


OnFetched = Callable[["list[FetchedPartition] | ChannelLost"], None]
"""Called once, with the partitions of a fetch or the reason why there are none."""


OnProduced = Callable[["Sequence[ProducedPartition] | ChannelLost"], None]
"""Called once, with the results of batches or the reason why there are none."""


OnMarked = Callable[["Marked | ChannelLost"], None]
"""Called once, with the results of markers or the reason why there are none."""

_TICK_S = 1.0
_MAX_SILENT_TICKS = 3
"""With requests pending, a silent actor is pinged after one tick and given up after three (2 to 3 s)."""
_RESPONSES = frozenset((Kind.RESPONSE, Kind.FETCHED, Kind.PRODUCED, Kind.MARKED, Kind.VERIFIED))


_Waiting = tuple[Callable[[bytes], None], Callable[[ChannelLost], None], float, OnLease | None]
"""Callbacks for the response under a token and for its loss; the deadline, on the loop's clock; and for a lease."""


class Channel(asyncio.Protocol):
    """Open with :func:`connect`. Call all methods on the event loop's thread."""

    def __init__(
        self,
        endpoint: Endpoint,
        on_updates: OnUpdates | None,
        on_lost: Callable[[], None],
        role: Role = Role.GATEWAY,
        on_epochs: OnLeaderEpochs | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._role = role
        self._on_epochs = on_epochs
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._on_updates = on_updates
        self._on_lost = on_lost
        self.usable = False
        """Whether the actor has proven itself, and is connected."""
        self._framer = Framer(envelope.LIMIT_BYTES)
        self._nonce = secrets.token_bytes(envelope.NONCE_BYTES)
        self._waiting: dict[int, _Waiting] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._silent_ticks = 0
        """Ticks since the last message. A pause of this process counts as one, whatever its length."""
        self._unsent_bytes = 0
        """At the last tick."""
        self._lost = "closed by the actor"
        self._tokens = itertools.count(1)
        self.is_local = False
        """Whether the actor is on this node."""
        self._out = Outbox()
        self._leases = ChannelLeases(self._out.put)
        self._pinging: list[asyncio.Future[None]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._out.open(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.usable = False
        self._out.lost()
        error = ChannelLost(str(exc) if exc else self._lost)
        if not self.ready.done():
            self.ready.set_exception(error)
        self._leases.end()
        if self._timer is not None:
            self._timer.cancel()
        self._on_lost()
        waiting, self._waiting = self._waiting, {}
        for each in waiting.values():
            self._fail(each, error)
        pinging, self._pinging = self._pinging, []
        for future in pinging:
            if not future.done():
                future.set_exception(error)

    def data_received(self, data: bytes) -> None:
        self._silent_ticks = 0
        try:
            for message in self._framer.feed(data):
                if message[0] in _RESPONSES and self.usable:
                    if len(message) < envelope.TOKEN_HEAD.size:
                        raise ValueError(f"a response of {len(message)} bytes has no token")
                    self._answered(int.from_bytes(message[1:5], "big"), message[5:])
                else:
                    self._receive(message)
        except (FrameTooLarge, envelope.Unauthenticated, ValueError, IndexError) as error:
            log.warning("connection to %s closed: %s", self.endpoint.path, error)
            self.close()

    def _receive(self, message: bytes) -> None:
        kind = message[0]
        if kind != Kind.CHALLENGE and not self.usable:
            raise envelope.Unauthenticated("an actor that has not proven itself")
        if kind == Kind.LEASE:
            self._leased(*envelope.read_lease(message))
        elif kind == Kind.REVOKED:
            self._leases.revoke(envelope.read_token(message)[0])
        elif kind == Kind.PING:
            self._leases.alive(envelope.read_ping(message))
            pinging, self._pinging = self._pinging, []
            for future in pinging:
                if not future.done():
                    future.set_result(None)
        elif kind == Kind.REGISTRATION_UPDATES:
            if self._on_updates is not None:
                self._on_updates(*envelope.read_updates(message))
        elif kind == Kind.EPOCHS:
            if self._on_epochs is not None:
                self._on_epochs(read_epochs(message))
        elif kind == Kind.CHALLENGE:
            self._respond_to_challenge(message[1:])
        else:
            raise ValueError(f"unexpected internal message of kind {kind}")

    def _answered(self, token: int, data: bytes) -> None:
        waiting = self._waiting.pop(token, None)
        if waiting is None:
            return
        try:
            waiting[0](data)
        except ValueError:  # not a response: the channel is closed, and with it this one is lost
            self._waiting[token] = waiting
            raise

    def _leased(self, token: int, group: int, member: int, frame: bytes) -> None:
        waiting = self._waiting.get(token)
        on_lease = None if waiting is None else waiting[3]
        if on_lease is not None:
            on_lease(self._leases.grant(group, member), frame)
        self._answered(token, frame)

    def _respond_to_challenge(self, body: bytes) -> None:
        secret = self.endpoint.secret
        if len(body) == envelope.NONCE_BYTES:
            self._out.put(bytes([Kind.CHALLENGE]) + envelope.proof(secret, self._role.value, body) + self._nonce)
        elif envelope.same_proof(body, envelope.proof(secret, Role.LISTENER.value, self._nonce)):
            if not self.ready.done():
                self.usable = True
                self.ready.set_result(None)
        else:
            raise envelope.Unauthenticated("an actor without the cluster's secret")

    def send(
        self,
        context: bytes,
        frame: bytes,
        on_response: OnResponse,
        *,
        timeout_s: float,
        on_lease: OnLease | None = None,
    ) -> int:
        """Send a Kafka request frame. Returns its token, for :meth:`cancel`. Raises NotSent.

        The timeout is at most a second late. Costs half of :meth:`call`. Frames arrive in the order of the calls of
        both.
        """
        token = self._expect(on_response, on_response, timeout_s, on_lease)
        self._out.put(REQUEST_HEAD.pack(Kind.REQUEST, token, len(context)), context, frame)
        return token

    def fetch(
        self, request: FetchRequest, on_fetched: OnFetched, *, timeout_s: float, last: LastFetched | None = None
    ) -> int:
        """Send a fetch; otherwise as :meth:`send`. ``last`` reads the response."""
        read = read_fetched if last is None else last.read
        token = self._expect(lambda body: on_fetched(read(body)), on_fetched, timeout_s)
        self._out.put(write_fetch(token, request))
        return token

    def produce(self, request: ProduceRequest, on_produced: OnProduced, *, timeout_s: float) -> int:
        """Send batches; otherwise as :meth:`send`. They are written even if the request is cancelled."""
        token = self._expect(lambda body: on_produced(read_produced(body)), on_produced, timeout_s)
        self._out.put(*write_produce(token, request))
        return token

    def mark(self, markers: Sequence[Marker], on_marked: OnMarked, *, timeout_s: float) -> int:
        """Send markers; otherwise as :meth:`send`. They are written even if the request is cancelled."""
        token = self._expect(lambda body: on_marked(read_marked(body)), on_marked, timeout_s)
        self._out.put(write_markers(token, markers))
        return token

    def _expect(
        self,
        answered: Callable[[bytes], None],
        lost: Callable[[ChannelLost], None],
        timeout_s: float = math.inf,
        on_lease: OnLease | None = None,
    ) -> int:
        """Return a token under which a response is awaited. Raises NotSent."""
        if self._out.transport is None:
            raise NotSent("not connected")
        loop = asyncio.get_running_loop()
        token = next(self._tokens) % _TOKENS
        self._waiting[token] = (answered, lost, loop.time() + timeout_s, on_lease)
        if self._timer is None:
            self._silent_ticks = 0
            self._timer = loop.call_later(_TICK_S, self._tick)
        return token

    def _tick(self) -> None:
        """Give up the requests whose time is over. One timer for all costs less than one for each."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_TICK_S, self._tick) if self._waiting else None
        now_s = loop.time()
        for token in [token for token, each in self._waiting.items() if each[2] <= now_s]:
            self._expired(token)
        if self._waiting:
            self._check_silence()

    def _check_silence(self) -> None:
        """Ping a silent actor, then close: one that is paused does not, and TCP needs longer to find out."""
        before, self._unsent_bytes = self._unsent_bytes, self._out.unsent_bytes
        if self._unsent_bytes < before:  # it reads a long request
            self._silent_ticks = 0
        self._silent_ticks += 1
        if self._silent_ticks >= _MAX_SILENT_TICKS:
            log.warning("connection to %s closed: the actor is silent", self.endpoint.path)
            self.abort("the actor is silent")
        elif self._silent_ticks == 1:
            self._leases.ping()

    def cancel(self, token: int) -> None:
        """Cancel the request: the actor is informed, and ``on_response`` is not called."""
        if self._waiting.pop(token, None) is not None:
            self._out.put(envelope.token_head(Kind.CANCEL, token))

    def _expired(self, token: int) -> None:
        waiting = self._waiting.get(token)
        if waiting is not None:
            self.cancel(token)
            self._fail(waiting, ChannelLost("no response in time"))

    def _fail(self, waiting: _Waiting, error: ChannelLost) -> None:
        """Whatever one of those that wait does, the others are informed."""
        try:
            waiting[1](error)
        except Exception:
            log.exception("a request to %s that failed: %s", self.endpoint.path, error)

    def call(self, context: bytes, frame: bytes, on_lease: OnLease | None = None) -> asyncio.Future[bytes]:
        """Send a Kafka request frame; the future gets the response frame or ChannelLost.

        Nothing is awaited before the frame is queued: frames arrive in the order of the calls. Cancelling
        the future informs the actor that the response is no longer needed.
        """
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        token = self._await_response(future, bytes, on_lease)
        if token is not None:
            self._out.put(REQUEST_HEAD.pack(Kind.REQUEST, token, len(context)), context, frame)
        return future

    def query(self, query: dict[str, Any]) -> asyncio.Future[dict[str, Any]]:
        """Send the query ``{"ask": NAME, ...}``; the future gets the response or ChannelLost.

        The response to a refused query is ``{"error": TEXT}``. Cancelling the future informs the actor. Raises
        TypeError or ValueError if the query does not fit JSON or is longer than ``envelope.QUERY_LIMIT_BYTES``.
        """
        data = envelope.write_query(query)
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        token = self._await_response(future, envelope.read_response)
        if token is not None:
            self._out.put(envelope.token_head(Kind.QUERY, token), data)
        return future

    def verify(self, request: VerifyRequest) -> asyncio.Future[list[ErrorCode]]:
        """Send partitions of a transaction; the future gets a code for each, or ChannelLost."""
        future: asyncio.Future[list[ErrorCode]] = asyncio.get_running_loop().create_future()
        token = self._await_response(future, read_verified)
        if token is not None:
            self._out.put(write_verify(token, request))
        return future

    def _await_response(
        self, future: asyncio.Future[Any], read: Callable[[bytes], Any], on_lease: OnLease | None = None
    ) -> int | None:
        """Return the token to send with; None if nothing can be sent, in which case the future has the error."""
        try:
            token = self._expect(
                lambda data: None if future.done() else future.set_result(read(data)),
                lambda error: None if future.done() else future.set_exception(error),
                on_lease=on_lease,
            )
        except NotSent as error:
            future.set_exception(error)
            return None
        future.add_done_callback(lambda done: self.cancel(token) if done.cancelled() else None)
        return token

    def ping(self) -> asyncio.Future[None]:
        """Ping the actor; the future is done once its event loop has sent a ping back, or gets ChannelLost."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._out.transport is None:
            future.set_exception(NotSent("not connected"))
        else:
            self._pinging.append(future)
            self._leases.ping()
        return future

    def close(self) -> None:
        """Close the connection after sending what is queued. Its leases end now."""
        self._leases.end()
        self._out.close()

    def abort(self, why: str) -> None:
        """Close the connection now, whether or not the actor reads: what waits fails, and leases end, at once."""
        self._lost = why
        self._leases.end()
        self._out.abort()


async def connect(
    endpoint: Endpoint,
    node_id: str,
    *,
    on_updates: OnUpdates | None,
    on_lost: Callable[[], None],
    role: Role = Role.GATEWAY,
    on_epochs: OnLeaderEpochs | None = None,
) -> Channel:
    """Connect, with mutual authentication; by Unix domain socket if the actor is on ``node_id``.

    Raises OSError if it fails, or takes longer than a few seconds (a stopped actor accepts but never responds).
    """
    loop = asyncio.get_running_loop()

    def protocol() -> Channel:
        return Channel(endpoint, on_updates, on_lost, role, on_epochs)

    async with asyncio.timeout(_CONNECT_S):
        if endpoint.node_id == node_id:
            _, channel = await loop.create_unix_connection(protocol, endpoint.path)
            channel.is_local = True
        else:
            tls = internal_tls(endpoint.secret, is_server=False) if endpoint.tls else None
            transport, channel = await loop.create_connection(protocol, endpoint.host, endpoint.port, ssl=tls)
            keep_alive(transport.get_extra_info("socket"))
        try:
            await channel.ready
        except BaseException:
            channel.close()
            raise
    return channel
