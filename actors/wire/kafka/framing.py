"""Kafka's framing: each message is preceded by its length in bytes, an int32."""

from __future__ import annotations

import asyncio
from typing import cast

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
        frames: list[bytes] = []
        if not self._pieces:
            self._split(data, 0, frames)
        elif self.pending_bytes + len(data) < SIZE_BYTES:
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


def framed(*parts: Buffer) -> bytes:
    """Return the parts as one frame, with its size in front."""
    size = sum(map(len, parts))
    return b"".join((size.to_bytes(SIZE_BYTES, "big"), *parts))


def pieces_of(*parts: Buffer) -> list[Buffer]:
    """:func:`framed`, in pieces for ``writelines``: large parts are not copied."""
    size = sum(map(len, parts)).to_bytes(SIZE_BYTES, "big")
    if all(len(part) < _LARGE_BYTES for part in parts):
        return [b"".join((size, *parts))]
    pieces: list[Buffer] = []
    small: list[Buffer] = [size]
    for part in parts:
        if len(part) < _LARGE_BYTES:
            small.append(part)
            continue
        if small:
            pieces.append(b"".join(small))
            small = []
        pieces.append(part)
    if small:
        pieces.append(b"".join(small))
    return pieces


class Outbox:
    """Frames to be sent by a transport. All frames of one turn of the event loop are sent with one write."""

    __slots__ = ("_pieces", "_transport")

    def __init__(self) -> None:
        self._pieces: list[Buffer] = []
        self._transport: asyncio.Transport | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the system has not taken yet: it does so as the peer reads."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    @property
    def queued_bytes(self) -> int:
        """Bytes to be sent in this turn of the event loop, and unsent ones."""
        return sum(map(len, self._pieces)) + self.unsent_bytes

    def open(self, transport: asyncio.BaseTransport, high_water_bytes: int = _HIGH_WATER_BYTES) -> None:
        """Open the queue: frames are sent to this connection."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop has its own class
        self._transport.set_write_buffer_limits(high=high_water_bytes)

    def lost(self) -> None:
        """Drop frames from now on: the connection is lost."""
        self._transport = None
        self._pieces.clear()

    def put(self, *parts: Buffer) -> None:
        """Queue the parts as one frame."""
        if self._transport is None:
            return
        if not self._pieces:
            asyncio.get_running_loop().call_soon(self._flush)
        self._pieces += pieces_of(*parts)

    def _flush(self) -> None:
        pieces, self._pieces = self._pieces, []
        if self._transport is not None and pieces:
            self._transport.writelines(pieces)

    def close(self) -> None:
        """Close the connection after sending what is queued."""
        if self._transport is not None:
            self._flush()
            self._transport.close()

    def abort(self) -> None:
        """Close the connection now: a peer that reads nothing would never let the rest be sent."""
        if self._transport is not None:
            self._transport.abort()
