"""The ranges that a read covers: offsets of each partition, fixed at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from muster.gateway.client.data.ranges import Range, between
from muster.gateway.client.kafka.leaders import Leaders, TopicPartition
from muster.gateway.client.kafka.offsets import NO_OFFSET, committed, log_offsets
from muster.gateway.client.kafka.requests import EARLIEST, LATEST

if TYPE_CHECKING:
    from muster.gateway.client.cluster import Cluster

Start = Literal["committed", "earliest"] | datetime | Mapping[TopicPartition, int]
"""Where a read begins: what the group has committed, or the first record where it has not; a time; or offsets."""
End = Literal["latest"] | datetime | Mapping[TopicPartition, int]
"""Where it ends: at the last stable offset; before the first record that is not older; or before these offsets."""


def names_of(topics: str | Iterable[str]) -> list[str]:
    """Return the names, each once. Raises ValueError if there is none."""
    names = [topics] if isinstance(topics, str) else list(dict.fromkeys(topics))
    if not names:
        raise ValueError("there is no topic to read")
    return names


def snapshot(
    cluster: Cluster, topics: Sequence[str], group: str, client_id: str, start: Start, end: End
) -> tuple[Range, ...]:
    """Return the ranges that are not empty. Raises UnknownTopic, Refused, NoResponse, or ValueError."""
    with cluster.leaders(client_id) as leaders:
        partitions = [(topic, index) for topic in topics for index in leaders.partitions(topic)]
        first = log_offsets(leaders, partitions, EARLIEST)
        last = log_offsets(leaders, partitions, LATEST)
        starts = _starts(cluster, leaders, group, client_id, start, first, last)
        ends = _ends(leaders, end, last)
    return between(starts, ends)


def _starts(
    cluster: Cluster,
    leaders: Leaders,
    group: str,
    client_id: str,
    start: Start,
    first: Mapping[TopicPartition, int],
    last: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    match start:
        case "earliest":
            return dict(first)
        case "committed":
            with cluster.coordinator(group, client_id) as coordinator:
                found = committed(coordinator, group)
            return {each: max(found[each].offset, low) if each in found else low for each, low in first.items()}
        case datetime():
            at = log_offsets(leaders, first, _ms(start))
            return {each: last[each] if offset == NO_OFFSET else offset for each, offset in at.items()}
        case Mapping():
            return {each: max(start.get(each, low), low) for each, low in _known(start, first).items()}
    raise ValueError(
        f"start={start!r} is none of 'committed', 'earliest', a datetime and offsets by (topic, partition)"
    )


def _ends(leaders: Leaders, end: End, last: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    match end:
        case "latest":
            return dict(last)
        case datetime():
            at = log_offsets(leaders, last, _ms(end))
            return {each: high if at[each] == NO_OFFSET else min(at[each], high) for each, high in last.items()}
        case Mapping():
            return {each: min(end.get(each, high), high) for each, high in _known(end, last).items()}
    raise ValueError(f"end={end!r} is none of 'latest', a datetime and offsets by (topic, partition)")


def _known(given: Mapping[TopicPartition, int], known: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
    """Return the known ones. Raises ValueError if an offset is given of a partition that is not read."""
    for each in given:
        if each not in known:
            raise ValueError(f"{each!r} is no (topic, partition) of the topics that are read")
    return known


def _ms(time: datetime) -> int:
    """Return milliseconds since the epoch. Raises ValueError for a time without a time zone."""
    if time.tzinfo is None:
        raise ValueError(f"{time} has no time zone; use datetime(..., tzinfo=timezone.utc) or .astimezone()")
    return round(time.timestamp() * 1000)
