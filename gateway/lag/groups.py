"""The lag of every group of some offsets partitions: what they have committed, beside the ends of the logs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from muster.actors.offsets.committed import GroupOffsets, read
from muster.gateway.lag.ends import Ends, ends_of
from muster.gateway.lag.partitions import TopicPartition, lag_s
from muster.gateway.listener.gateway import Gateway
from muster.gateway.listener.queries import query_coordinators
from muster.placement.view import UNDO_PREFIX

log = logging.getLogger(__name__)

T = TypeVar("T")
_TURN_GROUPS = 100


class PartitionLag(NamedTuple):
    """Lag of one group in one partition."""

    topic: str
    partition: int
    lag: int | None
    """In messages, never below 0; None if the end of the log is unknown."""
    lag_s: float | None
    """How long ago the first unconsumed record was appended, in seconds; None if that is unknown."""


class WithoutCommit(NamedTuple):
    """One partition that a member has, and that the group has not committed an offset of."""

    topic: str
    partition: int
    messages: int | None
    """In its log; None if that is unknown."""


class Total(NamedTuple):
    """Total of one group, over partitions. None if nothing of it is known."""

    lag: int | None
    """The sum, in messages; 0 of partitions without a committed offset alone."""
    lag_s: float | None
    """The largest, in seconds."""
    behind: int
    """Partitions with a lag."""
    partitions: int
    """Partitions with a committed offset."""
    without_commit: int
    """Partitions that members have, with messages and without a committed offset. They are in no other number."""
    messages_without_commit: int
    """Messages in their logs. Whether the group will read them depends on its consumers' ``auto.offset.reset``."""

    def to_json(self) -> dict[str, Any]:
        """Return all of it, and ``unread``: the messages that it will read if it begins where it has not committed."""
        unread = None if self.lag is None else self.lag + self.messages_without_commit
        return {**self._asdict(), "unread": unread}


@dataclass(frozen=True, slots=True)
class GroupLag:
    """One group."""

    group: str
    state: str
    type: str
    protocol_type: str
    members: int
    partitions: Sequence[PartitionLag]
    """Partitions with a committed offset, by topic and partition."""
    without_commit: Sequence[WithoutCommit] = ()
    """Other partitions of members, by topic and partition."""

    def total(self, sees_topic: Callable[[str], bool] = lambda _: True) -> Total:
        """Return the total of the partitions whose topics are seen."""
        return total(
            (each for each in self.partitions if sees_topic(each.topic)),
            (each for each in self.without_commit if sees_topic(each.topic)),
        )


def total(partitions: Iterable[PartitionLag], without_commit: Iterable[WithoutCommit]) -> Total:
    """Return the sum and the largest."""
    seen = list(partitions)
    lags = [each.lag for each in seen if each.lag is not None]
    ages_s = [each.lag_s for each in seen if each.lag_s is not None]
    behind = sum(lag > 0 for lag in lags)
    messages = [each.messages for each in without_commit if each.messages is not None]
    lag = sum(lags) if lags or (messages and not seen) else None
    return Total(lag, max(ages_s, default=None), behind, len(seen), sum(map(bool, messages)), sum(messages))


class Lags(NamedTuple):
    """All groups that are known."""

    groups: list[GroupLag]
    missing_partitions: list[int]
    """Offsets partitions whose coordinator did not respond: their groups are missing."""
    silent: list[str]
    """Actors whose logs have no end here."""


async def lags_of(gateway: Gateway, timeout_s: float, offsets_partitions: Iterable[int] | None = None) -> Lags:
    """Return the groups of these offsets partitions, or of all that were ever started.

    ``timeout_s``: for the coordinators, and again for the logs. Reads change nothing.
    """
    responses, missing = await query_coordinators(gateway, {"ask": "committed"}, timeout_s, offsets_partitions)
    found: list[GroupOffsets] = []
    for partition, response in responses.items():
        try:
            for chunk in read(response):
                found += [row for row in chunk if not row.group.startswith(UNDO_PREFIX)]
                await asyncio.sleep(0)
        except (KeyError, TypeError, ValueError) as error:
            log.error("offsets-%d says what this gateway cannot read: %r", partition, error)
            missing.append(partition)
    positions: dict[TopicPartition, set[int]] = {}
    async for row in in_turns(found):
        for topic, partition, offset in _positions(row):
            positions.setdefault((topic, partition), set()).add(offset)
        for each in _without_commit(row):
            positions.setdefault(each, set())
    ends = await ends_of(gateway, positions, timeout_s)
    groups = [_lag(row, ends) async for row in in_turns(found)]
    return Lags(groups, sorted(missing), ends.silent)


async def in_turns(rows: Iterable[T]) -> AsyncIterator[T]:
    """Yield the rows; other work of the event loop is done after every few hundred groups, a few milliseconds."""
    for number, row in enumerate(rows, 1):
        yield row
        if number % _TURN_GROUPS == 0:
            await asyncio.sleep(0)


def _positions(row: GroupOffsets) -> Iterator[tuple[str, int, int]]:
    for topic, committed in row.offsets.items():
        for partition, offset in committed:
            yield topic, partition, offset


def _without_commit(row: GroupOffsets) -> Iterator[TopicPartition]:
    return ((topic, partition) for topic, partitions in row.without_commit.items() for partition in partitions)


def _lag(row: GroupOffsets, ends: Ends) -> GroupLag:
    partitions = []
    for topic, partition, offset in sorted(_positions(row)):
        end = ends.at((topic, partition), offset)
        lag = None if end is None else max(end.end_offset - offset, 0)
        partitions.append(PartitionLag(topic, partition, lag, lag_s(lag, end)))
    without = [WithoutCommit(*each, ends.messages(each)) for each in sorted(_without_commit(row))]
    return GroupLag(row.group, row.state, row.type, row.protocol_type, row.members, partitions, without)
