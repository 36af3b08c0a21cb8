"""One Kafka client's connection: it reads frames, and writes the responses in the order of the requests."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import cast

from muster.actors.config import Listener
from muster.actors.wire.internal import envelope
from muster.actors.wire.kafka.framing import SIZE_BYTES, Buffer, Framer, FrameTooLarge, write_framed
from muster.gateway.attribution.connection import ConnectionState
from muster.gateway.listener.administration import DOOR
from muster.gateway.listener.api import APIS, Api, Call, Reply
from muster.gateway.listener.complaints import BadRequest, Cause, Complaint
from muster.gateway.listener.gateway import Gateway
from muster.gateway.listener.headers import header_of
from muster.gateway.listener.leased import LATER, LeasedHeartbeats
from muster.gateway.listener.limiting.accepting import CAUSES, Admission
from muster.gateway.listener.limiting.charging import settle
from muster.gateway.listener.limiting.throttle_time import with_throttle_time
from muster.gateway.listener.limiting.throttling import Mute, has_been_closed
from muster.gateway.listener.limiting.turns import TURN_S, over
from muster.gateway.listener.outgoing import Outgoing
from muster.gateway.listener.pending import PendingRequest
from muster.gateway.listener.proxied import ProxyHeader
from muster.gateway.listener.proxy_protocol import Source
from muster.gateway.listener.tls_failures import complaint_of, no_frame
from muster.gateway.quotas.clients import ClientQuotas
from muster.gateway.security.tls.transport import TlsTransport
from muster.placement.client import ANONYMOUS
from muster.placement.mapping.nodes import canonical_host

log = logging.getLogger(__name__)

PIPELINE_LIMIT = 256
"""The most requests of one connection in service at a time; later ones wait, and no more are read."""
TURN_LIMIT = 16
"""The most requests of one connection that are started at once; fewer if they take a turn, or others wait for one."""
_TASK_SHARE = 4
"""Weight of a request that a task serves in its connection's turns: most of its work is done later."""
_TASK_S = TURN_S * _TASK_SHARE / TURN_LIMIT
"""Time that its connection is charged for such a request."""
_CLOSE_S = 5.0
"""How long a closing connection may take to send what is queued for it."""
_REASON_CHARS = 500
_LONG = frozenset((11, 14))
"""JoinGroup and SyncGroup wait for other members."""


class Connection(asyncio.Protocol):
    """Serves one client; all methods run on the event loop.

    Its memory is bounded: requests by PIPELINE_LIMIT and socket.request.max.bytes; responses because none is started
    while the client does not take those it has, and large ones only one at a time; those of all by ResponseMemory.
    """

    door = DOOR

    def __init__(self, gateway: Gateway, connection_id: str, listener: Listener, admission: Admission) -> None:
        """Take a connection; ``connection_id`` is unique, also across restarts of this gateway."""
        self.gateway = gateway
        self.listener = listener
        self._admission = admission
        self.is_held = False
        """Whether it is closed soon, and read no more."""
        self.id = connection_id
        self.host = ""
        """The client's host: behind a load balancer that sends it (PROXY protocol), not the connection's own."""
        self.port = 0
        self.principal = ANONYMOUS
        self.context = b""
        self.software = ("unknown", "unknown")
        self.sasl = gateway.sasl.session(listener) if listener.needs_login and gateway.sasl is not None else None
        self.last_active_s = time.monotonic()
        self.attribution = ConnectionState(opened_ms=gateway.now_ms())
        self._framer = Framer(gateway.config.socket_request_max_bytes)
        self._limit_frames()
        self._transport: asyncio.Transport | TlsTransport | None = None
        self._closing: asyncio.TimerHandle | None = None
        self._frames: list[bytes] = []
        """Requests that have not been started, the last one first. Two empty deques would take 1.2 KiB."""
        self._requests: list[PendingRequest] = []
        self._requests_bytes = 0
        self.tasks = 0
        self._ready: list[Reply] = []
        self._outgoing: Outgoing | None = None
        """Responses that are not handed to the socket yet, if any of them has records in files."""
        self._is_writable = True
        self._is_reading = True
        self._continues = False
        """Whether more requests are started when it is this connection's turn, and none before."""
        self._had_s = gateway.turns.arrival()
        """Up to when it has had its share of the event loop, by :mod:`~muster.gateway.listener.limiting.turns`."""
        self._refused: Complaint | None = None
        self._ends_when_idle = False
        self._mute = Mute()
        self.has_old_metadata = False
        self.late_produces = 0
        """Produce requests that wait for a view with their topics; later ones wait behind them."""
        self.late_turn = asyncio.Lock()
        self.leases = LeasedHeartbeats()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer = transport.get_extra_info("peername")
        if peer is None:  # reset by the client before it was accepted; uvloop does not report it
            cast(asyncio.Transport, transport).abort()
            self._admission.end()
            return
        self._transport = own = cast(asyncio.Transport, transport)  # uvloop has a class of its own
        behind: asyncio.Protocol = self
        if self.listener.uses_tls:
            tls = self.gateway.tls
            self._transport = behind = TlsTransport(tls.context(self.listener.name), own, self, tls.threads)
            own.set_protocol(behind)
        if self.listener.proxy_protocol:
            own.set_protocol(ProxyHeader(own, self, behind))
        self._comes_from(peer[0], peer[1])
        self.gateway.opened(self)

    def _limit_frames(self) -> None:
        """Accept only short requests while the client is not authenticated, or authenticates again."""
        limit_bytes = self.gateway.config.socket_request_max_bytes
        if self.sasl is not None and self.gateway.sasl is not None and not self.sasl.is_complete:
            limit_bytes = min(self.gateway.sasl.max_frame_bytes, limit_bytes)
        self._framer.limit_bytes = limit_bytes

    def _comes_from(self, host: str, port: int) -> None:
        self.host, self.port = canonical_host(host), port
        self.context = envelope.write_context(self.host, self.id, self.principal)

    def authenticated(self, user: str) -> None:
        """From now on the client is that user and may send any request."""
        self._limit_frames()
        if self.principal == f"User:{user}":  # it has authenticated again
            return
        self.principal = self.attribution.principal = f"User:{user}"
        self.context = envelope.write_context(self.host, self.id, self.principal)
        text = "connection %s of %s:%d is %s"
        log.info(text, self.id, self.host, self.port, self.principal, extra=self.log_fields)

    @property
    def log_fields(self) -> dict[str, object]:
        """Fields of their own in log lines about this connection."""
        known = {"connection": self.id, "client_host": self.host, "client_port": self.port}
        return known if self.principal == ANONYMOUS else {**known, "principal": self.principal}

    def refuse(self, cause: Cause, text: str) -> None:
        """Close once all earlier requests are answered; no more are accepted."""
        self._refuse(Complaint(cause, text))

    def _refuse(self, complaint: Complaint) -> None:
        self._refused = complaint
        self._frames.clear()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._closing is not None:
            self._closing.cancel()
        elif self._framer.pending_bytes:
            text = f"the client closed it in the middle of a request, {self._framer.pending_bytes} bytes had come"
            self._say(Complaint(Cause.CUT_OFF, text))
        if self._outgoing is not None:
            self._outgoing.lost()
            self._outgoing = None
        self.gateway.response_memory.release(self)
        self._transport = None
        self._mute.cancel()
        self._admission.end()
        self._give_up()
        self.leases = LeasedHeartbeats()  # they refer to requests, which refer to this connection
        self.gateway.closed(self)

    def data_received(self, data: bytes) -> None:
        """Take what the client itself sent: without the header of a balancer, and decrypted."""
        self.last_active_s = time.monotonic()
        self.gateway.metrics.received_bytes += len(data)
        if self.is_held:
            return
        try:
            frames = self._framer.feed(data)
        except FrameTooLarge as error:
            self._refused = no_frame(error, self.listener)
            frames = error.frames
        frames.reverse()
        self._frames = frames + self._frames if self._frames else frames
        self._admit()

    def established(self, certificate: bytes | None) -> None:
        """See :class:`TlsClient`; so is the next one."""
        if self.sasl is not None or certificate is None:
            return
        user = self.gateway.tls.served(self.listener.name).principal_of(certificate)
        if user is None:
            text = "no rule of ssl.principal.mapping.rules matches the client's certificate"
            self.close(Complaint(Cause.AUTHENTICATION_FAILED, text))
        else:
            self.authenticated(user)

    def handshake_failed(self, error: Exception) -> None:
        if not self.is_held:
            self.close(complaint_of(error, self.listener.name))

    def pause_writing(self) -> None:
        self._is_writable = False
        self._read(False)
        if self._outgoing is None and (size_bytes := self.waiting_bytes()):
            self.gateway.response_memory.hold(self, size_bytes)

    def waiting_bytes(self) -> int:
        """See :class:`~muster.gateway.listener.limiting.response_memory.Holder`."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def give_back(self) -> None:
        """Give the client up: it does not take its responses, and all together take too much memory."""
        if self._transport is not None:
            text = "the client does not take its responses, and all together are more than queued.max.response.bytes"
            self._say(Complaint(Cause.NOT_TAKEN, text))
            self._transport.abort()

    def resume_writing(self) -> None:
        self.gateway.response_memory.release(self)
        if self._outgoing is not None:
            self._outgoing.pump()
            self._pumped()
        else:
            self._is_writable = True
            self._admit()

    def _pumped(self, error: OSError | None = None) -> None:
        """More has been handed to the socket; all of it, if nothing is left of the outgoing responses."""
        if self._transport is None or self._outgoing is None:
            return
        self.last_active_s = time.monotonic()
        if error is not None:
            self._say(Complaint(Cause.INTERNAL_ERROR, f"the records of a response cannot be read: {error}"))
            self._transport.abort()
        elif not self._outgoing:
            outgoing, self._outgoing = self._outgoing, None
            is_blocked = outgoing.end()
            if self._closing is not None:
                self._transport.close()
            elif not is_blocked:
                self.resume_writing()

    def comes_from(self, source: Source | None) -> None:
        """See :class:`Proxied`."""
        if source is not None:
            self._comes_from(source.host, source.port)
        if (refused := self._admission.comes_from(self.host)) is not None:
            self._hold(Complaint(CAUSES[refused.why], refused.why.value))
            asyncio.get_running_loop().call_later(refused.hold_ms / 1000, self.close)

    def _hold(self, complaint: Complaint) -> None:
        """Read no more, and keep nothing."""
        self._say(complaint)
        self.is_held, self._refused = True, None
        self._give_up()
        self._framer = Framer(self._framer.limit_bytes)
        self.leases = LeasedHeartbeats()
        self._read(False)

    def _admit(self, is_turn: bool = False) -> None:
        """Start the requests that may start, in order; read more only when none is left.

        If there are many, the others have their turns in between: a single read may bring thousands. While others
        wait, only a connection that has had less than its share starts one before its turn.
        A refused request closes the connection after those before it have been answered, as in Kafka.
        """
        if self._continues:
            return
        turns, began_s, left = self.gateway.turns, 0.0, TURN_LIMIT
        tasks, is_shared, waits = self.tasks, bool(turns.waiting), False
        while self._frames and not self._mute.is_on and self._is_writable:
            frame = self._frames[-1]
            if self._requests and not self._has_room(frame):
                break
            if not began_s and (is_turn or not turns.waiting or turns.is_due(self._had_s)):
                began_s = time.perf_counter()
            elif not began_s or left <= 0 or turns.waiting or over(began_s):
                waits, self._continues = not self._continues, True
                break
            left -= 1
            if self.leases.prepared and (response := self._leased(frame)) is not None:
                if response is LATER:
                    return
                self._frames.pop()
                self._ready.append(Reply((response,)))
                if len(self._ready) == 1:
                    self._send_soon()
                continue
            try:
                call = Call(self.gateway, self, header_of(frame, self, self.gateway), frame)
            except BadRequest as error:
                self._refuse(error.complaint)
                break
            if self.sasl is not None and not self.sasl.is_complete:
                self._limit_frames()
            api = APIS[call.header.api_key]
            if self._requests and self._has_to_wait(api):
                break
            self._frames.pop()
            request = PendingRequest(api, call, self._answered, self._admit)
            self._requests.append(request)
            self._requests_bytes += len(frame)
            request.start()
            if request.is_task:
                self.tasks += 1
                left -= _TASK_SHARE - 1
        if began_s and (is_shared or waits):
            cost_s = time.perf_counter() - began_s + (self.tasks - tasks) * _TASK_S
            self._had_s = turns.charged(self._had_s, cost_s)
        if waits:
            turns.queue(self._continue, self._had_s)
        read = not self._frames and self._refused is None and not (self._mute.is_on and self._framer.pending_bytes)
        if read != self._is_reading:
            self._read(read)
        if self._refused is not None and not self._requests and not self._frames:
            self.close(self._refused)

    def _continue(self) -> float:
        """Start one more request in this connection's turn, or some while no other waits."""
        self._continues = False
        tasks = self.tasks
        self._admit(is_turn=True)
        return (self.tasks - tasks) * _TASK_SHARE / TURN_LIMIT

    def _leased(self, frame: bytes) -> bytes | None:
        """Return the response to a heartbeat that needs no coordinator, if no earlier request waits for one."""
        faults = self.gateway.faults
        if self._requests or (faults is not None and not faults.is_idle):
            return None
        if self.sasl is not None and not self.sasl.is_served:
            return None
        return self.leases.respond(frame, time.monotonic(), self._admit)

    def _has_room(self, frame: bytes) -> bool:
        """Whether a request may be served beside others. One by itself always may, whatever its size."""
        if self.sasl is not None and not self.sasl.is_complete:
            return False
        held_bytes = self._requests_bytes + len(frame)
        return len(self._requests) < PIPELINE_LIMIT and held_bytes <= self.gateway.config.socket_request_max_bytes

    def _has_to_wait(self, known: Api) -> bool:
        """Whether it must wait for an earlier response; nothing starts behind a change, so only the last can be one."""
        if known.in_order or self._requests[-1].api.is_change or not self._requests[-1].is_read:
            return True
        return known.one_at_a_time and any(request.api.one_at_a_time for request in self._requests)

    def _answered(self) -> None:
        """Send the responses whose turn it is."""
        is_scheduled = bool(self._ready)
        while self._requests and self._requests[0].is_done:
            if (complaint := self._requests[0].complaint) is not None:
                self.close(complaint)
                return
            request = self._requests.pop(0)
            self._requests_bytes -= len(request.call.frame)
            self.tasks -= request.is_task
            reply = request.response
            if self.gateway.quotas is not None:
                reply = self._charge(self.gateway.quotas, request)
            request.response = None
            if reply is not None:
                self._ready.append(reply)
        if self._ready and not is_scheduled:
            self._send_soon()
        if not self._ready and (self._frames or self._refused is not None or self._mute.is_on or not self._is_reading):
            self._admit()

    def _charge(self, quotas: ClientQuotas, request: PendingRequest) -> Reply | None:
        """Charge the quotas; return the response, to be sent at once.

        A client over its quota is muted for the throttle time.
        """
        call, reply = request.call, request.response
        throttle_ms = settle(quotas, call, is_answered=reply is not None)
        if throttle_ms:
            self._mute.extend(throttle_ms, self._unmuted)
            key, version = call.header.api_key, call.header.api_version
            if reply is not None and version in request.api.versions:
                return reply._replace(parts=with_throttle_time(key, version, reply.in_memory, throttle_ms))
        return reply

    @property
    def is_muted(self) -> bool:
        """Whether no request is started, since the client exceeds a quota."""
        return self._mute.is_on

    def unmute(self) -> None:
        """Unmute: the quotas have changed, and judge what comes next."""
        self._mute.lift()

    def _unmuted(self) -> None:
        self.last_active_s = time.monotonic()
        self._admit()

    def close_if_left(self) -> None:
        """Close it if the client has closed it while it is muted, and so not read."""
        transport = self._transport
        if self._mute.is_on and not self._is_reading and transport is not None and has_been_closed(transport):
            self.close()

    def _send_soon(self) -> None:
        """Send what is ready: at once if nothing else of the client waits, else together with what is ready soon."""
        if self._requests or (self._frames and not self._mute.is_on):
            asyncio.get_running_loop().call_soon(self._send_ready)
            return
        self._flush()
        if self._ends_when_idle:
            self._end_if_idle()

    def _send_ready(self) -> None:
        """Send what is ready; then, if the client takes it, start the requests that wait."""
        self._flush()
        self._admit()
        self._end_if_idle()

    def _end_if_idle(self) -> None:
        if self._ends_when_idle and not self.waiting:
            self.close(self._refused)

    def _flush(self) -> None:
        ready, self._ready = self._ready, []
        if not ready or self._transport is None or self._closing is not None:
            return
        if self._transport.is_closing():  # a write has failed: what is written now is dropped, so it is not counted
            return
        self.last_active_s = time.monotonic()
        is_plain = self._outgoing is None
        for reply in ready:
            is_plain = is_plain and not reply.has_files
        if not is_plain:
            self._send_by_pieces(ready)
            return
        pieces: list[Buffer] = []
        for reply in ready:
            if reply.on_sent is not None:
                reply.on_sent()
            size_bytes = sum(map(len, reply.parts))
            self.gateway.metrics.sent_bytes += SIZE_BYTES + size_bytes
            pieces.append(size_bytes.to_bytes(SIZE_BYTES, "big"))
            pieces += reply.parts  # type: ignore[arg-type]  # none is in a file
        write_framed(self._transport, pieces)

    def _send_by_pieces(self, ready: list[Reply]) -> None:
        assert self._transport is not None
        if self._outgoing is None:
            gateway = self.gateway
            memory, metrics = gateway.response_memory, gateway.metrics
            self._outgoing = Outgoing(self._transport, gateway.turns, memory, metrics, self._pumped)
        for reply in ready:
            self._outgoing.put(reply)
        self._outgoing.pump()
        if not self._outgoing:
            outgoing, self._outgoing = self._outgoing, None
            if not outgoing.end():
                self._is_writable = True
                return
        self.pause_writing()

    @property
    def waiting(self) -> bool:
        """Whether a request has no response yet; not one that is not started, since the client exceeds a quota."""
        return bool(self._requests or (self._frames and not self._mute.is_on))

    def _read(self, read: bool) -> None:
        if self._transport is None or self._closing is not None:
            return
        read = read and self._is_writable and not self.is_held
        if read != self._is_reading:
            self._is_reading = read
            (self._transport.resume_reading if read else self._transport.pause_reading)()

    def close(self, complaint: Complaint | None = None) -> None:
        """Close after sending what is ready; with a complaint, the log names the client and the reason.

        After what can be no request, that is later: a client that connects anew for each takes little time from others.
        """
        if self._transport is None or self._closing is not None:
            return
        self._flush()
        if complaint is not None and not self.is_held:
            if not self._ends_when_idle and self.gateway.holding.begin(complaint.cause, self.close):
                self._hold(complaint)
                return
            self._say(complaint)
        self._mute.cancel()
        self._give_up()
        self._closing = asyncio.get_running_loop().call_later(_CLOSE_S, self._transport.abort)
        if self._outgoing is None:
            self._transport.close()

    def end_when_idle(self) -> None:
        """Close once no request waits for its response: at once, or after one of the next responses."""
        self._ends_when_idle = True
        if not self.waiting and not self._ready:
            self.close()

    def end_soon(self, complaint: Complaint) -> None:
        """Close once all requests so far are answered, and start none from now on, unless one may take long."""
        if not any(request.api.key in _LONG for request in self._requests):
            self._refuse(complaint)
            self._admit()

    def _give_up(self) -> None:
        """Give up all requests of this client; none is answered from now on. They are charged: they may take effect."""
        requests, self._requests = self._requests, []
        for request in requests:
            request.cancel()
            if self.gateway.quotas is not None:
                settle(self.gateway.quotas, request.call, is_answered=True)
        self._requests_bytes = self.tasks = 0
        self._frames.clear()
        self._ready.clear()

    def _say(self, complaint: Complaint) -> None:
        self.gateway.metrics.connection_closed_for(complaint.cause)
        who = "" if self.principal == ANONYMOUS else f" ({self.principal})"
        text = "connection %s of %s:%d%s closed: %s"
        args = (self.id, self.host, self.port, who, complaint.text[:_REASON_CHARS])
        if complaint.is_news:
            log.warning(text, *args, extra=self.log_fields)
        elif complaint.is_news is None:
            kind = f"{complaint.cause} {complaint.about}"
            self.gateway.complaints.warning(kind, self.host, text, *args, fields=self.log_fields)
