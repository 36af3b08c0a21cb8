"""One Kafka client's connection: frames in, answers out in the order of the requests."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from typing import TYPE_CHECKING, cast

from actors.wire import codec, envelope
from actors.wire.framing import Framer, FrameTooLarge, framed
from gateway.attribution.connection import ConnectionState
from gateway.registry import APIS, Call, Reply
from placement.mapping import canonical_host

if TYPE_CHECKING:
    from gateway.server import Gateway

log = logging.getLogger(__name__)

PIPELINE_LIMIT = 256
"""Requests of one connection that may wait for an answer before its socket is read no further."""


class BadRequest(ValueError):
    """The connection cannot go on: what came is no request that this gateway serves."""


class Connection(asyncio.Protocol):
    """Serves one client; all methods run on the event loop."""

    def __init__(self, gateway: Gateway, number: int) -> None:
        self.gateway = gateway
        self.id = f"{gateway.id}-{number}"
        self.host = ""
        self.port = 0
        self.context = b""
        self.last_active_s = time.monotonic()
        self.attribution = ConnectionState()
        self._framer = Framer(gateway.config.socket_request_max_bytes)
        self._transport: asyncio.Transport | None = None
        self._slots: deque[asyncio.Task[Reply | None]] = deque()
        self._paused = False
        self._ready: list[Reply] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop has a class of its own
        peer = transport.get_extra_info("peername") or ("unknown", 0)
        self.host, self.port = canonical_host(peer[0]), peer[1]
        self.context = envelope.write_context(self.host, self.id, "User:ANONYMOUS")
        self.gateway.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        for task in self._slots:
            task.cancel()
        self._slots.clear()
        self.gateway.closed(self)

    def data_received(self, data: bytes) -> None:
        self.last_active_s = time.monotonic()
        self.gateway.metrics.received(len(data))
        try:
            for frame in self._framer.feed(data):
                self._dispatch(frame)
        except (FrameTooLarge, BadRequest) as error:
            self.close(str(error))

    def _dispatch(self, frame: bytes) -> None:
        call = Call(self.gateway, self, self._header(frame), frame)
        task = asyncio.get_running_loop().create_task(self._serve(call))
        self._slots.append(task)
        task.add_done_callback(self._drain)
        if len(self._slots) >= PIPELINE_LIMIT:
            self._pause(True)

    def _header(self, frame: bytes) -> codec.Header:
        try:
            header = codec.decode_header(frame)
        except (codec.UnknownApi, codec.UndecodableRequest) as error:
            raise BadRequest(str(error)) from error
        known = APIS.get(header.api_key)
        if known is None:
            raise BadRequest(f"api key {header.api_key} is not served")
        if header.api_version not in known.versions and header.api_key != codec.API_VERSIONS:
            raise BadRequest(f"{known.name} version {header.api_version} is not served")
        return header

    async def _serve(self, call: Call) -> Reply | None:
        known = APIS[call.header.api_key]
        started_s = time.perf_counter()
        outcome = "ANSWERED"
        try:
            return await known.handler(call)
        except codec.UndecodableRequest as error:
            outcome = "UNDECODABLE"
            raise BadRequest(str(error)) from error
        except Exception:
            outcome = "CLOSED"
            raise
        finally:
            duration_s = time.perf_counter() - started_s
            version = call.header.api_version if call.header.api_version in known.versions else -1
            self.gateway.metrics.request(known.name, version, outcome, duration_s)

    def _drain(self, _: asyncio.Task[Reply | None]) -> None:
        while self._slots and self._slots[0].done():
            task = self._slots.popleft()
            if task.cancelled():
                continue
            if error := task.exception():
                self._fail(error)
                return
            if (reply := task.result()) is not None:
                self._queue(reply)
        if self._paused and len(self._slots) < PIPELINE_LIMIT // 2:
            self._pause(False)

    def _fail(self, error: BaseException) -> None:
        if not isinstance(error, BadRequest):
            log.error("a request of %s failed", self.id, exc_info=error)
            self.close("an internal error, see above")
        else:
            self.close(str(error))

    def _queue(self, reply: Reply) -> None:
        if not self._ready:
            asyncio.get_running_loop().call_soon(self._flush)
        self._ready.append(reply)

    def _flush(self) -> None:
        ready, self._ready = self._ready, []
        if self._transport is None or self._transport.is_closing():
            return
        for reply in ready:
            if reply.on_sent is not None:
                reply.on_sent()
        data = [framed(reply.frame) for reply in ready]
        self.gateway.metrics.sent(sum(map(len, data)))
        self._transport.writelines(data)

    @property
    def waiting(self) -> bool:
        """Whether a request has no answer yet."""
        return bool(self._slots)

    def pause_writing(self) -> None:
        self._pause(True)

    def resume_writing(self) -> None:
        self._pause(len(self._slots) >= PIPELINE_LIMIT)

    def _pause(self, pause: bool) -> None:
        if self._transport is None or pause == self._paused or self._transport.is_closing():
            return
        self._paused = pause
        if pause:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def close(self, reason: str | None = None) -> None:
        """Close after what is queued; with a reason, one log line names the client and the reason."""
        if self._transport is None:
            return
        if reason is not None:
            log.warning("connection %s of %s:%d closed: %s", self.id, self.host, self.port, reason)
        self._flush()
        self._transport.close()
