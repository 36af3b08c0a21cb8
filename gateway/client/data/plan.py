"""The plan of a batch, in the metadata of the group's offsets, so that a batch that was begun is the same again.

Before the first read, the batch's number and the end of each of its ranges are committed beside the unchanged offset;
after the work, the end is, with the number alone. All other partitions of the topics are committed again with every
plan: each offset of a group without members expires ``offsets.retention.minutes`` after it was committed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from muster.gateway.client.data.ranges import Range
from muster.gateway.client.kafka.leaders import TopicPartition
from muster.gateway.client.kafka.offsets import Committed

_NUMBER, _END = "muster.batch", "end"


class Plan(NamedTuple):
    """The batch that a group has begun, or is to begin."""

    number: int
    """Number of the batch that was begun, else of the next one; from 1 on."""
    ranges: tuple[Range, ...]
    """Ranges of the batch that was begun and not committed; empty if there is none."""


class _Entry(NamedTuple):
    number: int
    end: int | None


def planned(
    number: int, ranges: Sequence[Range], others: Mapping[TopicPartition, Committed]
) -> dict[TopicPartition, Committed]:
    """Return what to commit before the batch is read; ``others`` are committed partitions without a range."""
    found = {each: Committed(committed.offset, _metadata(number)) for each, committed in others.items()}
    for each in ranges:
        found[each.topic, each.partition] = Committed(each.start, _metadata(number, each.end))
    return found


def done(number: int, ranges: Sequence[Range]) -> dict[TopicPartition, Committed]:
    """Return what to commit when the batch's work is done."""
    return {(each.topic, each.partition): Committed(each.end, _metadata(number)) for each in ranges}


def read_plan(committed: Mapping[TopicPartition, Committed], now_s: int) -> Plan:
    """Return the plan in the group's offsets.

    Of a batch that was begun, partitions that were reset since, or deleted, are in it no longer. Where all offsets are
    of somebody else, such as a reset of the group, the number of the last batch is not known, and files may have it:
    the next one is the time, in seconds since 1970.
    """
    entries = {each: entry for each, found in committed.items() if (entry := _entry(found.metadata)) is not None}
    if committed and not entries:
        return Plan(now_s, ())
    last = max((entry.number for entry in entries.values()), default=0)
    ranges = tuple(
        Range(*each, committed[each].offset, entry.end)
        for each, entry in sorted(entries.items())
        if entry.number == last and entry.end is not None
    )
    return Plan(last, ranges) if ranges else Plan(last + 1, ())


def _metadata(number: int, end: int | None = None) -> str:
    return json.dumps({_NUMBER: number} if end is None else {_NUMBER: number, _END: end}, separators=(",", ":"))


def _entry(metadata: str) -> _Entry | None:
    """Return None for metadata of others."""
    try:
        found = json.loads(metadata)
        number, end = found[_NUMBER], found.get(_END)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if not isinstance(number, int) or not (end is None or isinstance(end, int)):
        return None
    return _Entry(number, end)
