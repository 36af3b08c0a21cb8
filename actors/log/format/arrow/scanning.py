"""Batches of a Fetch response with committed records of a range: whole, undamaged, in order of their offsets."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from muster.actors.log.errors import CorruptMessage
from muster.actors.log.format.arrow.varints import Int64s
from muster.actors.log.format.batch import (
    CONTROL,
    CRC_FROM,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    TRANSACTIONAL,
    read_header,
)
from muster.actors.log.format.control import read_control

MAX_INT64 = (1 << 63) - 1
_CHECKED = struct.Struct(">8xi5xI")
"""Length and CRC."""
_HEADER = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("partition_leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp_ms", ">i8"),
        ("max_timestamp_ms", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)


class Batches(NamedTuple):
    """Some batches. The fields have one element for each."""

    starts: Int64s
    """Positions of their first bytes in the response."""
    ends: Int64s
    headers: NDArray[np.void]
    """With the fields of BatchHeader."""

    def field(self, name: str) -> Int64s:
        found: Int64s = self.headers[name].astype(np.int64)
        return found

    def some(self, chosen: NDArray[np.bool] | Int64s) -> Batches:
        return Batches(self.starts[chosen], self.ends[chosen], self.headers[chosen])


def committed_batches(
    view: memoryview, first: int, end: int, aborted: Iterable[tuple[int, int]]
) -> tuple[Batches, int]:
    """Return the batches that have committed records from ``first`` to before ``end``, and the offset after the last.

    That is the last whole batch, in the range or not; without any it is ``first``. Raises CorruptMessage.
    """
    bounds = np.array([0, *_ends(view)])
    headers: Any = np.ndarray((max(len(view) - HEADER_BYTES + 1, 0),), _HEADER, view, strides=(1,))[bounds[:-1]]
    batches = Batches(bounds[:-1], bounds[1:], headers)
    if not len(headers):
        return batches, first
    base_offsets, last_deltas = batches.field("base_offset"), batches.field("last_offset_delta")
    next_offsets = base_offsets + last_deltas + 1
    earliest = np.append(0, next_offsets[:-1])
    if (bad := np.flatnonzero((base_offsets < earliest) | (next_offsets <= base_offsets))).size:
        offset, expected = base_offsets[bad[0]], earliest[bad[0]]
        raise CorruptMessage(f"a batch with offsets from {offset} follows offset {expected - 1}")
    is_chosen = (next_offsets > first) & (base_offsets < end) & (batches.field("attributes") & CONTROL == 0)
    is_chosen[_aborted_batches(view, batches, next_offsets, aborted)] = False
    return batches.some(is_chosen), max(first, int(next_offsets[-1]))


def _ends(view: memoryview) -> Iterator[int]:
    """Yield the end of each whole batch, once its CRC has been checked. One loop: all that is read passes it."""
    at, size, unpack = 0, len(view), _CHECKED.unpack_from
    while size - at >= HEADER_BYTES:
        length, crc = unpack(view, at)
        end = at + LENGTH_OVERHEAD + length
        if view[at + MAGIC_AT] != MAGIC or end < at + HEADER_BYTES:
            break
        if end > size:
            return
        if crc32c(view[at + CRC_FROM : end]) != crc:
            raise CorruptMessage(f"the batch at offset {read_header(view, at).base_offset} does not match its CRC")
        yield end
        at = end
    if size - at > MAGIC_AT and (magic := view[at + MAGIC_AT]) != MAGIC:
        raise CorruptMessage(f"message format {magic} at byte {at} of {size}: only {MAGIC}, of Kafka 0.11, is readable")
    if size - at >= HEADER_BYTES:
        raise CorruptMessage(f"no record batch at byte {at} of {size}")


def _aborted_batches(
    view: memoryview, batches: Batches, next_offsets: Int64s, aborted: Iterable[tuple[int, int]]
) -> list[int]:
    """Return the indexes of batches of aborted transactions.

    A transaction goes from its first offset to its producer's next marker that aborts (as in Kafka's CompletedFetch).
    """
    waiting = sorted(((first_offset, producer_id) for producer_id, first_offset in aborted), reverse=True)
    if not waiting:
        return []
    open_producers: set[int] = set()
    found = []
    for index in np.flatnonzero(batches.field("attributes") & (TRANSACTIONAL | CONTROL)).tolist():
        batch = view[batches.starts[index] : batches.ends[index]]
        header = read_header(batch)
        while waiting and waiting[-1][0] < next_offsets[index]:
            open_producers.add(waiting.pop()[1])
        if header.is_control:
            marker = read_control(batch, header)
            if marker is not None and not marker.commit:
                open_producers.discard(header.producer_id)
        elif header.producer_id in open_producers:
            found.append(index)
    return found
