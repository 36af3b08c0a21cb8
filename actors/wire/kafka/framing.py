"""Kafka's framing: each message is preceded by its length in bytes, an int32."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol, cast

SIZE_BYTES = 4
_HIGH_WATER_BYTES = 64 << 20
_SMALL_BYTES = 2 << 10
_MAX_TOGETHER_BYTES = 64 << 10


class FrameTooLarge(ValueError):
    """The peer announced a frame larger than allowed, or of a negative size."""

    def __init__(self, size: int, limit: int, frames: list[bytes]) -> None:
        super().__init__(f"a frame of {size} bytes is announced, the limit is {limit}")
        self.size = size
        self.limit = limit
        self.frames = frames
        """Frames that the same bytes completed before the announced one."""


class Framer:
    """Splits a byte stream into frames. Feeding any split of a stream gives the same frames.

    A frame that comes in one piece is copied once, and so is each piece of one that does not. ``limit_bytes`` may be
    changed; the change applies to the next ``feed``.
    """

    __slots__ = ("_pieces", "limit_bytes", "pending_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.pending_bytes = 0
        """Bytes of the incomplete frame, size included."""
        self._pieces: list[bytes | bytearray] = []

    @property
    def pending(self) -> bytes:
        """Bytes that are not in any frame yet, sizes included; after a ``feed`` that raised, all of them."""
        return b"".join(self._pieces)

    def feed(self, data: bytes) -> list[bytes]:
        """Completed frames, without their size. Raises FrameTooLarge as soon as a bad size is seen."""
        if self._pieces:
            return self._go_on(data)
        size = len(data) - SIZE_BYTES
        if 0 <= size <= self.limit_bytes and int.from_bytes(data[:SIZE_BYTES], "big") == size:
            return [data[SIZE_BYTES:]]
        frames: list[bytes] = []
        self._split(data, 0, frames)
        return frames

    def _go_on(self, data: bytes) -> list[bytes]:
        """Take what comes behind a pending frame."""
        frames: list[bytes] = []
        if self.pending_bytes + len(data) < SIZE_BYTES:
            self._hold(data)
        else:
            self._complete(data, frames)
        return frames

    def _complete(self, data: bytes, frames: list[bytes]) -> None:
        """Go on with the pending frame, whose size is known now."""
        if len(self._pieces[0]) < SIZE_BYTES:
            data, self._pieces, self.pending_bytes = self.pending + data, [], 0
            self._split(data, 0, frames)
            return
        size = int.from_bytes(self._pieces[0][:SIZE_BYTES], "big")  # checked when it came
        missing = SIZE_BYTES + size - self.pending_bytes
        if len(data) < missing:
            self._hold(data)
            return
        before, self._pieces, self.pending_bytes = self._pieces, [], 0
        frames.append(b"".join((memoryview(before[0])[SIZE_BYTES:], *before[1:], memoryview(data)[:missing])))
        try:
            self._split(data, missing, frames)
        except FrameTooLarge:
            self._pieces = [*before, data]
            raise

    def _split(self, data: bytes, at: int, frames: list[bytes]) -> None:
        """Take whole frames from that index on, and hold the rest."""
        end = len(data)
        while end - at >= SIZE_BYTES:
            size = int.from_bytes(data[at : at + SIZE_BYTES], "big", signed=True)
            if not 0 <= size <= self.limit_bytes:
                self._pieces = [data]
                raise FrameTooLarge(size, self.limit_bytes, frames)
            frame_end = at + SIZE_BYTES + size
            if frame_end > end:
                break
            frames.append(data[at + SIZE_BYTES : frame_end])
            at = frame_end
        if at < end:
            self._hold(data[at:])

    def _hold(self, data: bytes) -> None:
        """Hold a piece; small ones together, since a client may send a large frame byte by byte."""
        self.pending_bytes += len(data)
        if len(data) >= _SMALL_BYTES:
            self._pieces.append(data)
        elif self._pieces and isinstance(last := self._pieces[-1], bytearray) and len(last) < _MAX_TOGETHER_BYTES:
            last += data
        else:
            self._pieces.append(bytearray(data))


Buffer = bytes | bytearray | memoryview

_LARGE_BYTES = 16 << 10


class Transport(Protocol):
    """A transport, as far as frames are written to it."""

    def write(self, data: bytes, /) -> None: ...
    def writelines(self, list_of_data: Iterable[Buffer], /) -> None: ...


def framed(*parts: Buffer) -> bytes:
    """Return the parts as one frame, with its size in front."""
    size = sum(map(len, parts))
    return b"".join((size.to_bytes(SIZE_BYTES, "big"), *parts))


def write_framed(transport: Transport, pieces: list[Buffer]) -> None:
    """Write frames with one call; ``pieces`` are their sizes and parts, in order. Large ones are not copied."""
    if sum(map(len, pieces)) < _LARGE_BYTES:
        transport.write(b"".join(pieces))
        return
    joined: list[Buffer] = []
    small: list[Buffer] = []
    for piece in pieces:
        if len(piece) < _LARGE_BYTES:
            small.append(piece)
            continue
        if small:
            joined.append(b"".join(small))
            small = []
        joined.append(piece)
    if small:
        joined.append(b"".join(small))
    transport.writelines(joined)


class Outbox:
    """Frames to be sent by a transport. All frames of one turn of the event loop are sent with one write."""

    __slots__ = ("_pieces", "transport")

    def __init__(self) -> None:
        self._pieces: list[Buffer] = []
        self.transport: asyncio.Transport | None = None
        """None before it is opened, and once the connection is lost."""

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the system has not taken yet: it does so as the peer reads."""
        return self.transport.get_write_buffer_size() if self.transport is not None else 0

    @property
    def queued_bytes(self) -> int:
        """Bytes to be sent in this turn of the event loop, and unsent ones."""
        return sum(map(len, self._pieces)) + self.unsent_bytes

    def open(self, transport: asyncio.BaseTransport, high_water_bytes: int = _HIGH_WATER_BYTES) -> None:
        """Open the queue: frames are sent to this connection."""
        self.transport = cast(asyncio.Transport, transport)  # uvloop has its own class
        self.transport.set_write_buffer_limits(high=high_water_bytes)

    def lost(self) -> None:
        """Drop frames from now on: the connection is lost."""
        self.transport = None
        self._pieces.clear()

    def put(self, *parts: Buffer) -> None:
        """Queue the parts as one frame."""
        if self.transport is None:
            return
        if not self._pieces:
            asyncio.get_running_loop().call_soon(self._flush)
        self._pieces += (sum(map(len, parts)).to_bytes(SIZE_BYTES, "big"), *parts)

    def _flush(self) -> None:
        pieces, self._pieces = self._pieces, []
        if self.transport is not None and pieces:
            write_framed(self.transport, pieces)

    def close(self) -> None:
        """Close the connection after sending what is queued."""
        if self.transport is not None:
            self._flush()
            self.transport.close()

    def abort(self) -> None:
        """Close the connection now: a peer that reads nothing would never let the rest be sent."""
        if self.transport is not None:
            self.transport.abort()
