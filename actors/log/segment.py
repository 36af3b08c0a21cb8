"""One segment file and its index in memory.

The name is ``<base offset, 20 digits>.<leader epoch>.<serial>.log``: Kafka's tools, which take the digits before the
first dot, read it. The serial counts the segments of one leader epoch, so that no name is ever used twice. All
batches of a segment carry the leader epoch in its name.
"""

from __future__ import annotations

import os
import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from actors.log.batch import HEADER, HEADER_BYTES, BatchHeader, crc_matches, is_plausible
from actors.log.disk import Disk

_NAME = re.compile(r"(\d{20})\.(\d{1,10})\.(\d{1,10})\.log")
_SCAN_BYTES = 256 << 10
_LOOKUP_BYTES = 8 << 10
NO_TIMESTAMP = -1


@dataclass(frozen=True, slots=True, order=True)
class SegmentName:
    epoch: int
    serial: int
    base_offset: int

    @classmethod
    def parse(cls, file_name: str) -> SegmentName | None:
        match = _NAME.fullmatch(file_name)
        return cls(int(match[2]), int(match[3]), int(match[1])) if match else None

    def __str__(self) -> str:
        return f"{self.base_offset:020d}.{self.epoch}.{self.serial}.log"


def walk(
    fd: int, start: int, end: int, *, verify: bool = False, chunk_bytes: int = _LOOKUP_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of the batches between two positions, up to the first that is not whole.

    With ``verify`` also up to the first whose CRC does not match. Reads ``chunk_bytes`` at a time and only what
    holds headers, unless it verifies. OSError.
    """
    position = chunk_start = start
    chunk = b""
    while position + HEADER_BYTES <= end:
        at = position - chunk_start
        if at + HEADER_BYTES > len(chunk):
            chunk, chunk_start, at = os.pread(fd, chunk_bytes, position), position, 0
            if len(chunk) < HEADER_BYTES:
                return
        header = BatchHeader._make(HEADER.unpack_from(chunk, at))
        size = header.size_bytes
        if not is_plausible(header) or position + size > end:
            return
        if verify:
            if at + size > len(chunk):
                chunk, chunk_start, at = os.pread(fd, max(chunk_bytes, size), position), position, 0
            if not crc_matches(memoryview(chunk)[at : at + size], header):
                return
        yield position, header
        position += size


class Segment:
    """Durable batches only: the writer adds a batch here when it is on disk.

    The index has an entry per ``index_interval_bytes``: offset and position of a batch, and the largest timestamp
    of the batches before it. Not safe for use by two threads.
    """

    __slots__ = (
        "_before_ms",
        "_interval_bytes",
        "_offsets",
        "_positions",
        "fd",
        "max_timestamp_ms",
        "max_timestamp_position",
        "name",
        "next_offset",
        "path",
        "size_bytes",
    )

    def __init__(self, path: Path, name: SegmentName, fd: int, index_interval_bytes: int) -> None:
        self.path = path
        self.name = name
        self.fd = fd
        self.size_bytes = 0
        self.next_offset = name.base_offset
        self.max_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_position = 0
        self._interval_bytes = index_interval_bytes
        self._offsets = array("q")
        self._positions = array("q")
        self._before_ms = array("q")

    @classmethod
    def create(cls, directory: Path, name: SegmentName, index_interval_bytes: int, disk: Disk) -> Segment:
        """A new, empty file. OSError."""
        path = directory / str(name)
        return cls(path, name, disk.create(path), index_interval_bytes)

    @classmethod
    def load(
        cls,
        directory: Path,
        name: SegmentName,
        *,
        limit: int | None,
        verify: bool,
        index_interval_bytes: int,
        on_batch: Callable[[BatchHeader], object],
    ) -> Segment:
        """Scan a file up to its first batch that is torn, out of order or at ``limit`` (an offset). OSError.

        ``verify`` checks every CRC. ``on_batch`` gets each header in order.
        """
        path = directory / str(name)
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        segment = cls(path, name, fd, index_interval_bytes)
        try:
            end = os.fstat(fd).st_size
            for _, header in walk(fd, 0, end, verify=verify, chunk_bytes=_SCAN_BYTES):
                if header.base_offset < segment.next_offset or (limit is not None and header.next_offset > limit):
                    break
                segment.add(header)
                on_batch(header)
        except OSError:
            os.close(fd)
            raise
        return segment

    @property
    def base_offset(self) -> int:
        return self.name.base_offset

    @property
    def epoch(self) -> int:
        return self.name.epoch

    def add(self, header: BatchHeader) -> None:
        """The batch that lies at ``size_bytes`` is there now."""
        if not self._positions or self.size_bytes - self._positions[-1] >= self._interval_bytes:
            self._offsets.append(header.base_offset)
            self._positions.append(self.size_bytes)
            self._before_ms.append(self.max_timestamp_ms)
        if header.max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = header.max_timestamp_ms
            self.max_timestamp_position = self.size_bytes
        self.size_bytes += header.size_bytes
        self.next_offset = header.next_offset

    def locate(self, offset: int) -> int:
        """Position of the first batch that ends at or after the offset; the segment's size if there is none."""
        if offset <= self.base_offset:
            return 0
        found = self._find(offset)
        return found[0] if found else self.size_bytes

    def header_of(self, offset: int) -> BatchHeader | None:
        """Of the first batch that ends at or after the offset; None if there is none."""
        found = self._find(offset)
        return found[1] if found else None

    def _find(self, offset: int) -> tuple[int, BatchHeader] | None:
        if offset >= self.next_offset:
            return None
        entry = max(bisect_right(self._offsets, offset) - 1, 0)
        batches = walk(self.fd, self._positions[entry], self.size_bytes)
        return next((found for found in batches if found[1].last_offset >= offset), None)

    def read(self, start: int, max_bytes: int, *, at_least_one: bool) -> bytes:
        """Whole batches from the one at that position on, together at most ``max_bytes``.

        With ``at_least_one`` the first comes also if it alone is larger.
        """
        end = self._cut(start, max_bytes, at_least_one)
        return os.pread(self.fd, end - start, start) if end > start else b""

    def _cut(self, start: int, max_bytes: int, at_least_one: bool) -> int:
        """Where the last batch ends that fits."""
        bound = start + max(max_bytes, 0)
        if bound >= self.size_bytes:
            return self.size_bytes
        entry = max(bisect_right(self._positions, bound) - 1, 0)
        end = max(start, self._positions[entry])
        for position, header in walk(self.fd, end, self.size_bytes):
            batch_end = position + header.size_bytes
            if batch_end > bound and not (at_least_one and position == start):
                break
            end = batch_end
        return end

    def batches(self, buffer_bytes: int) -> Iterator[tuple[BatchHeader, bytes]]:
        """Every batch, whole. One read takes in as many as fit into the buffer, or one that is larger."""
        buffer_bytes = max(buffer_bytes, HEADER_BYTES)
        position, wanted_bytes = 0, buffer_bytes
        while position + HEADER_BYTES <= self.size_bytes:
            chunk = os.pread(self.fd, min(wanted_bytes, self.size_bytes - position), position)
            at = 0
            while at + HEADER_BYTES <= len(chunk):
                header = BatchHeader._make(HEADER.unpack_from(chunk, at))
                end = at + header.size_bytes
                if not is_plausible(header) or position + end > self.size_bytes:
                    return
                if end > len(chunk):
                    break
                yield header, chunk[at:end]
                at = end
            if at == 0 and len(chunk) < wanted_bytes:
                return  # the file is shorter than it was when it was opened
            wanted_bytes = buffer_bytes if at else header.size_bytes
            position += at

    def batches_since(self, timestamp_ms: int) -> Iterator[tuple[BatchHeader, bytes]]:
        """The batches whose largest timestamp is at or after the given one."""
        if self.max_timestamp_ms < timestamp_ms or not self.size_bytes:
            return
        entry = max(bisect_left(self._before_ms, timestamp_ms) - 1, 0)
        for position, header in walk(self.fd, self._positions[entry], self.size_bytes):
            if header.max_timestamp_ms >= timestamp_ms:
                yield header, self.batch_at(position, header)

    def batch_with_max_timestamp(self) -> tuple[BatchHeader, bytes]:
        """The first batch that holds the segment's largest timestamp. The segment is not empty."""
        position, header = next(walk(self.fd, self.max_timestamp_position, self.size_bytes))
        return header, self.batch_at(position, header)

    def batch_at(self, position: int, header: BatchHeader) -> bytes:
        return os.pread(self.fd, header.size_bytes, position)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
