"""Kafka's framing: each message is preceded by its length in bytes, an int32."""

from __future__ import annotations

import asyncio
from typing import cast

SIZE_BYTES = 4
_HIGH_WATER_BYTES = 64 << 20


class FrameTooLarge(ValueError):
    """The peer announced a frame larger than allowed, or of a negative size."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"a frame of {size} bytes is announced, the limit is {limit}")
        self.size = size
        self.limit = limit


class Framer:
    """Splits a byte stream into frames. Feeding any split of a stream gives the same frames.

    ``limit_bytes`` may be changed; the change applies to the next ``feed``.
    """

    __slots__ = ("_buffer", "_start", "limit_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._buffer = bytearray()
        self._start = 0

    @property
    def pending_bytes(self) -> int:
        """Bytes of the incomplete frame."""
        return len(self._buffer) - self._start

    @property
    def pending(self) -> bytes:
        """Bytes that are not in any frame yet, sizes included; after a ``feed`` that raised, all of them."""
        return bytes(memoryview(self._buffer)[self._start :])

    def feed(self, data: bytes) -> list[bytes]:
        """Completed frames, without their size. FrameTooLarge as soon as a bad size is seen."""
        self._buffer += data
        frames: list[bytes] = []
        buffer, start, end = self._buffer, self._start, len(self._buffer)
        while end - start >= SIZE_BYTES:
            size = int.from_bytes(buffer[start : start + SIZE_BYTES], "big", signed=True)
            if not 0 <= size <= self.limit_bytes:
                raise FrameTooLarge(size, self.limit_bytes)
            if end - start - SIZE_BYTES < size:
                break
            frames.append(bytes(memoryview(buffer)[start + SIZE_BYTES : start + SIZE_BYTES + size]))
            start += SIZE_BYTES + size
        if start == end:
            buffer.clear()
            start = 0
        elif start > 1 << 16:
            del buffer[:start]
            start = 0
        self._start = start
        return frames


Buffer = bytes | bytearray | memoryview

_LARGE_BYTES = 16 << 10


def framed(*parts: Buffer) -> bytes:
    """The parts as one frame, with its size in front."""
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

    def open(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open; frames are sent to it."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop has its own class
        self._transport.set_write_buffer_limits(high=_HIGH_WATER_BYTES)

    def lost(self) -> None:
        """The connection is lost; frames from now on are dropped."""
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
