"""Kafka's framing: every message is preceded by its length in bytes, an int32."""

from __future__ import annotations

SIZE_BYTES = 4


class FrameTooLarge(ValueError):
    """The peer announced a frame that is larger than allowed, or of a negative size."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"a frame of {size} bytes is announced, the limit is {limit}")
        self.size = size
        self.limit = limit


class Framer:
    """Cuts a byte stream into frames. Feeding any split of a stream gives the same frames.

    ``limit_bytes`` may be changed; it holds for the next ``feed``.
    """

    __slots__ = ("_buffer", "_start", "limit_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._buffer = bytearray()
        self._start = 0

    @property
    def pending_bytes(self) -> int:
        """Bytes of the frame that is not whole yet."""
        return len(self._buffer) - self._start

    def feed(self, data: bytes) -> list[bytes]:
        """Frames that became whole, without their size. FrameTooLarge as soon as a bad size is seen."""
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


def framed(*parts: bytes) -> bytes:
    """The parts as one frame, with its size in front."""
    size = sum(map(len, parts))
    return b"".join((size.to_bytes(SIZE_BYTES, "big"), *parts))
