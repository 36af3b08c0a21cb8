"""The rebalance journal: combines the coordinator's events into one entry for each rebalance.

An entry begins with a rebalance. It ends when every member of the new generation was sent its assignment, when the
next rebalance begins, when the group is Empty, or when the coordinator resigns. Members that leave, expire or are
added belong to the rebalance that this starts or finds in its join phase. Pure: the time of each event is an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from muster.actors.group import events
from muster.actors.group.codec.consumer_protocol import PROTOCOL_TYPE, owned_partitions
from muster.actors.group.events import Event, PendingEnd
from muster.actors.group.types import GroupId, MemberId, Who
from muster.actors.group.watchdog import MAX_MEMBERS
from muster.actors.offsets.history.consumer_journal import ConsumerJournal
from muster.actors.offsets.history.consumption_pauses import ConsumptionPauses, Owned, TopicPartition, owners_of
from muster.actors.tables.rebalance_entry import (
    MAX_PENDING,
    Ending,
    Gone,
    PauseSummary,
    PendingWait,
    RebalanceEntry,
    RebalanceProtocol,
    Wait,
    Waits,
)

COOPERATIVE_STICKY = "cooperative-sticky"
"""The only cooperative assignor in Kafka's clients. Recognized by name even while no member owns any partition."""


_MEMBERSHIP = (events.MemberAdded, events.MemberLeft, events.MemberExpired)
"""Events that groups of both protocols have. Until the first epoch of a consumer group, it is not known to be one."""


@dataclass(slots=True)
class _Known:
    """The state of a group between its rebalances."""

    protocol_type: str | None
    assignments: tuple[tuple[MemberId, bytes], ...]
    cooperative: bool = False
    taken: dict[TopicPartition, int] = field(default_factory=dict)
    """Partitions that a cooperative assignment took from their owner and gave to no member yet, and since when."""

    def renamed(self, old_id: MemberId, new_id: MemberId) -> None:
        self.assignments = tuple(
            (new_id if member_id == old_id else member_id, assignment) for member_id, assignment in self.assignments
        )


@dataclass(slots=True)
class _Changes:
    """The members that were added and removed."""

    added: list[Who] = field(default_factory=list)
    gone: list[Gone] = field(default_factory=list)


@dataclass(slots=True)
class _Waited:
    who: Who
    came_ms: int | None = None
    gone_ms: int | None = None


@dataclass(slots=True)
class _Pending:
    who: Who
    since_ms: int
    ended_ms: int | None = None
    end: PendingEnd | None = None


@dataclass(slots=True)
class _Running:
    """A rebalance that has not ended."""

    number: int
    start: events.RebalanceStarted
    began_ms: int
    changes: _Changes
    members_before: int
    pauses: ConsumptionPauses
    was_cooperative: bool
    protocol_type: str | None
    joins: dict[MemberId, _Waited]
    pending: dict[MemberId, _Pending]
    syncs: dict[MemberId, _Waited] = field(default_factory=dict)
    unsynced: set[MemberId] = field(default_factory=set)
    completed: events.GenerationCompleted | None = None
    joined_ms: int | None = None
    stable_ms: int | None = None
    owned: Owned = field(default_factory=dict)
    rebalance_protocol: RebalanceProtocol | None = None

    @property
    def joining(self) -> bool:
        return self.completed is None

    def renamed(self, old_id: MemberId, new_id: MemberId) -> None:
        for waits in (self.joins, self.syncs):
            if waited := waits.pop(old_id, None):
                waited.who = waited.who._replace(member_id=new_id)
                waits[new_id] = waited
        if old_id in self.unsynced:
            self.unsynced.remove(old_id)
            self.unsynced.add(new_id)
        self.pauses.renamed(old_id, new_id)


class Journal:
    """The journal of the groups of one coordinator, identified by partition and leader epoch."""

    def __init__(self, *, partition: int, epoch: int) -> None:
        self._partition = partition
        self._epoch = epoch
        self._number = 0
        self._known: dict[GroupId, _Known] = {}
        self._running: dict[GroupId, _Running] = {}
        self._changes: dict[GroupId, _Changes] = {}
        self._consumers = ConsumerJournal(partition=partition, epoch=epoch, next_number=self._next)
        self._handlers: dict[type, Callable[[Any, int], RebalanceEntry | None]] = {
            events.GroupRestored: self._restored,
            events.RebalanceStarted: self._started,
            events.GenerationCompleted: self._completed,
            events.AssignmentStored: self._stored,
            events.RebalanceAborted: self._aborted,
            events.MemberAdded: self._added,
            events.MemberJoined: self._joined,
            events.MemberSynced: self._synced,
            events.MemberExpired: self._expired,
            events.MemberLeft: self._left,
            events.StaticMemberReplaced: self._replaced,
            events.PendingMemberAdded: self._pending_added,
            events.PendingMemberRemoved: self._pending_removed,
            events.GroupDeleted: self._deleted,
        }

    @property
    def kinds(self) -> frozenset[type]:
        """The types of the events that change it."""
        return frozenset((*self._handlers, *self._consumers.kinds))

    def observe(self, event: Event, now_ms: int) -> RebalanceEntry | None:
        """Process an event; events come in order. Returns the rebalance that ended with it, if any."""
        handler = self._handlers.get(type(event))
        if isinstance(event, events.GroupEpochRaised) and (changes := self._changes.pop(event.group, None)):
            self._consumers.adopt(event.group, changes.added, changes.gone)
        ended = self._consumers.observe(event, now_ms)
        if handler is None or (isinstance(event, _MEMBERSHIP) and self._consumers.knows(event.group)):
            return ended
        return handler(event, now_ms) or ended

    def running(self, group: str, now_ms: int) -> RebalanceEntry | None:
        """Return the state of the group's rebalance that has not ended; None without one."""
        rebalance = self._running.get(GroupId(group))
        if rebalance is None:
            return self._consumers.running(group, now_ms)
        return self._entry(rebalance, Ending.RUNNING, now_ms)

    def close(self, now_ms: int) -> list[RebalanceEntry]:
        """End every rebalance that has not ended: the coordinator has stopped."""
        ended = (self._end(group, Ending.ABORTED, now_ms) for group in [*self._running])
        return [*(entry for entry in ended if entry is not None), *self._consumers.close(now_ms)]

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _restored(self, event: events.GroupRestored, now_ms: int) -> None:
        assignments = tuple((who.member_id, assignment) for who, assignment in event.assignments)
        self._known[event.group] = _Known(event.protocol_type, assignments)

    def _started(self, event: events.RebalanceStarted, now_ms: int) -> RebalanceEntry | None:
        ended = self._end(event.group, Ending.RESTARTED, now_ms)
        changes = self._changes.pop(event.group, None) or _Changes()
        new = {who.member_id for who in changes.added}
        known = self._known.get(event.group) or _Known(None, ())
        owners = owners_of(known.assignments) if known.protocol_type == PROTOCOL_TYPE else {}
        self._running[event.group] = _Running(
            number=self._next(),
            start=event,
            began_ms=now_ms,
            changes=changes,
            members_before=len(event.members) - len(changes.added) + len(changes.gone),
            pauses=ConsumptionPauses(owners, known.taken, now_ms),
            was_cooperative=known.cooperative,
            protocol_type=known.protocol_type,
            joins={
                who.member_id: _Waited(who, now_ms if who.member_id in event.joined else None)
                for who in event.members
                if who.member_id not in new
            },
            pending={who.member_id: _Pending(who, now_ms) for who in event.pending},
        )
        return ended

    def _completed(self, event: events.GenerationCompleted, now_ms: int) -> RebalanceEntry | None:
        rebalance = self._running.get(event.group)
        if rebalance is None:
            return None
        rebalance.completed, rebalance.joined_ms = event, now_ms
        if not event.members:
            self._known.pop(event.group, None)
            return self._finish(event.group, Ending.EMPTY, now_ms)
        rebalance.protocol_type = event.protocol_type
        rebalance.syncs = {who.member_id: _Waited(who) for who, _ in event.subscriptions}
        rebalance.unsynced = set(rebalance.syncs)
        if event.protocol_type == PROTOCOL_TYPE:
            rebalance.owned = {who.member_id: owned_partitions(data) for who, data in event.subscriptions}
            cooperative = event.protocol == COOPERATIVE_STICKY or any(rebalance.owned.values())
            rebalance.rebalance_protocol = RebalanceProtocol.COOPERATIVE if cooperative else RebalanceProtocol.EAGER
        return None

    def _stored(self, event: events.AssignmentStored, now_ms: int) -> RebalanceEntry | None:
        rebalance = self._running.get(event.group)
        if rebalance is None:
            return None
        rebalance.stable_ms = now_ms
        owners = owners_of(event.assignments) if rebalance.protocol_type == PROTOCOL_TYPE else {}
        self._known[event.group] = _Known(
            rebalance.protocol_type,
            event.assignments,
            rebalance.rebalance_protocol is RebalanceProtocol.COOPERATIVE,
            rebalance.pauses.assigned(owners, rebalance.owned, now_ms),
        )
        for member_id in rebalance.syncs.keys() - rebalance.unsynced:
            rebalance.pauses.received(member_id, now_ms)
        return self._finish(event.group, Ending.STABLE, now_ms) if not rebalance.unsynced else None

    def _synced(self, event: events.MemberSynced, now_ms: int) -> RebalanceEntry | None:
        rebalance = self._running.get(event.group)
        if rebalance is None or event.member_id not in rebalance.unsynced:
            return None
        rebalance.unsynced.remove(event.member_id)
        rebalance.syncs[event.member_id].came_ms = now_ms
        if rebalance.stable_ms is None:
            return None
        rebalance.pauses.received(event.member_id, now_ms)
        return self._finish(event.group, Ending.STABLE, now_ms) if not rebalance.unsynced else None

    def _joined(self, event: events.MemberJoined, now_ms: int) -> None:
        rebalance = self._running.get(event.group)
        if rebalance is None or not rebalance.joining:
            return
        waited = rebalance.joins.get(event.member_id)
        if waited is not None and waited.came_ms is None:
            waited.came_ms = now_ms

    def _added(self, event: events.MemberAdded, now_ms: int) -> None:
        self._changes_of(event.group).added.append(event.member)

    def _expired(self, event: events.MemberExpired, now_ms: int) -> None:
        who = Who(event.member_id, event.client_id, event.host, event.group_instance_id)
        self._is_gone(event.group, Gone(who, event.cause, None), now_ms)

    def _left(self, event: events.MemberLeft, now_ms: int) -> None:
        who = Who(event.member_id, event.client_id, event.host, event.group_instance_id)
        self._is_gone(event.group, Gone(who, None, event.reason), now_ms)

    def _is_gone(self, group: GroupId, gone: Gone, now_ms: int) -> None:
        self._changes_of(group).gone.append(gone)
        rebalance = self._running.get(group)
        if rebalance is not None and rebalance.joining and (waited := rebalance.joins.get(gone.who.member_id)):
            waited.gone_ms = now_ms

    def _replaced(self, event: events.StaticMemberReplaced, now_ms: int) -> None:
        if known := self._known.get(event.group):
            known.renamed(event.old_member_id, event.new_member_id)
        if rebalance := self._running.get(event.group):
            rebalance.renamed(event.old_member_id, event.new_member_id)

    def _pending_added(self, event: events.PendingMemberAdded, now_ms: int) -> None:
        rebalance = self._running.get(event.group)
        if rebalance is not None and rebalance.joining:
            rebalance.pending[event.member.member_id] = _Pending(event.member, now_ms)

    def _pending_removed(self, event: events.PendingMemberRemoved, now_ms: int) -> None:
        rebalance = self._running.get(event.group)
        if rebalance is None or not rebalance.joining:
            return
        pending = rebalance.pending.get(event.member_id)
        if pending is None:
            return
        if event.cause is PendingEnd.JOINED and pending.since_ms == now_ms:
            del rebalance.pending[event.member_id]
        else:
            pending.ended_ms, pending.end = now_ms, event.cause

    def _aborted(self, event: events.RebalanceAborted, now_ms: int) -> RebalanceEntry | None:
        self._changes.pop(event.group, None)
        return self._end(event.group, Ending.ABORTED, now_ms)

    def _deleted(self, event: events.GroupDeleted, now_ms: int) -> None:
        self._known.pop(event.group, None)
        self._changes.pop(event.group, None)

    def _changes_of(self, group: GroupId) -> _Changes:
        """Return the changes of the rebalance in its join phase, else of the one that is about to begin."""
        rebalance = self._running.get(group)
        if rebalance is not None and rebalance.joining:
            return rebalance.changes
        return self._changes.setdefault(group, _Changes())

    def _end(self, group: GroupId, ending: Ending, now_ms: int) -> RebalanceEntry | None:
        """End the group's rebalance, if any: with this ending, unless its assignment was stored already."""
        rebalance = self._running.get(group)
        if rebalance is None:
            return None
        return self._finish(group, ending if rebalance.stable_ms is None else Ending.STABLE, now_ms)

    def _finish(self, group: GroupId, ending: Ending, now_ms: int) -> RebalanceEntry:
        return self._entry(self._running.pop(group), ending, now_ms)

    def _entry(self, rebalance: _Running, ending: Ending, now_ms: int) -> RebalanceEntry:
        start, completed, changes = rebalance.start, rebalance.completed, rebalance.changes
        joined_ms = rebalance.joined_ms
        join_end_ms = now_ms if joined_ms is None else joined_ms
        return RebalanceEntry(
            group=start.group,
            offsets_partition=self._partition,
            epoch=self._epoch,
            number=rebalance.number,
            from_state=start.from_state.value,
            previous_generation=start.generation,
            generation=completed.generation if completed else None,
            began_ms=rebalance.began_ms,
            joined_ms=joined_ms,
            stable_ms=rebalance.stable_ms,
            ended_ms=now_ms,
            ending=ending,
            cause=start.cause,
            triggered_by=_triggered_by(start),
            reason=start.reason,
            protocol_type=rebalance.protocol_type,
            protocol=completed.protocol if completed else None,
            rebalance_protocol=rebalance.rebalance_protocol,
            leader=completed.leader if completed else None,
            members_before=rebalance.members_before,
            members_after=completed.members if completed else None,
            join_waits=_waits(rebalance.joins.values(), rebalance.began_ms, join_end_ms),
            sync_waits=_waits(rebalance.syncs.values(), join_end_ms, now_ms),
            pending=_pending(rebalance.pending.values(), join_end_ms),
            added=tuple(changes.added[:MAX_MEMBERS]),
            added_left_out=max(0, len(changes.added) - MAX_MEMBERS),
            gone=tuple(changes.gone[:MAX_MEMBERS]),
            gone_left_out=max(0, len(changes.gone) - MAX_MEMBERS),
            consumption_pauses=_consumption_pauses(rebalance, now_ms),
        )


def _triggered_by(start: events.RebalanceStarted) -> Who | None:
    return Who(start.member_id, start.client_id, start.host, start.group_instance_id) if start.member_id else None


def _waits(waited: Iterable[_Waited], since_ms: int, end_ms: int) -> Waits:
    waits = [
        Wait(
            each.who,
            None if each.came_ms is None else each.came_ms - since_ms,
            next(ms for ms in (each.came_ms, each.gone_ms, end_ms) if ms is not None) - since_ms,
        )
        for each in waited
    ]
    waits.sort(key=lambda wait: (-wait.held_ms, wait.after_ms is not None, wait.who.member_id))
    return Waits(tuple(waits[:MAX_MEMBERS]), max(0, len(waits) - MAX_MEMBERS))


def _pending(pending: Iterable[_Pending], end_ms: int) -> tuple[PendingWait, ...]:
    waits = [
        PendingWait(each.who, (end_ms if each.ended_ms is None else each.ended_ms) - each.since_ms, each.end)
        for each in pending
    ]
    waits.sort(key=lambda wait: (-wait.held_ms, wait.who.member_id))
    return tuple(waits[:MAX_PENDING])


def _consumption_pauses(rebalance: _Running, now_ms: int) -> PauseSummary | None:
    if rebalance.protocol_type not in (PROTOCOL_TYPE, None):
        return None
    owned = rebalance.owned
    if rebalance.joining and rebalance.was_cooperative:
        owned = rebalance.pauses.kept_by({who.member_id for who in rebalance.start.members})
    return rebalance.pauses.summary(now_ms, stored=rebalance.stable_ms is not None, owned=owned)
