"""Ranges of offsets: what one read covers, and how it is split among tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from muster.gateway.client.kafka.leaders import TopicPartition


class Range(NamedTuple):
    """Offsets ``start`` to ``end - 1`` of one partition."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def offsets(self) -> int:
        """Number of offsets, at least that of the records."""
        return self.end - self.start


def between(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> tuple[Range, ...]:
    """Return the range of each partition in which there is something, in order."""
    return tuple(Range(*each, starts[each], ends[each]) for each in sorted(starts) if starts[each] < ends[each])


def cut(ranges: Iterable[Range], max_offsets: int) -> tuple[Range, ...]:
    """Return the ranges with ``max_offsets`` at most in all, of each partition as many as of others that have them."""
    left, found = max_offsets, []
    by_size = sorted(ranges, key=lambda each: each.offsets)
    for number, each in enumerate(by_size):
        taken = min(each.offsets, -(-left // (len(by_size) - number)))
        left -= taken
        if taken:
            found.append(each._replace(end=each.start + taken))
    return tuple(sorted(found))


def split(ranges: Sequence[Range], max_offsets: int) -> Iterator[Range]:
    """Yield pieces of the ranges in their order, none with more than ``max_offsets``."""
    for each in ranges:
        pieces = -(-each.offsets // max_offsets)
        size = -(-each.offsets // max(pieces, 1))
        for start in range(each.start, each.end, max(size, 1)):
            yield each._replace(start=start, end=min(start + size, each.end))
