"""The lag of a group, partition by partition: committed offsets, log ends, and owners."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from muster.placement.mapping.nodes import host_text

TopicPartition = tuple[str, int]
"""Topic and partition."""


class End(NamedTuple):
    """The end of a partition's log, all at one moment."""

    end_offset: int
    append_time_ms: int | None = None
    """When the record at the committed offset was appended; None if that is unknown, or there is none yet."""
    now_ms: int = 0
    """The moment, by the same clock as the append time."""


class Owner(NamedTuple):
    """The member that a partition is assigned to."""

    member_id: str
    client_id: str
    host: str


def rows(
    committed: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, End],
    owners: Mapping[TopicPartition, Owner],
    messages: Mapping[TopicPartition, int],
    others: Iterable[TopicPartition] = (),
) -> list[dict[str, Any]]:
    """One row for each partition that is committed, assigned or another one, by topic. Unknown values are None.

    ``messages``: in the logs. They are in the rows of partitions without a committed offset.

    ``lag`` is in messages; below 0 if the committed offset is beyond the end of the log. ``lag_s`` is how long ago the
    first unconsumed record was appended, with milliseconds; 0 if there is none.
    """
    return [
        _row(key, committed.get(key), ends.get(key), owners.get(key), messages.get(key))
        for key in sorted({*committed, *owners, *others})
    ]


def _row(
    key: TopicPartition, committed: int | None, end: End | None, owner: Owner | None, messages: int | None
) -> dict[str, Any]:
    lag = None if committed is None or end is None else end.end_offset - committed
    return {
        "topic": key[0],
        "partition": key[1],
        "committed_offset": committed,
        "end_offset": end.end_offset if end else None,
        "lag": lag,
        "lag_s": lag_s(lag, end),
        "messages_without_commit": messages if committed is None else 0,
        "member_id": owner.member_id if owner else None,
        "client_id": owner.client_id if owner else None,
        "host": host_text(owner.host) if owner else None,
    }


def lacks_commit(row: Mapping[str, Any]) -> bool:
    """Return whether such a row has messages, as far as is known, and no committed offset."""
    return row["committed_offset"] is None and bool(row["end_offset"]) and row["messages_without_commit"] != 0


def worst_first(group: Mapping[str, Any]) -> tuple[Any, ...]:
    """Sorts groups with messages in partitions without a commit before all others, as nobody knows their age.

    Then by the age of the oldest unconsumed record, then by messages; what is unknown comes last.
    """
    return -group["messages_without_commit"], *oldest_first(group)


def oldest_first(group: Mapping[str, Any]) -> tuple[Any, ...]:
    """Sorts groups by the age of the oldest unconsumed record, then by messages."""
    return (*largest_first(group["lag_s"]), *largest_first(group["lag"]), group["group"])


def largest_first(value: float | None) -> tuple[bool, float]:
    """Sorts the largest first, and what is unknown last."""
    return value is None, -(value or 0)


def lag_s(lag: int | None, end: End | None) -> float | None:
    """Seconds; never NaN, never below 0."""
    if lag == 0:
        return 0.0
    if lag is None or lag < 0 or end is None or end.append_time_ms is None:
        return None
    return max(end.now_ms - end.append_time_ms, 0) / 1000
