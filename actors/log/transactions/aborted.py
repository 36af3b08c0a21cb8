"""The aborted transactions of a segment, and the file ``<name of the segment>.txnindex`` beside it.

The file is Kafka's (TransactionIndex): 34 bytes for each transaction that an ABORT in this segment ended, ascending by
that marker's offset, big-endian::

    version i16 = 0 | producer id i64 | first offset i64 | last offset i64 | last stable offset i64

It is written when the segment is closed, never synced, and used only if its CRC-32C is the one in the segment's index
file. Otherwise it is made anew from the log.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from crc32c import crc32c

from muster.actors.log.files.disk import Disk
from muster.actors.log.format.batch import BatchHeader

SUFFIX = ".txnindex"
_VERSION = 0
_ENTRY = struct.Struct(">hqqqq")


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    """First offset of its first batch, which may lie in an earlier segment."""
    last_offset: int
    """Offset of the marker."""
    last_stable_offset: int
    """After the marker: where the first transaction begins that was open then, else behind the marker."""


class AbortedTransactions:
    """Aborted transactions of one segment. Kept as bytes, since there may be many."""

    __slots__ = ("_content",)

    def __init__(self, content: bytes = b"") -> None:
        self._content = bytearray(content)

    def __len__(self) -> int:
        return len(self._content) // _ENTRY.size

    def __getitem__(self, index: int) -> AbortedTransaction:
        return AbortedTransaction._make(_ENTRY.unpack_from(self._content, index * _ENTRY.size)[1:])

    def __iter__(self) -> Iterator[AbortedTransaction]:
        return (self[index] for index in range(len(self)))

    def add(self, transaction: AbortedTransaction) -> None:
        """Add the next one, in the order of the markers."""
        self._content += _ENTRY.pack(_VERSION, *transaction)

    def since(self, offset: int) -> Iterator[AbortedTransaction]:
        """Yield the transactions with a marker at or behind the offset."""
        first = bisect_left(range(len(self)), offset, key=lambda index: self[index].last_offset)
        return (self[index] for index in range(first, len(self)))

    @property
    def crc(self) -> int:
        return crc32c(self._content)

    def write(self, segment: Path, disk: Disk) -> None:
        """Write the file beside that segment file. Raises OSError."""
        disk.replace_unsynced(segment.with_suffix(SUFFIX), bytes(self._content), f"{os.getpid()}")

    @classmethod
    def read(cls, segment: Path, count: int, crc: int) -> AbortedTransactions | None:
        """Return the content of the file; None if it does not have so many entries and that CRC. Raises OSError."""
        try:
            content = segment.with_suffix(SUFFIX).read_bytes()
        except FileNotFoundError:
            return None
        found = cls(content)
        return found if len(content) == count * _ENTRY.size and found.crc == crc else None


class AbortedRanges:
    """Which batches are part of aborted transactions, for any number of lookups."""

    def __init__(self, transactions: Iterable[AbortedTransaction]) -> None:
        self._ranges: dict[int, list[tuple[int, int]]] = {}
        """By producer id: first offset and offset of the marker, ascending."""
        for each in transactions:
            self._ranges.setdefault(each.producer_id, []).append((each.first_offset, each.last_offset))

    def hold(self, header: BatchHeader) -> bool:
        """Whether the batch's records are aborted."""
        if not header.is_transactional or header.is_control or header.producer_id not in self._ranges:
            return False
        ranges = self._ranges[header.producer_id]
        index = bisect_right(ranges, header.base_offset, key=lambda each: each[0]) - 1
        return index >= 0 and header.base_offset < ranges[index][1]


def overlapping(segments: Iterable[AbortedTransactions], start: int, upper: int) -> Iterator[AbortedTransaction]:
    """Yield the aborted transactions with records in [``start``, ``upper``), up to the last stable offset at most.

    ``segments``: from the one that holds ``start`` on.
    """
    for aborted in segments:
        for transaction in aborted.since(start) if len(aborted) else ():
            if transaction.first_offset < upper:
                yield transaction
            if transaction.last_stable_offset >= upper:
                return
