"""Rows of the table ``group_events``: the core's events that change a group's members, and its generations. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from muster.actors.group import events
from muster.actors.group.events import Event
from muster.actors.group.types import GroupId, MemberId

Row = dict[str, Any]


@dataclass(slots=True)
class _Standing:
    """The state of a group after the last event."""

    generation: int | None = None
    members: int = 0


class GroupEvents:
    """Processes the events of one coordinator, identified by partition and leader epoch."""

    def __init__(self, *, partition: int, epoch: int) -> None:
        self._partition = partition
        self._epoch = epoch
        self._number = 0
        self._groups: dict[GroupId, _Standing] = {}
        self._handlers: dict[type, Callable[[Any, int], Row]] = {
            events.GroupRestored: self._restored,
            events.MemberAdded: self._added,
            events.MemberLeft: self._left,
            events.MemberExpired: self._removed,
            events.StaticMemberReplaced: self._replaced,
            events.GenerationCompleted: self._completed,
            events.AssignmentStored: self._stored,
            events.GroupDeleted: self._deleted,
            events.ConsumerGroupRestored: self._consumers_restored,
            events.GroupEpochRaised: self._epoch_raised,
            events.TargetAssigned: self._target_assigned,
            events.GroupConverted: self._converted,
        }

    @property
    def kinds(self) -> frozenset[type]:
        """The types of the events that have rows."""
        return frozenset(self._handlers)

    def observe(self, event: Event, now_ms: int) -> Row | None:
        """Process an event; events come in order. Returns its row, if it has one. Times in ms."""
        handler = self._handlers.get(type(event))
        return handler(event, now_ms) if handler else None

    def _restored(self, event: events.GroupRestored, now_ms: int) -> Row:
        self._groups[event.group] = _Standing(event.generation, len(event.assignments))
        return self._row("restored", event.group, now_ms)

    def _added(self, event: events.MemberAdded, now_ms: int) -> Row:
        self._of(event.group).members += 1
        who = event.member
        return self._row("member_added", event.group, now_ms) | _who(*who)

    def _left(self, event: events.MemberLeft, now_ms: int) -> Row:
        return self._gone("member_left", event, now_ms) | {"reason": event.reason}

    def _removed(self, event: events.MemberExpired, now_ms: int) -> Row:
        return self._gone("member_removed", event, now_ms) | {"reason": event.cause}

    def _gone(self, name: str, event: events.MemberLeft | events.MemberExpired, now_ms: int) -> Row:
        self._of(event.group).members -= 1
        who = _who(event.member_id, event.client_id, event.host, event.group_instance_id)
        return self._row(name, event.group, now_ms) | who

    def _replaced(self, event: events.StaticMemberReplaced, now_ms: int) -> Row:
        who = _who(event.new_member_id, event.client_id, event.host, event.group_instance_id)
        row = self._row("static_member_replaced", event.group, now_ms)
        return row | who | {"replaced_member_id": event.old_member_id}

    def _completed(self, event: events.GenerationCompleted, now_ms: int) -> Row:
        self._groups[event.group] = _Standing(event.generation, event.members)
        return self._row("generation", event.group, now_ms) | {"protocol": event.protocol}

    def _stored(self, event: events.AssignmentStored, now_ms: int) -> Row:
        return self._row("assignment", event.group, now_ms)

    def _consumers_restored(self, event: events.ConsumerGroupRestored, now_ms: int) -> Row:
        self._groups[event.group] = _Standing(event.epoch, len(event.assignments))
        return self._row("restored", event.group, now_ms)

    def _epoch_raised(self, event: events.GroupEpochRaised, now_ms: int) -> Row:
        self._groups[event.group] = _Standing(event.epoch, event.members)
        return self._row("generation", event.group, now_ms) | {"reason": event.cause}

    def _target_assigned(self, event: events.TargetAssigned, now_ms: int) -> Row:
        return self._row("assignment", event.group, now_ms) | {"protocol": event.assignor}

    def _converted(self, event: events.GroupConverted, now_ms: int) -> Row:
        self._of(event.group).members = len(event.assignments)
        return self._row("converted", event.group, now_ms) | {"protocol": event.to.value}

    def _deleted(self, event: events.GroupDeleted, now_ms: int) -> Row:
        self._groups[event.group] = _Standing()
        row = self._row("group_removed", event.group, now_ms)
        del self._groups[event.group]
        return row

    def _of(self, group: GroupId) -> _Standing:
        return self._groups.setdefault(group, _Standing())

    def _row(self, name: str, group: GroupId, now_ms: int) -> Row:
        """Return a row of an event that has already been counted."""
        standing = self._of(group)
        self._number += 1
        return {
            "ts": now_ms,
            "offsets_partition": self._partition,
            "epoch": self._epoch,
            "number": self._number,
            "group": group,
            "event": name,
            "generation": standing.generation,
            "members": standing.members,
        }


def _who(member_id: MemberId, client_id: str | None, host: str, group_instance_id: str | None) -> Row:
    return {"member_id": member_id, "client_id": client_id, "host": host, "group_instance_id": group_instance_id}
