"""The sparse index of a segment, in memory and in a file ``<name of the segment>.index`` beside it.

There is one entry per ``index.interval.bytes``: offset and position of a batch, and the largest timestamp of the
batches before it. One file holds what Kafka keeps in ``.index`` and ``.timeindex``.

**The file** is written when its segment is closed, and never synced. All numbers are big-endian::

    magic "MIDX" | version u16 | cleaned u16 (0, 1) | leader epoch i64 | serial i64 | base offset i64
    size of the segment i64 | next offset i64 | position of the last batch i64
    largest timestamp i64 | its position i64 | entries i64 | crc of the entries u32
    in version 2: aborted transactions u32 | crc of their file u32
    crc of all before u32
    offsets i64 * entries | positions i64 * entries | timestamps i64 * entries

The file is valid only if both CRC-32Cs match and it belongs to the segment whose name it has. No segment name is used
twice and no byte of a segment is written twice, so what a whole index says about the first ``size`` bytes stays true.
The head is read when a log is opened, the entries when they are first needed. Version 2 is for segments with aborted
transactions: these are in a file of their own (``muster.actors.log.transactions.aborted``), which must match, too.

**Memory.** The segment that is written to has its index in memory, 24 bytes per entry. All others share
:data:`CACHE`, which evicts the least recently used one.
"""

from __future__ import annotations

import logging
import os
import struct
import sys
import threading
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from crc32c import crc32c

from muster.actors.log.files.disk import Disk

SUFFIX = ".index"
_MAGIC = b"MIDX"
_VERSION, _VERSION_ABORTED = 1, 2
_FIELDS = {_VERSION: struct.Struct(">4sHHqqqqqqqqqI"), _VERSION_ABORTED: struct.Struct(">4sHHqqqqqqqqqIII")}
_START = struct.Struct(">4sH")
_CRC = struct.Struct(">I")
_MAX_HEAD_BYTES = max(fields.size for fields in _FIELDS.values()) + _CRC.size
ENTRY_BYTES = 24
CACHE_BYTES = 64 << 20

log = logging.getLogger(__name__)


class SparseIndex:
    """Entries ascend. The first entry is that of the first batch."""

    __slots__ = ("_before_ms", "_offsets", "_positions")

    def __init__(self) -> None:
        self._offsets = array("q")
        self._positions = array("q")
        self._before_ms = array("q")

    def __len__(self) -> int:
        return len(self._offsets)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """(offset, position) of each entry."""
        return zip(self._offsets, self._positions, strict=True)

    @property
    def memory_bytes(self) -> int:
        return len(self) * ENTRY_BYTES

    def grow(self, offset: int, position: int, before_ms: int, interval_bytes: int) -> None:
        """Add an entry for the batch at that position, behind all others, unless the last entry is near.

        ``before_ms``: the largest timestamp of the batches before this one.
        """
        if self._positions and position - self._positions[-1] < interval_bytes:
            return
        self._offsets.append(offset)
        self._positions.append(position)
        self._before_ms.append(before_ms)

    def at_offset(self, offset: int) -> int:
        """Where to start looking for the batch that holds the offset.

        Raises IndexError if empty, like the other lookups.
        """
        return self._positions[max(bisect_right(self._offsets, offset) - 1, 0)]

    def at_position(self, position: int) -> int:
        """Position of a batch at or before that one."""
        return self._positions[max(bisect_right(self._positions, position) - 1, 0)]

    def at_time(self, timestamp_ms: int) -> int:
        """Position before which no batch has that timestamp or a later one."""
        return self._positions[max(bisect_left(self._before_ms, timestamp_ms) - 1, 0)]

    def to_bytes(self) -> bytes:
        return b"".join(_big_endian(column).tobytes() for column in (self._offsets, self._positions, self._before_ms))

    @classmethod
    def from_bytes(cls, content: bytes) -> SparseIndex:
        index = cls()
        size = len(content) // 3
        for number, column in enumerate((index._offsets, index._positions, index._before_ms)):
            column.frombytes(content[number * size : (number + 1) * size])
            if sys.byteorder == "little":
                column.byteswap()
        return index


def _big_endian(column: array[int]) -> array[int]:
    if sys.byteorder == "big":
        return column
    swapped = array("q", column)
    swapped.byteswap()
    return swapped


@dataclass(frozen=True, slots=True)
class Head:
    """State of a segment, in its index file."""

    cleaned: bool
    epoch: int
    serial: int
    base_offset: int
    size_bytes: int
    """How much of the segment the index covers."""
    next_offset: int
    last_position: int
    """Position of the last batch."""
    max_timestamp_ms: int
    max_timestamp_position: int
    entries: int
    entries_crc: int
    aborted: int = 0
    """How many aborted transactions the file beside this one has."""
    aborted_crc: int = 0

    @property
    def _version(self) -> int:
        return _VERSION_ABORTED if self.aborted else _VERSION

    @property
    def head_bytes(self) -> int:
        """Where the entries begin."""
        return _FIELDS[self._version].size + _CRC.size

    @classmethod
    def read(cls, path: Path) -> Head | None:
        """None if the file does not exist or is not whole. Raises OSError for all other failures."""
        try:
            with path.open("rb") as file:
                content = file.read(_MAX_HEAD_BYTES)
                size_bytes = os.fstat(file.fileno()).st_size
        except FileNotFoundError:
            return None
        head = cls._parse(content)
        if head is None or size_bytes != head.head_bytes + head.entries * ENTRY_BYTES:
            log.warning("%s is torn or damaged; it is made anew", path)
            return None
        return head

    @classmethod
    def _parse(cls, content: bytes) -> Head | None:
        if len(content) < _START.size:
            return None
        magic, version = _START.unpack_from(content)
        layout = _FIELDS.get(version)
        if magic != _MAGIC or layout is None or len(content) < layout.size + _CRC.size:
            return None
        if crc32c(content[: layout.size]) != _CRC.unpack_from(content, layout.size)[0]:
            return None
        _, _, cleaned, *fields = layout.unpack_from(content)
        return cls(bool(cleaned), *fields)

    def to_bytes(self) -> bytes:
        fields = _FIELDS[self._version].pack(
            *(_MAGIC, self._version, self.cleaned, self.epoch, self.serial, self.base_offset),
            *(self.size_bytes, self.next_offset, self.last_position),
            *(self.max_timestamp_ms, self.max_timestamp_position, self.entries, self.entries_crc),
            *((self.aborted, self.aborted_crc) if self.aborted else ()),
        )
        return fields + _CRC.pack(crc32c(fields))


def read_entries(path: Path, head: Head) -> SparseIndex | None:
    """Return the entries that belong to the head; None if they are missing or damaged. Raises OSError."""
    try:
        with path.open("rb") as file:
            file.seek(head.head_bytes)
            content = file.read()
    except FileNotFoundError:
        return None
    if len(content) != head.entries * ENTRY_BYTES or crc32c(content) != head.entries_crc:
        return None
    return SparseIndex.from_bytes(content)


def write(path: Path, head: Head, entries: bytes, disk: Disk) -> None:
    """Write the whole file, or nothing unless the power fails. ``entries``: as many as ``head`` counts.

    Raises OSError.
    """
    disk.replace_unsynced(path, head.to_bytes() + entries, f"{os.getpid()}")


class IndexCache:
    """Indexes of closed segments by path, up to ``max_bytes`` in total. For any thread."""

    def __init__(self, max_bytes: int = CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._held: OrderedDict[Path, SparseIndex] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def memory_bytes(self) -> int:
        return self._bytes

    def get(self, path: Path, load: Callable[[], SparseIndex]) -> SparseIndex:
        """Return the index of that path, loaded if it is not cached."""
        with self._lock:
            held = self._held.get(path)
            if held is not None:
                self._held.move_to_end(path)
                return held
        loaded = load()
        with self._lock:
            self._drop(path)
            self._held[path] = loaded
            self._bytes += loaded.memory_bytes
            while self._bytes > self._max_bytes and len(self._held) > 1:
                self._drop(next(iter(self._held)))
        return loaded

    def forget(self, path: Path) -> None:
        """Drop the index of a segment that was closed or set aside."""
        with self._lock:
            self._drop(path)

    def _drop(self, path: Path) -> None:
        dropped = self._held.pop(path, None)
        if dropped is not None:
            self._bytes -= dropped.memory_bytes


CACHE = IndexCache()
