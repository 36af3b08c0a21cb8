"""The counts that an offsets partition keeps of its groups, and their snapshot that gateways scrape.

:class:`GroupCounts` holds what only the core's events show. Everything else is read from the core on request. Counts
start with the actor and are dropped with their group.
"""

from __future__ import annotations

import asyncio
import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from muster.actors.group.consumer.state import ConsumerGroup
from muster.actors.group.coordinator import Coordinator
from muster.actors.group.events import (
    AssignmentStored,
    Event,
    GenerationCompleted,
    GroupDeleted,
    GroupEpochRaised,
    MemberExpired,
    MemberJoined,
    MemberLeft,
    MemberReconciled,
    MemberSynced,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsExpired,
    RebalanceAborted,
    RebalanceStarted,
)
from muster.actors.group.state import Group
from muster.actors.group.types import GroupId
from muster.actors.runtime.process import now_ms
from muster.placement.mapping.registration import Kind

REBALANCE_BUCKETS_MS = (10, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000)
"""Upper bounds; one more bucket holds longer rebalances."""

_CHUNK_GROUPS = 250
"""Rows written or read in one turn of an event loop: a few milliseconds."""


class GroupRow(NamedTuple):
    """One group in a snapshot. Counts start with the actor."""

    group: str
    state: str
    """State of the group in DescribeGroups or ConsumerGroupDescribe."""
    generation: int
    """The epoch of a consumer group."""
    members: int
    pending_members: int
    """Member ids that were handed out and whose JoinGroup is still awaited (KIP-394)."""
    assigned_partitions: int | None
    """None if no member's assignment could be read."""
    offsets: int
    """Committed offsets that the group holds."""
    rebalancing_ms: int | None
    """Duration of the current rebalance so far; None without one."""
    joins: int
    syncs: int
    leaves: int
    offset_commits: int
    """Partitions committed."""
    offset_expirations: int
    offset_deletions: int
    rebalances_completed: int
    rebalances_ms: int
    """Total duration of completed rebalances."""
    rebalances_started: dict[str, int]
    """By ``muster.actors.group.events.Cause``, also for consumer groups."""
    expiries: dict[str, int]
    """Members removed, by ``muster.actors.group.events.Removal``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The content of one offsets partition in a scrape."""

    partition: int
    epoch: int
    load_ms: int
    """From the start of the log replay until the partition was active."""
    rebalance_buckets: tuple[int, ...]
    """Completed rebalances by duration, not cumulative; one more than REBALANCE_BUCKETS_MS."""
    rebalances_ms: int
    chunks: tuple[str, ...]
    """The rows, as JSON in parts that can be parsed one at a time."""

    def rows(self) -> Iterator[GroupRow]:
        """Every group. Raises ValueError or TypeError if this version cannot read a chunk."""
        for chunk in self.chunks:
            for row in json.loads(chunk):
                yield GroupRow(*row)

    def to_response(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_response(cls, response: dict[str, Any]) -> Snapshot:
        """Read a response. Raises KeyError or TypeError if this version cannot read it."""
        lists = {name: tuple(response[name]) for name in ("rebalance_buckets", "chunks")}
        return cls(**(response | lists))


@dataclass(slots=True)
class _Counts:
    joins: int = 0
    syncs: int = 0
    leaves: int = 0
    offset_commits: int = 0
    offset_expirations: int = 0
    offset_deletions: int = 0
    completed: int = 0
    completed_ms: int = 0
    started: Counter[str] = field(default_factory=Counter)
    expiries: Counter[str] = field(default_factory=Counter)
    rebalancing_since_ms: int | None = None


class GroupCounts:
    """Counts events. Times are ms since the Unix epoch."""

    def __init__(self) -> None:
        self._groups: dict[str, _Counts] = {}
        self.rebalance_buckets = [0] * (len(REBALANCE_BUCKETS_MS) + 1)
        self.rebalances_ms = 0

    def observe(self, event: Event, now_ms: int) -> None:
        """Count an event of the core."""
        match event:
            case OffsetsCommitted():
                self._of(event.group).offset_commits += len(event.partitions)
            case RebalanceStarted():
                counts = self._of(event.group)
                counts.started[event.cause] += 1
                if counts.rebalancing_since_ms is None:
                    counts.rebalancing_since_ms = now_ms
            case RebalanceAborted():
                self._of(event.group).rebalancing_since_ms = None
            case GroupEpochRaised():
                counts = self._of(event.group)
                counts.started[event.cause] += 1
                if not event.members:
                    counts.rebalancing_since_ms = None
                elif counts.rebalancing_since_ms is None:
                    counts.rebalancing_since_ms = now_ms
            case MemberReconciled() if event.is_last and self._of(event.group).rebalancing_since_ms is not None:
                self._completed(self._of(event.group), now_ms)
            case GenerationCompleted() if not event.members:
                self._of(event.group).rebalancing_since_ms = None
            case AssignmentStored():
                self._completed(self._of(event.group), now_ms)
            case MemberJoined():
                self._of(event.group).joins += 1
            case MemberSynced():
                self._of(event.group).syncs += 1
            case MemberExpired():
                self._of(event.group).expiries[event.cause] += 1
            case MemberLeft():
                self._of(event.group).leaves += 1
            case OffsetsExpired():
                self._of(event.group).offset_expirations += event.count
            case OffsetsDeleted():
                self._of(event.group).offset_deletions += event.count
            case GroupDeleted():
                self._groups.pop(event.group, None)

    def _of(self, group: GroupId) -> _Counts:
        counts = self._groups.get(group)
        if counts is None:
            counts = self._groups[group] = _Counts()
        return counts

    def _completed(self, counts: _Counts, now_ms: int) -> None:
        since_ms = now_ms if counts.rebalancing_since_ms is None else counts.rebalancing_since_ms
        duration_ms = max(now_ms - since_ms, 0)
        counts.rebalancing_since_ms = None
        counts.completed += 1
        counts.completed_ms += duration_ms
        self.rebalance_buckets[bisect_left(REBALANCE_BUCKETS_MS, duration_ms)] += 1
        self.rebalances_ms += duration_ms

    def keep(self, core: Coordinator) -> None:
        """Drop groups that the coordinator does not have, including those that were never created."""
        for group in self._groups.keys() - core.groups.keys() - core.consumer_groups.keys():
            del self._groups[group]

    def row(self, group: Group | ConsumerGroup, offsets: int, assigned_partitions: int | None, now_ms: int) -> GroupRow:
        """Return the row of the group."""
        if isinstance(group, Group):
            state, generation, pending = group.state.value, group.generation, len(group.pending_joins)
        else:
            state, generation, pending = group.state().value, group.epoch, 0
        counts = self._groups.get(group.id) or _NOTHING
        since_ms = counts.rebalancing_since_ms
        return GroupRow(
            group=group.id,
            state=state,
            generation=generation,
            members=len(group.members),
            pending_members=pending,
            assigned_partitions=assigned_partitions,
            offsets=offsets,
            rebalancing_ms=None if since_ms is None else max(now_ms - since_ms, 0),
            joins=counts.joins,
            syncs=counts.syncs,
            leaves=counts.leaves,
            offset_commits=counts.offset_commits,
            offset_expirations=counts.offset_expirations,
            offset_deletions=counts.offset_deletions,
            rebalances_completed=counts.completed,
            rebalances_ms=counts.completed_ms,
            rebalances_started=counts.started,
            expiries=counts.expiries,
        )


_NOTHING = _Counts()


class PartitionMetrics:
    """Handles the query ``metrics`` for one offsets partition."""

    def __init__(self, partition: int, epoch: int, core: Coordinator) -> None:
        self._partition = partition
        self._epoch = epoch
        self._core = core
        self._counts = GroupCounts()
        self._made_ms = now_ms()
        self._load_ms = 0
        self.observe = self._counts.observe

    def active(self) -> None:
        """Note that the log was replayed, in the time since this object was created."""
        self._load_ms = now_ms() - self._made_ms

    async def response(self, query: dict[str, Any]) -> dict[str, Any]:
        """Return a snapshot as JSON. Each row is consistent; other work runs after every few hundred groups."""
        self._counts.keep(self._core)
        assigned = self._assigned_partitions()
        groups = iter([*self._core.groups, *self._core.consumer_groups])
        chunks: list[str] = []
        while some := [*islice(groups, _CHUNK_GROUPS)]:
            chunks.append(json.dumps([row for group in some if (row := self._row(group, assigned))]))
            await asyncio.sleep(0)
        return Snapshot(
            partition=self._partition,
            epoch=self._epoch,
            load_ms=self._load_ms,
            rebalance_buckets=tuple(self._counts.rebalance_buckets),
            rebalances_ms=self._counts.rebalances_ms,
            chunks=tuple(chunks),
        ).to_response()

    def _row(self, group_id: GroupId, assigned: Counter[str]) -> GroupRow | None:
        """None for a group that was removed meanwhile, or that is not in the log yet."""
        group = self._core.groups.get(group_id) or self._core.consumer_groups.get(group_id)
        if group is None or group.creation_pending:
            return None
        offsets = len(self._core.hard_state.offsets(group_id))
        return self._counts.row(group, offsets, assigned.get(group_id), now_ms())

    def _assigned_partitions(self) -> Counter[str]:
        """Partitions that the members of each group hold; during a rebalance, those held before it."""
        assigned: Counter[str] = Counter()
        for registration in self._core.registrations():
            if registration.kind is Kind.MEMBER and registration.partitions is not None:
                assigned[registration.group] += len(registration.partitions)
        return assigned
