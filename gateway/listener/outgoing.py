"""Sending of responses whose records are in files: a piece at a time, as the client takes them.

A client that does not read costs a few kilobytes then, however large its response is. Small responses need none of it.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from muster.actors.wire.kafka.framing import SIZE_BYTES, Buffer
from muster.gateway.listener.api import Reply
from muster.gateway.listener.file_records import FileRecords
from muster.gateway.listener.limiting.response_memory import ResponseMemory
from muster.gateway.listener.limiting.turns import Turns, over
from muster.gateway.security.tls.transport import TlsTransport

_TOGETHER_BYTES = 1 << 20
"""The most that is written at a time."""
_TOGETHER = 64
"""The most pieces of that."""
_CHUNK_BYTES = 128 << 10
"""The most that is read from a file at a time."""
_ENCRYPTED_BYTES = 64 << 10
"""The most that is encrypted at a time: a client that does not read leaves that much."""
_TAIL_BYTES = 4 << 10
"""Bytes for the transport when the socket takes no more: it says when the socket takes more."""
_THREADS = ThreadPoolExecutor(4, thread_name_prefix="file-records")

_Piece = Buffer | FileRecords | Callable[[], None]


class Sent(Protocol):
    """A counter of sent bytes."""

    sent_bytes: int


class Outgoing:
    """For one connection, until all is handed to its socket."""

    __slots__ = (
        "_at",
        "_chunk",
        "_fd",
        "_had_s",
        "_is_in_memory",
        "_is_waiting",
        "_left_bytes",
        "_memory",
        "_on_pumped",
        "_pieces",
        "_sent",
        "_transport",
        "_turns",
    )

    def __init__(
        self,
        transport: asyncio.Transport | TlsTransport,
        turns: Turns,
        memory: ResponseMemory,
        sent: Sent,
        on_pumped: Callable[[OSError | None], None],
    ) -> None:
        """``sent``: counts the bytes that were handed to the socket. ``on_pumped``: called when more was sent than by a
        call of :meth:`pump`; with an error if records cannot be read, so that the rest is never sent.
        """
        self._transport = transport
        self._turns = turns
        self._memory = memory
        self._sent = sent
        self._on_pumped = on_pumped
        self._pieces: deque[_Piece] = deque()
        self._left_bytes = 0
        self._is_in_memory = True
        """Whether records that were read to be checked are kept."""
        self._at = 0
        """How much of the first piece is sent."""
        self._chunk: Buffer = b""
        """Chunk of the first piece, read from disk."""
        self._is_waiting = False
        """For its turn, or for the disk."""
        self._had_s = turns.arrival()
        self._fd = -1
        if not isinstance(transport, TlsTransport):
            self._fd = transport.get_extra_info("socket").fileno()
            transport.set_write_buffer_limits(high=0)  # it says when it has sent all that it was given

    def __bool__(self) -> bool:
        """Whether anything is left."""
        return bool(self._pieces)

    def put(self, reply: Reply) -> None:
        """Queue a response; its ``on_sent`` is called when the last byte is handed to the socket."""
        size_bytes = sum(map(len, reply.parts))
        self._left_bytes += SIZE_BYTES + size_bytes
        if not self._is_in_memory:
            reply.give_back()
        small: list[Buffer] = [size_bytes.to_bytes(SIZE_BYTES, "big")]
        for part in reply.parts:
            if isinstance(part, FileRecords) or len(part) >= _TAIL_BYTES:
                if small:
                    self._pieces.append(b"".join(small))
                    small = []
                self._pieces.append(part)
            else:
                small.append(part)
        if small:
            self._pieces.append(b"".join(small))
        if reply.on_sent is not None:
            self._pieces.append(reply.on_sent)

    def end(self) -> bool:
        """Give the transport back, which has all. Returns whether it takes no more."""
        if not isinstance(self._transport, TlsTransport):
            self._transport.set_write_buffer_limits()
        return self.is_blocked

    def lost(self) -> None:
        """Drop everything: the connection is lost."""
        self._pieces.clear()
        self._memory.release(self)

    def waiting_bytes(self) -> int:
        """See :class:`Holder`."""
        return self._left_bytes

    def give_back(self) -> None:
        """See :class:`Holder`: what is in files is read again, when the socket takes it."""
        self._is_in_memory = False
        for piece in self._pieces:
            if isinstance(piece, FileRecords):
                piece.give_back()

    @property
    def is_blocked(self) -> bool:
        """Whether the socket takes no more; the transport says when it does."""
        if isinstance(self._transport, TlsTransport):
            return self._transport.is_full
        return self._transport.get_write_buffer_size() > 0

    def pump(self, *, is_turn: bool = False) -> None:
        """Send what the socket takes now."""
        if not self._is_waiting and (is_turn or self._turns.is_due(self._had_s)):
            began_s = time.perf_counter()
            while self._pieces and not self.is_blocked and not self._is_waiting and self._send_some():
                if over(began_s):
                    break
            self._had_s = self._turns.charged(self._had_s, time.perf_counter() - began_s)
        if not self._pieces:
            self._memory.release(self)
            return
        if self._is_in_memory:
            self._memory.hold(self, self._left_bytes)
        if not self._is_waiting and not self.is_blocked:
            self._is_waiting = True
            self._turns.queue(self._turn, self._had_s)

    def _turn(self) -> float:
        self._is_waiting = False
        if self._pieces:
            self.pump(is_turn=True)
            self._on_pumped(None)
        return 0.0

    def _send_some(self) -> bool:
        """Whether there was something to be sent."""
        try:
            pieces = self._next()
        except OSError as error:
            self._failed(error)
            return False
        if self._fd < 0:
            for piece in pieces:
                self._transport.write(bytes(piece))  # a view would keep all of its records
                self._handed(len(piece))
            return bool(pieces)
        if pieces:
            self._write(pieces)
        return bool(pieces)

    def _next(self) -> list[Buffer]:
        """Return the next pieces to send. Raises OSError."""
        limit = _TOGETHER_BYTES if self._fd >= 0 else _ENCRYPTED_BYTES
        found: list[Buffer] = []
        at = self._at
        for piece in self._pieces:
            if limit <= 0 or len(found) >= _TOGETHER:
                break
            if callable(piece):
                if found:
                    break
                continue
            content = piece.content if isinstance(piece, FileRecords) else piece
            if content is None:
                assert isinstance(piece, FileRecords)
                return found or self._read(piece, at)
            part = memoryview(content)[at : at + limit]
            found.append(part)
            limit -= len(part)
            at = 0
        return found

    def _read(self, records: FileRecords, at: int) -> list[Buffer]:
        """Return the next chunk; nothing if a thread has to read it. Raises OSError."""
        chunk_bytes = _CHUNK_BYTES if self._fd >= 0 else _ENCRYPTED_BYTES
        chunk, self._chunk = self._chunk, b""
        if not chunk:
            found = records.read_now(at, chunk_bytes)
            if found is None:
                self._is_waiting = True
                loop = asyncio.get_running_loop()
                loop.run_in_executor(_THREADS, records.read, at, chunk_bytes).add_done_callback(self._was_read)
                return []
            chunk = found
        return [chunk]

    def _was_read(self, reading: asyncio.Future[bytes]) -> None:
        self._is_waiting = False
        error = None if reading.cancelled() else reading.exception()
        if not self._pieces or reading.cancelled():
            return
        if error is not None:
            self._failed(error if isinstance(error, OSError) else OSError(str(error)))
            return
        self._chunk = reading.result()
        self.pump(is_turn=True)
        self._on_pumped(None)

    def _failed(self, error: OSError) -> None:
        """Give up the connection: the client has a part of the response already."""
        self._pieces.clear()
        self._is_waiting = True
        self._on_pumped(error)

    def _write(self, pieces: Sequence[Buffer]) -> None:
        """Write past the transport, which has nothing to send: it would keep what the socket does not take."""
        try:
            count = os.writev(self._fd, pieces)
        except OSError:  # that it takes nothing now; anything else is met by the transport, too, which reports it
            count = 0
        self._handed(count)
        for piece in pieces:
            if count < len(piece):
                tail = bytes(memoryview(piece)[count : count + _TAIL_BYTES])
                self._transport.write(tail)
                self._handed(len(tail))
                return
            count -= len(piece)

    def _handed(self, size_bytes: int) -> None:
        """So much is handed to the socket."""
        self._sent.sent_bytes += size_bytes
        self._left_bytes -= size_bytes
        while self._pieces:
            piece = self._pieces[0]
            if callable(piece):
                self._pieces.popleft()
                piece()
                continue
            left = len(piece) - self._at
            if size_bytes < left:
                self._at += size_bytes
                return
            size_bytes -= left
            self._at = 0
            self._pieces.popleft()
