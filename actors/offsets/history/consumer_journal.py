"""The part of the rebalance journal that is about consumer groups (KIP-848).

A rebalance begins when the group's epoch is raised. It ends when every member has its target, when the epoch is raised
again, or when no member is left. Its join phase ends when the target assignment is computed; then it waits for the
members, as a classic group waits for SyncGroup. Pure: the time of each event is an argument.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from muster.actors.group import events
from muster.actors.group.codec.consumer_protocol import PROTOCOL_TYPE
from muster.actors.group.events import Event, GroupType
from muster.actors.group.types import GroupId, MemberId, Who
from muster.actors.group.watchdog import MAX_MEMBERS
from muster.actors.offsets.history.consumption_pauses import TopicPartition
from muster.actors.tables.rebalance_entry import (
    MAX_PARTITIONS,
    Ending,
    Gone,
    Pause,
    PauseSummary,
    RebalanceEntry,
    RebalanceProtocol,
    Wait,
    Waits,
)


@dataclass(slots=True)
class _Group:
    """State of a group between its rebalances, and the changes of the one that begins next."""

    epoch: int = 0
    held: dict[MemberId, frozenset[TopicPartition]] = field(default_factory=dict)
    paused: dict[TopicPartition, int] = field(default_factory=dict)
    """Partitions that no member may use, and since when."""
    added: list[Who] = field(default_factory=list)
    gone: list[Gone] = field(default_factory=list)
    members: int = 0
    holders: Counter[TopicPartition] = field(default_factory=Counter)
    """How many members have a partition: one, unless its topic was made anew."""

    def hold(self, member_id: MemberId, partitions: frozenset[TopicPartition]) -> None:
        """Set the member's partitions."""
        self.release(member_id)
        self.held[member_id] = partitions
        self.holders.update(partitions)

    def release(self, member_id: MemberId) -> frozenset[TopicPartition]:
        """Take the member's partitions away; return them."""
        had = self.held.pop(member_id, frozenset())
        for partition in had:
            self.holders[partition] -= 1
            if not self.holders[partition]:
                del self.holders[partition]
        return had


@dataclass(slots=True)
class _Running:
    number: int
    start: events.GroupEpochRaised
    began_ms: int
    previous_epoch: int
    members_before: int
    added: tuple[Who, ...]
    gone: tuple[Gone, ...]
    assigned: int
    """Partitions that members had, or that waited for one, at the beginning."""
    target: events.TargetAssigned | None = None
    joined_ms: int | None = None
    stable_ms: int | None = None
    came_ms: dict[MemberId, int] = field(default_factory=dict)
    """When members had their targets."""
    pauses: dict[TopicPartition, int] = field(default_factory=dict)
    """How long partitions that have a member again were paused, in ms."""


class ConsumerJournal:
    """The rebalances of the consumer groups of one coordinator."""

    def __init__(self, *, partition: int, epoch: int, next_number: Callable[[], int]) -> None:
        """``next_number`` numbers the entries of this coordinator."""
        self._partition = partition
        self._epoch = epoch
        self._next_number = next_number
        self._groups: dict[GroupId, _Group] = {}
        self._running: dict[GroupId, _Running] = {}
        self._handlers: dict[type, Callable[[Any, int], RebalanceEntry | None]] = {
            events.ConsumerGroupRestored: self._restored,
            events.GroupConverted: self._converted,
            events.GroupEpochRaised: self._raised,
            events.TargetAssigned: self._assigned,
            events.MemberReconciled: self._reconciled,
            events.MemberAdded: self._added,
            events.MemberLeft: self._gone,
            events.MemberExpired: self._gone,
            events.StaticMemberReplaced: self._replaced,
            events.GroupDeleted: self._deleted,
        }

    @property
    def kinds(self) -> frozenset[type]:
        """The types of the events that change it."""
        return frozenset(self._handlers)

    def observe(self, event: Event, now_ms: int) -> RebalanceEntry | None:
        """Process an event. Returns the rebalance that ended with it, if any."""
        handler = self._handlers.get(type(event))
        return handler(event, now_ms) if handler else None

    def knows(self, group: GroupId) -> bool:
        """Whether it is a consumer group."""
        return group in self._groups

    def adopt(self, group: GroupId, added: list[Who], gone: list[Gone]) -> None:
        """Adopt changes of members from before the group was known to be a consumer group."""
        known = self._groups.setdefault(group, _Group())
        known.added += added
        known.gone += gone

    def running(self, group: str, now_ms: int) -> RebalanceEntry | None:
        """Return the state of the group's rebalance that has not ended; None without one."""
        rebalance = self._running.get(GroupId(group))
        return self._entry(rebalance, Ending.RUNNING, now_ms) if rebalance else None

    def close(self, now_ms: int) -> list[RebalanceEntry]:
        """End every rebalance: the coordinator has stopped."""
        return [self._finish(group, Ending.ABORTED, now_ms) for group in [*self._running]]

    def _restored(self, event: events.ConsumerGroupRestored, now_ms: int) -> None:
        self._groups[event.group] = _with(event.assignments, event.epoch)

    def _converted(self, event: events.GroupConverted, now_ms: int) -> RebalanceEntry | None:
        if event.to is GroupType.CONSUMER:
            self._groups[event.group] = _with(event.assignments)
            return None
        self._groups.pop(event.group, None)
        return self._finish(event.group, Ending.ABORTED, now_ms) if event.group in self._running else None

    def _raised(self, event: events.GroupEpochRaised, now_ms: int) -> RebalanceEntry | None:
        ended = self._finish(event.group, Ending.RESTARTED, now_ms) if event.group in self._running else None
        known = self._groups.setdefault(event.group, _Group())
        self._running[event.group] = _Running(
            number=self._next_number(),
            start=event,
            began_ms=now_ms,
            previous_epoch=known.epoch or event.epoch - 1,
            members_before=known.members,
            added=tuple(known.added),
            gone=tuple(known.gone),
            assigned=len(known.holders) + sum(each not in known.holders for each in known.paused),
        )
        known.epoch, known.members, known.added, known.gone = event.epoch, event.members, [], []
        if event.members:
            return ended
        known.paused.clear()
        empty = self._finish(event.group, Ending.EMPTY, now_ms)
        return empty if ended is None else ended

    def _assigned(self, event: events.TargetAssigned, now_ms: int) -> None:
        if (rebalance := self._running.get(event.group)) is not None:
            rebalance.target, rebalance.joined_ms = event, now_ms

    def _reconciled(self, event: events.MemberReconciled, now_ms: int) -> RebalanceEntry | None:
        known = self._groups.setdefault(event.group, _Group())
        rebalance = self._running.get(event.group)
        for partition in known.held.get(event.member_id, frozenset()) - event.partitions:
            known.paused.setdefault(partition, now_ms)
        known.hold(event.member_id, event.partitions)
        for partition in known.paused.keys() & event.partitions:
            since_ms = known.paused.pop(partition)
            if rebalance is not None:
                rebalance.pauses[partition] = now_ms - since_ms
        if rebalance is None or rebalance.target is None:
            return None
        if event.is_reconciled:
            rebalance.came_ms.setdefault(event.member_id, now_ms)
        if not event.is_last:
            return None
        rebalance.stable_ms = now_ms
        return self._finish(event.group, Ending.STABLE, now_ms)

    def _added(self, event: events.MemberAdded, now_ms: int) -> None:
        if (known := self._groups.get(event.group)) is not None:
            known.added.append(event.member)

    def _gone(self, event: events.MemberLeft | events.MemberExpired, now_ms: int) -> None:
        known = self._groups.get(event.group)
        if known is None:
            return
        who = Who(event.member_id, event.client_id, event.host, event.group_instance_id)
        if isinstance(event, events.MemberExpired):
            known.gone.append(Gone(who, event.cause, None))
        else:
            known.gone.append(Gone(who, None, event.reason))
        for partition in known.release(event.member_id):
            known.paused.setdefault(partition, now_ms)

    def _replaced(self, event: events.StaticMemberReplaced, now_ms: int) -> None:
        known = self._groups.get(event.group)
        if known is not None and event.old_member_id in known.held:
            known.held[event.new_member_id] = known.held.pop(event.old_member_id)

    def _deleted(self, event: events.GroupDeleted, now_ms: int) -> None:
        self._groups.pop(event.group, None)

    def _finish(self, group: GroupId, ending: Ending, now_ms: int) -> RebalanceEntry:
        return self._entry(self._running.pop(group), ending, now_ms)

    def _entry(self, rebalance: _Running, ending: Ending, now_ms: int) -> RebalanceEntry:
        start, target = rebalance.start, rebalance.target
        return RebalanceEntry(
            group=start.group,
            offsets_partition=self._partition,
            epoch=self._epoch,
            number=rebalance.number,
            from_state=start.from_state,
            previous_generation=rebalance.previous_epoch,
            generation=target.epoch if target else None,
            began_ms=rebalance.began_ms,
            joined_ms=rebalance.joined_ms,
            stable_ms=rebalance.stable_ms,
            ended_ms=now_ms,
            ending=ending,
            cause=start.cause,
            triggered_by=start.triggered_by,
            reason=None,
            protocol_type=PROTOCOL_TYPE,
            protocol=target.assignor if target else None,
            rebalance_protocol=RebalanceProtocol.COOPERATIVE,
            leader=None,
            members_before=rebalance.members_before,
            members_after=len(target.targets) if target else None,
            join_waits=Waits(),
            sync_waits=_waits(rebalance, now_ms),
            pending=(),
            added=rebalance.added[:MAX_MEMBERS],
            added_left_out=max(0, len(rebalance.added) - MAX_MEMBERS),
            gone=rebalance.gone[:MAX_MEMBERS],
            gone_left_out=max(0, len(rebalance.gone) - MAX_MEMBERS),
            consumption_pauses=self._pauses(rebalance, now_ms),
        )

    def _pauses(self, rebalance: _Running, now_ms: int) -> PauseSummary:
        known = self._groups.get(rebalance.start.group) or _Group()
        lasting = {partition: now_ms - since_ms for partition, since_ms in known.paused.items()}
        pauses = [Pause(*partition, ms) for partition, ms in {**lasting, **rebalance.pauses}.items()]
        pauses.sort(key=lambda pause: (-pause.ms, pause.topic, pause.partition))
        return PauseSummary(
            assigned=rebalance.assigned,
            count=len(pauses),
            lost_ms=sum(pause.ms for pause in pauses),
            partitions=tuple(pauses[:MAX_PARTITIONS]),
            left_out=max(0, len(pauses) - MAX_PARTITIONS),
        )


def _with(assignments: tuple[tuple[Who, frozenset[TopicPartition]], ...], epoch: int = 0) -> _Group:
    """Return a group whose members have these partitions."""
    group = _Group(epoch=epoch, members=len(assignments))
    for who, mine in assignments:
        group.hold(who.member_id, mine)
    return group


def _waits(rebalance: _Running, now_ms: int) -> Waits:
    """How long the rebalance waited for each member, once the target was computed."""
    if rebalance.target is None or rebalance.joined_ms is None:
        return Waits()
    waits = []
    for who, _ in rebalance.target.targets:
        came_ms = rebalance.came_ms.get(who.member_id)
        held_ms = (now_ms if came_ms is None else came_ms) - rebalance.joined_ms
        waits.append(Wait(who, None if came_ms is None else held_ms, held_ms))
    waits.sort(key=lambda wait: (-wait.held_ms, wait.after_ms is not None, wait.who.member_id))
    return Waits(tuple(waits[:MAX_MEMBERS]), max(0, len(waits) - MAX_MEMBERS))
