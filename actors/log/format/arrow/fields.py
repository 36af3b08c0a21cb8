"""Positions of the fields of records, which lie one after the other in one buffer.

Numpy reads each field of all records at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muster.actors.log.errors import CorruptMessage
from muster.actors.log.format.arrow.starts import record_starts
from muster.actors.log.format.arrow.varints import (
    LONG_BYTES,
    Int64s,
    Words,
    read_varint,
    read_varints,
    words_of,
)
from muster.actors.wire.kafka.framing import Buffer

_MIN_HEADER_BYTES = 2
_WIDE = 16
"""From so many on, an operation of numpy on all takes less time than a loop over them."""


class Slices(NamedTuple):
    """Slices of the buffer, one per record or header."""

    at: Int64s
    sizes: Int64s
    """In bytes; -1 is null."""


class Headers(NamedTuple):
    """Headers of all records, in order."""

    counts: Int64s
    """Number of headers of each record."""
    names: Slices
    values: Slices


class Fields(NamedTuple):
    """Fields of all records, in order."""

    timestamp_deltas: Int64s
    offset_deltas: Int64s
    keys: Slices
    values: Slices
    headers: Headers


def read_fields(room: Buffer, size_bytes: int, at: Int64s, counts: Int64s) -> Fields:
    """Return the fields of the records in the buffer's first bytes, which PADDING_BYTES follow.

    ``at`` and ``counts``: where each batch begins, the first at 0, and its number of records, at least one. A batch
    ends where the next begins. Raises CorruptMessage unless each record is as long as it says, and there are as many.
    """
    words = words_of(room, size_bytes)
    try:
        starts = record_starts(words, room, at, counts)
        return _fields(words, room, starts, np.append(starts[1:], size_bytes))
    except IndexError:
        raise CorruptMessage("the last batch ends inside a record") from None


def _fields(words: Words, room: Buffer, starts: Int64s, ends: Int64s) -> Fields:
    lengths, bodies = read_varints(words, starts)
    _check(bodies + lengths == ends)
    timestamp_deltas, at = read_varints(words, bodies + 1, LONG_BYTES)  # no attributes are defined
    offset_deltas, at = read_varints(words, at)
    keys, at = _slices(words, at)
    values, at = _slices(words, at)
    header_counts, at = read_varints(words, at)
    if header_counts.any():
        headers = _headers(words, room, header_counts, at, ends)
    else:
        _check(at == ends)
        nothing = Slices(at[:0], at[:0])
        headers = Headers(header_counts, nothing, nothing)
    return Fields(timestamp_deltas, offset_deltas, keys, values, headers)


def _slices(words: Words, at: Int64s) -> tuple[Slices, Int64s]:
    """Read a size at each position. Return the slices behind it, and the positions after these."""
    sizes, at = read_varints(words, at)
    _check(sizes >= -1)
    return Slices(at, sizes), at + np.maximum(sizes, 0)


def _headers(words: Words, room: Buffer, counts: Int64s, at: Int64s, ends: Int64s) -> Headers:
    _check(counts >= 0)
    _check(counts * _MIN_HEADER_BYTES <= ends - at)
    stops = np.cumsum(counts)
    total = int(stops[-1])
    found = np.empty((4, total), np.int64)
    order = np.argsort(counts, kind="stable")
    at, sorted_counts, slots = at[order], counts[order], (stops - counts)[order]
    index = 0
    first = int(np.searchsorted(sorted_counts, 0, "right"))
    while len(at) - first >= _WIDE:
        names, after = _slices(words, at[first:])
        values, after = _slices(words, after)
        found[:, slots[first:] + index] = (*names, *values)
        at[first:] = after
        index += 1
        first = int(np.searchsorted(sorted_counts, index, "right"))
    for row in range(first, len(at)):
        left, slot = int(sorted_counts[row]) - index, int(slots[row]) + index
        at[row] = _walk(room, int(at[row]), found[:, slot : slot + left])
    _check(at == ends[order])
    _check(found[1] >= 0)  # names are not null
    return Headers(counts, Slices(*found[:2]), Slices(*found[2:]))


def _walk(room: Buffer, at: int, found: Int64s) -> int:
    """Read the headers of one record, as many as ``found`` has columns. Return the position after them."""
    for column in range(found.shape[1]):
        for row in (0, 2):
            size, at = read_varint(room, at)
            _check(size >= -1)
            found[row : row + 2, column] = at, size
            at += max(size, 0)
    return at


def _check(is_sound: np.bool | bool | np.ndarray) -> None:
    if not np.all(is_sound):
        raise CorruptMessage("a record is not as long as it says")
