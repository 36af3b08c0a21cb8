"""The server's side of TLS on a client's connection.

It stands between the transport of the socket and the connection, as a transport: asyncio's own begins with the first
byte, reports a failed handshake to no one, and has a buffer of 256 KiB for each connection. Here, a header may precede
the handshake, each failure has a cause, and large responses are encrypted piece by piece, as the client takes them.

Handshakes are computed in threads, since a signature with a long RSA key takes milliseconds. What follows is symmetric,
and done in the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Executor
from typing import Any, Protocol

Buffer = bytes | bytearray | memoryview

HANDSHAKE_S = 20.0
"""How long a handshake may take, a header before it included."""
_HEAD_BYTES = 5
_HANDSHAKE_RECORD = 22
_MAX_RECORD_BYTES = 16384 + 2048
_READ_BYTES = 16384
"""The largest record."""
_SMALL_BYTES = 16384
_PIECE_BYTES = 256 << 10
"""How much is encrypted at a time: about 0.2 ms of work."""
_HIGH_WATER_BYTES = 32 << 10
"""Encrypted bytes that wait for the client, before no more are encrypted."""


class NotTls(Exception):
    """The first bytes are no TLS."""

    def __init__(self, start: bytes) -> None:
        super().__init__("no TLS")
        self.start = start


class HandshakeTimeout(Exception):
    """The handshake has not ended in time."""


class HandshakeCutOff(Exception):
    """The client has closed its connection before the end of the handshake."""


class TlsClient(Protocol):
    """The connection behind the transport: its protocol. All methods are called on the event loop."""

    last_active_s: float
    """When something came last, of ``time.monotonic``."""

    def established(self, certificate: bytes | None) -> None:
        """Note that the handshake is complete. ``certificate``: the client's, as DER."""

    def handshake_failed(self, error: Exception) -> None:
        """Handle NotTls, HandshakeTimeout, HandshakeCutOff or SSLError, also after the handshake.

        What is queued has been sent.
        """

    def data_received(self, data: bytes) -> None:
        """Take data from the client."""

    def pause_writing(self) -> None:
        """Start nothing that would send more."""

    def resume_writing(self) -> None:
        """Send more, if there is any."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the socket is closed."""


class TlsTransport(asyncio.Protocol):
    """Transport of a :class:`TlsClient`, and the protocol of the socket's own."""

    __slots__ = (
        "_client",
        "_context",
        "_deadline",
        "_incoming",
        "_is_busy",
        "_is_closing",
        "_is_full",
        "_is_lost",
        "_is_paused",
        "_loop",
        "_object",
        "_outgoing",
        "_pending",
        "_pending_bytes",
        "_record",
        "_socket",
        "_threads",
        "_will_pump",
        "is_established",
        "received_bytes",
    )

    def __init__(
        self, context: ssl.SSLContext, transport: asyncio.Transport, client: TlsClient, threads: Executor
    ) -> None:
        """``threads`` compute handshakes."""
        self._loop = asyncio.get_running_loop()
        self._socket = transport
        self._socket.set_write_buffer_limits(high=_HIGH_WATER_BYTES)
        self._client = client
        self._threads = threads
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._context = context
        self._object: ssl.SSLObject | None = None
        """Made for the first record: who sends none costs little."""
        self._record: bytearray | None = bytearray()
        """Until the handshake is complete: what has come of a record."""
        self._deadline = self._loop.call_later(HANDSHAKE_S, self._too_late)
        self._pending: deque[Buffer] = deque()
        self._pending_bytes = 0
        """Not yet encrypted."""
        self.is_established = False
        self.received_bytes = 0
        """Until the handshake is complete."""
        self._is_busy = False
        """Whether a thread has the handshake."""
        self._is_closing = self._is_lost = False
        self._is_paused = self._is_full = self._will_pump = False

    @property
    def is_full(self) -> bool:
        """Whether the client has been told to send no more."""
        return self._is_full

    def data_received(self, data: bytes) -> None:
        """Take what the socket received."""
        self._client.last_active_s = time.monotonic()
        if self._is_lost or self._is_closing or not data:
            return
        if self.is_established:
            self._incoming.write(data)
            self._decrypt()
            return
        self.received_bytes += len(data)
        assert self._record is not None
        if self.received_bytes == len(data) and data[0] != _HANDSHAKE_RECORD:
            self._fail(NotTls(data[:8]))
            return
        self._record += data
        self._advance()

    def _advance(self) -> None:
        """Continue the handshake with whole records: a client that sends single bytes occupies no thread."""
        record = self._record
        if self._is_busy or not record or not (whole_bytes := _whole_records(record)):
            return
        if self._object is None:
            self._object = self._context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._incoming.write(record[:whole_bytes])
        del record[:whole_bytes]
        self._is_busy = True
        self._socket.pause_reading()
        self._loop.run_in_executor(self._threads, self._handshake).add_done_callback(self._advanced)

    def _handshake(self) -> bool:
        """In a thread. Returns whether it is complete. Raises SSLError."""
        if self._is_lost:
            return False
        assert self._object is not None
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def _advanced(self, step: asyncio.Future[bool]) -> None:
        self._is_busy = False
        error = None if step.cancelled() else step.exception()
        if self._is_lost or step.cancelled() or self._socket.is_closing():
            return
        self._send_encrypted()
        if self._is_closing:
            self._socket.close()
        elif error is not None:
            self._fail(error if isinstance(error, Exception) else ssl.SSLError(str(error)))
        elif step.result():
            self._established()
        else:
            self._socket.resume_reading()
            self._advance()

    def _established(self) -> None:
        self.is_established = True
        self._deadline.cancel()
        if self._record:
            self._incoming.write(self._record)
        self._record = None
        self._acknowledge()
        self._socket.resume_reading()
        assert self._object is not None
        self._client.established(self._object.getpeercert(binary_form=True))
        if not (self._is_closing or self._is_lost):
            self._decrypt()

    def _acknowledge(self) -> None:
        """At once: nothing is sent at the end of the handshake that would carry it, and Nagle's algorithm in a client
        holds the first request back until it comes, 40 ms otherwise."""
        found = self._socket.get_extra_info("socket")
        if found is not None:
            with contextlib.suppress(OSError):
                found.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

    def _too_late(self) -> None:
        self._fail(HandshakeTimeout())

    def _fail(self, error: Exception) -> None:
        """Report the error. The alert, if any, has been queued. The client's transport is closed by its connection."""
        self._deadline.cancel()
        self._client.handshake_failed(error)

    def _decrypt(self) -> None:
        pieces: list[bytes] = []
        ended, error = False, None
        assert self._object is not None
        try:
            while piece := self._object.read(_READ_BYTES):
                pieces.append(piece)
            ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as broken:
            error = broken
        self._send_encrypted()
        if pieces:
            self._client.data_received(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if error is not None and not self._is_lost:
            self._fail(error)
        elif ended and not self._is_lost:
            self._socket.close()

    def _send_encrypted(self) -> None:
        if self._outgoing.pending and not self._is_lost:
            self._socket.write(self._outgoing.read())

    def write(self, data: Buffer) -> None:
        """Write like a transport."""
        self.writelines((data,))

    def writelines(self, pieces: Iterable[Buffer]) -> None:
        """Write like a transport. Large pieces are not copied before they are encrypted; they must not change."""
        if self._is_lost or self._is_closing:
            return
        small: list[Buffer] = []
        small_bytes = 0
        for piece in pieces:
            if small_bytes + len(piece) > _SMALL_BYTES and small:
                self._pend(small[0] if len(small) == 1 else b"".join(small))
                small, small_bytes = [], 0
            if len(piece) > _SMALL_BYTES:
                self._pend(piece)
            else:
                small.append(piece)
                small_bytes += len(piece)
        if small:
            self._pend(small[0] if len(small) == 1 else b"".join(small))
        self._pump()

    def _pend(self, piece: Buffer) -> None:
        self._pending.append(piece)
        self._pending_bytes += len(piece)

    def _pump(self) -> None:
        """Encrypt what the client can take now. The rest follows in the next turn of the loop, or once it reads."""
        self._will_pump = False
        if self._is_lost or not self.is_established:
            return
        budget = _PIECE_BYTES
        while self._pending and budget > 0 and self._socket.get_write_buffer_size() <= _HIGH_WATER_BYTES:
            budget -= self._encrypt(self._pending.popleft(), budget)
        if self._pending:
            if not self._is_full:
                self._is_full = True
                self._client.pause_writing()
            if not self._is_paused and not self._will_pump:
                self._will_pump = True
                self._loop.call_soon(self._pump)
        elif self._is_closing:
            self._shut()
        elif self._is_full and not self._is_paused:
            self._is_full = False
            self._client.resume_writing()

    def _encrypt(self, piece: Buffer, budget: int) -> int:
        """Encrypt at most that many bytes of the piece, and keep the rest. Returns how many were."""
        view = memoryview(piece)
        part = view[:budget]
        assert self._object is not None
        try:
            self._object.write(part)
        except ssl.SSLError as error:
            self._pending.clear()
            self._fail(error)
            return len(part)
        self._pending_bytes -= len(part)
        if len(part) < len(view):
            self._pending.appendleft(view[len(part) :])
        self._send_encrypted()
        return len(part)

    def pause_writing(self) -> None:
        """Pause: the socket takes no more."""
        self._is_paused = True
        if not self._is_full:
            self._is_full = True
            self._client.pause_writing()

    def resume_writing(self) -> None:
        """Resume: the socket takes more."""
        self._is_paused = False
        self._pump()

    def pause_reading(self) -> None:
        """Pause like a transport."""
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        """Resume like a transport."""
        self._socket.resume_reading()

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes to be sent."""
        return self._socket.get_write_buffer_size() + self._pending_bytes

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return the socket's information."""
        return self._object if name == "ssl_object" else self._socket.get_extra_info(name, default)

    def is_closing(self) -> bool:
        """Return whether the transport is closing."""
        return self._is_closing or self._socket.is_closing()

    def close(self) -> None:
        """Close like a transport: queued data is sent first, then the end."""
        if self._is_closing:
            return
        self._is_closing = True
        self._deadline.cancel()
        if not self.is_established:
            if not self._is_busy:
                self._socket.close()
        elif not self._pending:
            self._shut()

    def _shut(self) -> None:
        """Shut down without awaiting the client's own end: a client that sends no more needs none."""
        assert self._object is not None
        with contextlib.suppress(ssl.SSLError):
            self._object.unwrap()
        self._send_encrypted()
        self._socket.close()

    def abort(self) -> None:
        """Abort like a transport."""
        self._socket.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop everything: the socket is closed."""
        self._is_lost = True
        self._deadline.cancel()
        self._pending.clear()
        if self.received_bytes and not self.is_established and not self._is_closing:
            self._client.handshake_failed(HandshakeCutOff())
        self._client.connection_lost(exc)


def _whole_records(data: bytearray) -> int:
    """How many bytes at the start of the data are whole records. One that is too long counts: OpenSSL refuses it."""
    at = 0
    while len(data) - at >= _HEAD_BYTES:
        size = int.from_bytes(data[at + 3 : at + _HEAD_BYTES], "big")
        if size > _MAX_RECORD_BYTES:
            return len(data)
        if len(data) < at + _HEAD_BYTES + size:
            break
        at += _HEAD_BYTES + size
    return at
