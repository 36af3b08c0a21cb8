"""Positions of records, each of which begins where its predecessor ends.

Such a chain is followed for many batches in step, and for the rest in Python. Large batches are few, so they are cut
into sections. Where a section begins is a guess: a position from which two records follow that have no attributes and
offsets one after the other. The guess is right if the section before ends there, after as many records as these
offsets say. If any is wrong, as in compacted batches, no batch is cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import repeat

import numpy as np

from muster.actors.log.errors import CorruptMessage
from muster.actors.log.format.arrow.varints import LONG_BYTES, Int64s, Words, read_varint, read_varints
from muster.actors.wire.kafka.framing import Buffer

MIN_RECORD_BYTES = 7
"""A byte for each field, and one for the length."""
_WIDE = 16
"""From so many on, an operation of numpy on all takes less time than a loop over them."""
_SECTIONS = 128
"""Sections that are followed in step, about."""
_MIN_SECTION_RECORDS = 64
_POSITIONS_PER_RECORD = 8
"""Positions that are looked at for the beginning of a section, at most, by its records: so the search takes less time
than it saves."""


def record_starts(words: Words, room: Buffer, at: Int64s, counts: Int64s) -> Int64s:
    """Return where each record of the batches begins. Parameters as in ``read_fields``.

    Whether the last record of a batch ends with the batch is for the caller to check. Raises CorruptMessage, and
    IndexError if the last batch ends inside a record.
    """
    try:
        sections, section_counts = _cut(words, at, counts)
        if len(sections) > len(at) and (section_counts > 0).all():
            starts, ends = _follow(words, room, sections, section_counts)
            if np.array_equal(ends, np.append(sections[1:], len(words))):
                return starts
    except (CorruptMessage, IndexError):
        pass  # a guess may be wrong
    return _follow(words, room, at, counts)[0]


def _follow(words: Words, room: Buffer, at: Int64s, counts: Int64s) -> tuple[Int64s, Int64s]:
    """Return where the records of each chain begin, and where each chain ends."""
    starts = np.empty(int(counts.sum()), np.int64)
    order = np.argsort(counts, kind="stable")
    slots = (np.cumsum(counts) - counts)[order]
    at, counts = at[order], counts[order]
    steps, done = _steps(), 0
    first = 0  # of the chains that have more records
    while len(at) - first >= _WIDE:
        here, slot = at[first:], slots[first:]
        for _ in range(done, int(counts[first])):
            starts[slot] = here
            step = steps[words[here]]
            if step.all():
                here += step
            else:
                lengths, bodies = read_varints(words, here)
                here[:] = bodies + lengths
            slot += 1
        done = int(counts[first])
        first = int(np.searchsorted(counts, done, "right"))
    for index in range(first, len(at)):
        left, out = int(counts[index]) - done, int(slots[index])
        found = np.fromiter(_chain(room, int(at[index]), left + 1), np.int64, left + 1)
        starts[out : out + left], at[index] = found[:-1], found[-1]
    ends = np.empty_like(at)
    ends[order] = at
    return starts, ends


@cache
def _steps() -> Int64s:
    """Return the size of a record, its length included, by its first word; 0 if the length has more than two bytes."""
    words = np.arange(1 << 16, dtype=np.int64)
    low, high = words & 0xFF, words >> 8
    return np.where(low < 0x80, 1 + (low >> 1), np.where(high < 0x80, 2 + ((low & 0x7F) >> 1) + (high << 6), 0))


def _chain(room: Buffer, at: int, count: int) -> Iterator[int]:
    for _ in repeat(None, count):
        yield at
        low = room[at]
        if low < 0x80:
            at += 1 + (low >> 1)
        elif (high := room[at + 1]) < 0x80:
            at += (high << 6) + (low >> 1) - 62  # 2 + (low - 128 + 128 * high) / 2
        else:
            length, at = read_varint(room, at)
            at += length


def _cut(words: Words, at: Int64s, counts: Int64s) -> tuple[Int64s, Int64s]:
    """Return where sections begin, as a guess, and their numbers of records. A batch begins a section, too.

    Raises CorruptMessage or IndexError if that cannot be said.
    """
    sizes = np.append(at[1:], len(words)) - at
    widths = 2 * (sizes // counts) + MIN_RECORD_BYTES  # records are rarely twice as large as the mean
    records = np.maximum(widths // _POSITIONS_PER_RECORD, max(int(counts.sum()) // _SECTIONS, _MIN_SECTION_RECORDS))
    cuts = np.maximum(counts // records - 1, 0)
    if not cuts.any():
        return at, counts
    batches = np.repeat(np.arange(len(at)), cuts)
    looked_at = at[batches] + sizes[batches] * (_ramps(cuts) + 1) // (cuts[batches] + 1)
    widths = widths[batches]
    rows = np.repeat(np.arange(len(looked_at)), widths)
    positions = looked_at[rows] + _ramps(widths)
    found, deltas = _guesses(words, positions)
    _, chosen = np.unique(rows[found], return_index=True)
    found, deltas = found[chosen], deltas[chosen]
    numbers = np.cumsum(counts) - counts
    numbers = np.append(numbers, numbers[batches[rows[found]]] + deltas)
    starts = np.append(at, positions[found])
    order = np.argsort(starts, kind="stable")
    return starts[order], np.diff(np.append(numbers[order], counts.sum()))


def _ramps(sizes: Int64s) -> Int64s:
    """Return 0, 1, 2 and so on, below each size, one ramp after the other."""
    return np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def _guesses(words: Words, at: Int64s) -> tuple[Int64s, Int64s]:
    """Return which of the positions seem to be records, and their offset deltas."""
    steps, limit = _steps(), len(words) - 2 * LONG_BYTES
    seeming = np.arange(len(at))
    here, bodies = at, np.empty((2, len(at)), np.int64)
    for number in range(2):
        word = words[here]
        step = steps[word]
        bodies[number] = here + 1 + ((word >> 7) & 1)
        seems = (step >= MIN_RECORD_BYTES) & (here + step < limit)
        seems[seems] = words[bodies[number, seems]] & 0xFF == 0  # attributes
        seeming, here, bodies = seeming[seems], (here + step)[seems], bodies[:, seems]
    _, positions = read_varints(words, bodies.ravel() + 1, LONG_BYTES)
    deltas, following = read_varints(words, positions)[0].reshape(bodies.shape)
    is_next = (deltas > 0) & (following == deltas + 1)
    return seeming[is_next], deltas[is_next]
