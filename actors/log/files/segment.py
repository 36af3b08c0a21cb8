"""One segment file. Batches are found through its index (``muster.actors.log.files.index``) and checked before they
are returned.

The name is ``<base offset, 20 digits>.<leader epoch>.<serial>.log``. Kafka's tools, which take the digits before the
first dot, can read it. The serial counts the segments of one leader epoch, from a number that differs from topic id to
topic id: no name is used twice, even by a topic that is deleted and created again under the same name. All batches
of a segment carry the leader epoch in its name, except in ``<...>.<serial>.cleaned.log``: there the cleaner of that
epoch has compacted older segments, and counts serials separately.
"""

from __future__ import annotations

import logging
import os
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from crc32c import crc32c

from muster.actors.log.errors import CorruptSegment
from muster.actors.log.files import index as indexes
from muster.actors.log.files.disk import DISK, Disk
from muster.actors.log.files.index import Head, SparseIndex
from muster.actors.log.format.batch import (
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    BatchHeader,
    crc_matches,
    find_damage,
    is_plausible,
)
from muster.actors.log.format.control import EndOfTransaction, read_control
from muster.actors.log.transactions import aborted as aborted_transactions
from muster.actors.log.transactions.aborted import AbortedTransaction, AbortedTransactions

log = logging.getLogger(__name__)

_NAME = re.compile(r"(\d{20})\.(\d{1,10})\.(\d{1,10})(\.cleaned)?\.log")
_SCAN_BYTES = 256 << 10
_LOOKUP_BYTES = 8 << 10
_MAX_CUTS = 128
_EXTENT = struct.Struct(">qi4xb6xi")
"""Base offset, length, magic and last offset delta, from a batch's header."""
_Extent = tuple[int, int, int, int]
"""Position, first and last offset of a batch, and the position behind it."""

OnBatch = Callable[[BatchHeader, EndOfTransaction | None], AbortedTransaction | None]
"""Called with a batch's header and, of a control batch, what it says. Returns the transaction that it aborts."""


@dataclass(frozen=True, slots=True, order=True)
class SegmentName:
    epoch: int
    serial: int
    base_offset: int
    cleaned: bool = False

    @classmethod
    def parse(cls, file_name: str) -> SegmentName | None:
        match = _NAME.fullmatch(file_name)
        return cls(int(match[2]), int(match[3]), int(match[1]), match[4] is not None) if match else None

    def __str__(self) -> str:
        return f"{self.base_offset:020d}.{self.epoch}.{self.serial}{'.cleaned' if self.cleaned else ''}.log"


def first_serial(topic_id: UUID) -> int:
    """Return the serial of the first segment of each leader epoch; 30 bits."""
    return topic_id.int >> 98


def walk(
    fd: int, start: int, end: int, *, verify: bool = False, chunk_bytes: int = _LOOKUP_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of the batches between two positions, up to the first incomplete one.

    With ``verify`` also up to the first whose CRC does not match. Reads ``chunk_bytes`` at a time, and without
    ``verify`` only the parts that hold headers. Raises OSError.
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
    """Durable batches only: the writer adds a batch here once it is on disk.

    There is an index entry per ``index_interval_bytes``. Reads raise OSError and CorruptSegment. Not thread-safe,
    except that any number of threads may read a closed segment.
    """

    __slots__ = (
        "_cuts",
        "_head",
        "_index",
        "_interval_bytes",
        "aborted",
        "corrupt",
        "fd",
        "last_position",
        "location",
        "max_timestamp_ms",
        "max_timestamp_position",
        "name",
        "next_offset",
        "on_corrupt",
        "path",
        "size_bytes",
    )

    def __init__(self, path: Path, name: SegmentName, fd: int, index_interval_bytes: int) -> None:
        self.path = path
        self.location = str(path)
        self.name = name
        self.fd = fd
        self.size_bytes = 0
        self.next_offset = name.base_offset
        self.last_position = 0
        """Position of the last batch."""
        self.max_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_position = 0
        self.aborted = AbortedTransactions()
        """The transactions that a batch of this segment aborts."""
        self.corrupt: str | None = None
        """Damage of the segment; None if none is known."""
        self.on_corrupt: Callable[[Segment], None] = _report
        self._interval_bytes = index_interval_bytes
        self._index: SparseIndex | None = SparseIndex()
        self._cuts: dict[int, int] = {}
        """Positions by offset where the last reads ended: readers go on there."""
        self._head: Head | None = None
        """Head of the index file, which holds the index in this case."""

    @classmethod
    def create(cls, directory: Path, name: SegmentName, index_interval_bytes: int, disk: Disk) -> Segment:
        """Return a new, empty file. Raises OSError."""
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
        on_batch: OnBatch | None = None,
    ) -> Segment:
        """Scan a file up to the first batch that is torn, out of order or at ``limit`` (an offset). Raises OSError.

        ``verify`` checks every CRC. ``on_batch`` is called for each batch, in order; without it, the segment does not
        know the transactions that it aborts.
        """
        path = directory / str(name)
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        segment = cls(path, name, fd, index_interval_bytes)
        try:
            end = os.fstat(fd).st_size
            for position, header in walk(fd, 0, end, verify=verify, chunk_bytes=_SCAN_BYTES):
                if header.base_offset < segment.next_offset or (limit is not None and header.next_offset > limit):
                    break
                segment.add(header)
                if on_batch is not None and (aborted := on_batch(header, segment._end_at(position, header))):
                    segment.aborted.add(aborted)
        except OSError:
            os.close(fd)
            raise
        return segment

    @classmethod
    def open_indexed(
        cls, directory: Path, name: SegmentName, *, end: int | None, index_interval_bytes: int
    ) -> Segment | None:
        """Load the segment from its index file, without scanning it; None if that file is not valid for it.

        Raises OSError. ``end`` is the offset at which the segment ends. If None, the end is not known from elsewhere,
        and the index must cover every byte of the file. The first and the last batch are read and checked.
        """
        path = directory / str(name)
        head = Head.read(path.with_suffix(indexes.SUFFIX))
        if (
            head is None
            or SegmentName(head.epoch, head.serial, head.base_offset, head.cleaned) != name
            or not head.entries
        ):
            return None
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        segment = cls(path, name, fd, index_interval_bytes)
        segment._adopt(head)
        try:
            size_bytes = os.fstat(fd).st_size
            known = size_bytes == head.size_bytes if end is None else end == head.next_offset
            aborted = (
                AbortedTransactions.read(path, head.aborted, head.aborted_crc) if head.aborted else segment.aborted
            )
            if aborted is None:
                log.warning("%s is missing or damaged; it is made anew", path.with_suffix(aborted_transactions.SUFFIX))
            elif known and size_bytes >= head.size_bytes and segment._ends_are_sound():
                segment.aborted = aborted
                return segment
        except OSError:
            os.close(fd)
            raise
        os.close(fd)
        return None

    @classmethod
    def lost(cls, directory: Path, name: SegmentName, next_offset: int, reason: str | None) -> Segment:
        """Return a segment whose offsets are known but which cannot be read; without a reason, an empty one."""
        segment = cls(directory / str(name), name, -1, 1)
        segment.next_offset = next_offset
        segment.corrupt = reason
        return segment

    @property
    def base_offset(self) -> int:
        return self.name.base_offset

    @property
    def epoch(self) -> int:
        return self.name.epoch

    @property
    def is_indexed(self) -> bool:
        """Whether the index file covers every batch."""
        return self._head is not None

    def add(self, header: BatchHeader) -> None:
        """Add the batch that lies at ``size_bytes``."""
        position, index = self.size_bytes, self._index
        if index is None:
            index = self._growing_index()
        index.grow(header.base_offset, position, self.max_timestamp_ms, self._interval_bytes)
        if header.max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = header.max_timestamp_ms
            self.max_timestamp_position = position
        self.last_position = position
        self.size_bytes = position + header.length + LENGTH_OVERHEAD
        self.next_offset = header.base_offset + header.last_offset_delta + 1

    def keep_index(self, disk: Disk) -> None:
        """Write the index files if they do not exist; no batch may follow.

        Raises OSError: the index stays in memory.
        """
        index = self._index
        if index is None or not self.size_bytes or self.corrupt is not None:
            return
        self._write_index(index, disk)
        self._index = None

    def _write_index(self, index: SparseIndex, disk: Disk) -> None:
        entries = index.to_bytes()
        if len(self.aborted):
            self.aborted.write(self.path, disk)
        head = Head(
            epoch=self.name.epoch,
            serial=self.name.serial,
            base_offset=self.name.base_offset,
            cleaned=self.name.cleaned,
            size_bytes=self.size_bytes,
            next_offset=self.next_offset,
            last_position=self.last_position,
            max_timestamp_ms=self.max_timestamp_ms,
            max_timestamp_position=self.max_timestamp_position,
            entries=len(index),
            entries_crc=crc32c(entries),
            aborted=len(self.aborted),
            aborted_crc=self.aborted.crc if len(self.aborted) else 0,
        )
        indexes.write(self.path.with_suffix(indexes.SUFFIX), head, entries, disk)
        self._head = head

    def locate(self, offset: int) -> int:
        """Position of the first batch that ends at or after the offset; the segment's size if there is none."""
        if self.corrupt is not None:
            raise self._error()
        if offset <= self.name.base_offset:
            return 0
        if offset >= self.next_offset or not self.size_bytes:
            return self.size_bytes
        position = self._cuts.get(offset)
        if position is None:
            found = self._seek(self._indexed().at_offset(offset), offset, self.size_bytes)
            position = self.size_bytes if found is None else found[0]
        return position

    def _seek(self, position: int, offset: int, bound: int) -> _Extent | None:
        """Return the first batch, from that at a position on, with the offset or later ones, or that ends behind the
        bound. Raises OSError and CorruptSegment.
        """
        size, chunk, chunk_start, unpack = self.size_bytes, b"", position, _EXTENT.unpack_from
        while position < size:
            at = position - chunk_start
            if at + HEADER_BYTES > len(chunk):
                chunk, chunk_start, at = os.pread(self.fd, _LOOKUP_BYTES, position), position, 0
                if len(chunk) < HEADER_BYTES:
                    break
            base_offset, length, magic, last_offset_delta = unpack(chunk, at)
            end = position + LENGTH_OVERHEAD + length
            if magic != MAGIC or end < position + HEADER_BYTES or end > size or last_offset_delta < 0:
                break
            last_offset = base_offset + last_offset_delta
            if last_offset >= offset or end > bound:
                return position, base_offset, last_offset, end
            position = end
        if position != size:
            raise self._found_corrupt(position, "no batch begins there")
        return None

    def header_of(self, offset: int) -> BatchHeader | None:
        """Header of the first batch that ends at or after the offset; None if there is none."""
        self._check_sound()
        found = self._find(offset)
        return found[1] if found else None

    def _find(self, offset: int) -> tuple[int, BatchHeader] | None:
        if offset >= self.next_offset or not self.size_bytes:
            return None
        batches = self._walk(self._indexed().at_offset(offset))
        return next((found for found in batches if found[1].last_offset >= offset), None)

    def offset_at(self, position: int) -> int | None:
        """Return the base offset of the batch at that position; None at the segment's end."""
        self._check_sound()
        found = next(self._walk(position), None) if position < self.size_bytes else None
        return found[1].base_offset if found else None

    def read(self, start: int, end: int) -> bytes:
        """Return the whole batches between two positions, checked."""
        self._check_sound()
        content = os.pread(self.fd, end - start, start) if end > start else b""
        self._check_batches(content, start, end)
        return content

    def cut(self, start: int, max_bytes: int, *, at_least_one: bool) -> int:
        """Where the last batch ends that fits into ``max_bytes`` from the batch at that position on.

        With ``at_least_one`` the first batch fits even if it is larger.
        """
        if self.corrupt is not None:
            raise self._error()
        bound = start + max(max_bytes, 0)
        if bound >= self.size_bytes:
            self._remember(self.next_offset, self.size_bytes)
            return self.size_bytes
        found = self._seek(max(start, self._indexed().at_position(bound)), self.next_offset, bound)
        if found is None:
            return self.size_bytes
        position, base_offset, last_offset, end = found
        offset, end = (last_offset + 1, end) if position == start and at_least_one else (base_offset, position)
        self._remember(offset, end)
        return end

    def _remember(self, offset: int, position: int) -> None:
        cuts = self._cuts
        if offset not in cuts:
            if len(cuts) >= _MAX_CUTS:
                del cuts[next(iter(cuts))]
            cuts[offset] = position

    def headers(self) -> Iterator[tuple[BatchHeader, EndOfTransaction | None]]:
        """Headers of all batches, and what control batches say; record data is not read."""
        self._check_sound()
        return ((header, self._end_at(position, header)) for position, header in self._walk(0, _SCAN_BYTES))

    def _end_at(self, position: int, header: BatchHeader) -> EndOfTransaction | None:
        """Return the end of a transaction in the control batch at that position; None for any other batch."""
        if not header.is_control:
            return None
        return read_control(os.pread(self.fd, header.size_bytes, position), header)

    def batches(self, buffer_bytes: int) -> Iterator[tuple[BatchHeader, bytes]]:
        """Every batch, whole. One read covers as many as fit into the buffer, or a single larger one."""
        self._check_sound()
        buffer_bytes = max(buffer_bytes, HEADER_BYTES)
        position, wanted_bytes = 0, buffer_bytes
        while position < self.size_bytes:
            chunk = os.pread(self.fd, min(wanted_bytes, self.size_bytes - position), position)
            at = 0
            while at + HEADER_BYTES <= len(chunk):
                header = BatchHeader._make(HEADER.unpack_from(chunk, at))
                end = at + header.size_bytes
                if not is_plausible(header) or position + end > self.size_bytes:
                    raise self._found_corrupt(position + at, "no batch begins there")
                if end > len(chunk):
                    break
                batch = chunk[at:end]
                if not crc_matches(batch, header):
                    raise self._found_corrupt(position + at, "the batch does not match its CRC")
                yield header, batch
                at = end
            if at == 0 and len(chunk) < wanted_bytes:
                raise self._found_corrupt(position, "the file is shorter than it was")
            wanted_bytes = buffer_bytes if at else header.size_bytes
            position += at

    def batches_since(self, timestamp_ms: int) -> Iterator[tuple[BatchHeader, bytes]]:
        """Yield the batches whose largest timestamp is at or after the given one."""
        self._check_sound()
        if self.max_timestamp_ms < timestamp_ms or not self.size_bytes:
            return
        for position, header in self._walk(self._indexed().at_time(timestamp_ms)):
            if header.max_timestamp_ms >= timestamp_ms:
                yield header, self.batch_at(position, header)

    def batch_with_max_timestamp(self) -> tuple[BatchHeader, bytes]:
        """Return the first batch that holds the segment's largest timestamp. The segment is not empty."""
        self._check_sound()
        position, header = next(self._walk(self.max_timestamp_position))
        return header, self.batch_at(position, header)

    def batch_at(self, position: int, header: BatchHeader) -> bytes:
        """Return the batch with that header."""
        batch = os.pread(self.fd, header.size_bytes, position)
        self._check_batches(batch, position, position + header.size_bytes)
        return batch

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
        indexes.CACHE.forget(self.path)

    def _growing_index(self) -> SparseIndex:
        """For a segment that will be written to again, whose index is in a file."""
        index = self._index = self._indexed()
        self._head = None
        indexes.CACHE.forget(self.path)
        return index

    def _indexed(self) -> SparseIndex:
        index = self._index
        return index if index is not None else indexes.CACHE.get(self.path, self._read_index)

    def _read_index(self) -> SparseIndex:
        path = self.path.with_suffix(indexes.SUFFIX)
        index = indexes.read_entries(path, self._head) if self._head is not None else None
        if index is None:
            log.warning("%s is torn or damaged; it is made anew", path)
            index = self._rebuilt_index()
            try:
                self._write_index(index, DISK)
            except OSError as error:
                log.warning("%s cannot be made anew: %s", path, error)
        return index

    def _rebuilt_index(self) -> SparseIndex:
        index, largest_ms = SparseIndex(), NO_TIMESTAMP
        for position, header in self._walk(0):
            index.grow(header.base_offset, position, largest_ms, self._interval_bytes)
            largest_ms = max(largest_ms, header.max_timestamp_ms)
        return index

    def _adopt(self, head: Head) -> None:
        self._head, self._index = head, None
        self.size_bytes = head.size_bytes
        self.next_offset = head.next_offset
        self.last_position = head.last_position
        self.max_timestamp_ms = head.max_timestamp_ms
        self.max_timestamp_position = head.max_timestamp_position

    def _ends_are_sound(self) -> bool:
        first = next(walk(self.fd, 0, self.size_bytes, verify=True), None)
        last = next(walk(self.fd, self.last_position, self.size_bytes, verify=True), None)
        if first is None or last is None or first[1].base_offset < self.base_offset:
            return False
        return last[0] + last[1].size_bytes == self.size_bytes and last[1].next_offset == self.next_offset

    def _walk(self, start: int, chunk_bytes: int = _LOOKUP_BYTES) -> Iterator[tuple[int, BatchHeader]]:
        """:func:`walk` to the end of the segment. Raises CorruptSegment if it stops before."""
        position = start
        for position, header in walk(self.fd, start, self.size_bytes, chunk_bytes=chunk_bytes):
            yield position, header
            position += header.size_bytes
        if position != self.size_bytes:
            raise self._found_corrupt(position, "no batch begins there")

    def _check_batches(self, content: bytes, start: int, end: int) -> None:
        """Check that the bytes between two positions are whole batches of this segment, in order."""
        if len(content) != end - start:
            raise self._found_corrupt(start + len(content), "the file is shorter than it was")
        damage = find_damage(content, self.base_offset, self.next_offset)
        if damage is not None:
            raise self._found_corrupt(start + damage[0], damage[1])

    def _check_sound(self) -> None:
        if self.corrupt is not None:
            raise self._error()

    def _found_corrupt(self, position: int, what: str) -> CorruptSegment:
        if self.corrupt is None:
            self.corrupt = f"byte {position}: {what}"
            self.on_corrupt(self)
        return self._error()

    def _error(self) -> CorruptSegment:
        return CorruptSegment(
            f"{self.path.parent.name}: {self.path.name} is corrupt ({self.corrupt}), offsets {self.base_offset} to "
            f"{self.next_offset - 1} are not served"
        )


def _report(segment: Segment) -> None:
    log.error("%s", segment._error())
