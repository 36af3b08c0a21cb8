"""The plan of a batch, in the metadata of the group's offsets, so that a batch that was begun is the same again.

Before the first read, the batch's number and the end of each of its ranges are committed beside the unchanged offset;
after the work, the end is, with the number alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from muster.gateway.client.data.ranges import Range
from muster.gateway.client.kafka.leaders import TopicPartition
from muster.gateway.client.kafka.offsets import Committed

_NUMBER, _END, _RANGES = "muster.batch", "end", "ranges"


class Plan(NamedTuple):
    """The batch that a group has begun, or is to begin."""

    number: int
    """Number of the batch that was begun, else of the next one; from 1 on."""
    ranges: tuple[Range, ...]
    """Ranges of the batch that was begun and not committed; empty if there is none."""


class _Entry(NamedTuple):
    number: int
    end: int | None
    ranges: int


def planned(number: int, ranges: Sequence[Range]) -> dict[TopicPartition, Committed]:
    """Return what to commit before the batch is read."""
    return {
        (each.topic, each.partition): Committed(
            each.start, json.dumps({_NUMBER: number, _END: each.end, _RANGES: len(ranges)}, separators=(",", ":"))
        )
        for each in ranges
    }


def done(number: int, ranges: Sequence[Range]) -> dict[TopicPartition, Committed]:
    """Return what to commit when the batch's work is done."""
    metadata = json.dumps({_NUMBER: number}, separators=(",", ":"))
    return {(each.topic, each.partition): Committed(each.end, metadata) for each in ranges}


def read_plan(committed: Mapping[TopicPartition, Committed]) -> Plan:
    """Return the plan in the group's offsets.

    A batch whose offsets were reset since, in whole or in part, was not begun: its number is not used again, since the
    next one has other records.
    """
    entries = {each: entry for each, found in committed.items() if (entry := _entry(found.metadata)) is not None}
    last = max((entry.number for entry in entries.values()), default=0)
    ranges = tuple(
        Range(*each, committed[each].offset, entry.end)
        for each, entry in sorted(entries.items())
        if entry.number == last and entry.end is not None
    )
    if ranges and len(ranges) == next(entries[each[:2]].ranges for each in ranges):
        return Plan(last, ranges)
    return Plan(last + 1, ())


def _entry(metadata: str) -> _Entry | None:
    """Return None for metadata of others."""
    try:
        found = json.loads(metadata)
        number, end, ranges = found[_NUMBER], found.get(_END), found.get(_RANGES, 0)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if not all(isinstance(each, int) for each in (number, ranges)) or not (end is None or isinstance(end, int)):
        return None
    return _Entry(number, end, ranges)
