"""Moves a group's committed offsets, or undoes that: first a plan, which changes nothing, then its execution.

The behaviour is that of ``kafka-consumer-groups --reset-offsets``; the undo is Muster's own
(:mod:`muster.gateway.client.groups.reset_undo`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from muster.gateway.client.errors import MusterError
from muster.gateway.client.groups import offsets, reset_plan, reset_undo
from muster.gateway.client.groups.assignments import CONSUMER
from muster.gateway.client.groups.coordinators import CoordinatorOf, GroupCoordinator
from muster.gateway.client.groups.members import Group
from muster.gateway.client.groups.offsets import Committed, Partition, name_of
from muster.gateway.client.groups.reset_plan import Bounds, Change, Choice
from muster.gateway.client.kafka.requests import EARLIEST, LATEST, Requests, list_offsets, metadata

Wanted = dict[str, list[int] | None]
"""Partitions of each topic; None for all."""
_PARTITIONS = re.compile(r"[0-9]{1,9}(,[0-9]{1,9})*")


def topics(texts: Iterable[str]) -> Wanted:
    """Parse ``TOPIC`` and ``TOPIC:0,1,2``, one or more of them."""
    wanted: Wanted = {}
    for text in texts:
        name, colon, listed = text.partition(":")
        if not name or (colon and not _PARTITIONS.fullmatch(listed)):
            raise ValueError(f"{text!r} is not TOPIC or TOPIC:PARTITION,PARTITION,...")
        before = wanted.get(name, [])
        if not colon or before is None:
            wanted[name] = None
        else:
            wanted[name] = sorted({*before, *map(int, listed.split(","))})
    return wanted


class UnknownResetTopic(MusterError):
    """A topic that was named does not exist."""

    def __init__(self, topic: str, topics: Collection[str]) -> None:
        """``topics``: those that exist."""
        super().__init__(f"there is no topic {topic}")
        self.topic, self.topics = topic, topics


class Target(NamedTuple):
    """Target in words, and its offset in a partition once its log can be queried."""

    words: str
    choice: Callable[[Requests, Collection[Partition]], Choice]
    listed: Mapping[Partition, int] | None = None
    """Partitions and offsets, if the target names them."""


def to_earliest() -> Target:
    return Target("to the earliest offset", lambda _, __: reset_plan.to_earliest)


def to_latest() -> Target:
    return Target("to the end", lambda _, __: reset_plan.to_latest)


def to_current() -> Target:
    return Target("to what is committed", lambda _, __: reset_plan.to_current)


def to_offset(offset: int) -> Target:
    return Target(f"to offset {offset}", lambda _, __: reset_plan.to_offset(offset))


def shift_by(count: int) -> Target:
    return Target(f"by {count:+d} messages", lambda _, __: reset_plan.shift_by(count))


def to_listed(listed: Mapping[Partition, int], where: str) -> Target:
    """Return the target of offsets that ``where`` lists."""
    return Target(f"to the offsets in {where}", lambda _, __: reset_plan.to_listed(listed), listed)


def to_time(moment_ms: int, remark: str = "") -> Target:
    """Return the target of the first message with that timestamp, ms since 1970, or a later one."""

    def choice(client: Requests, partitions: Collection[Partition]) -> Choice:
        found = list_offsets(client, partitions, max(moment_ms, 0))
        return reset_plan.to_time({key: offset if offset >= 0 else None for key, offset in found.items()})

    return Target(f"to the first message of {_iso(moment_ms)} or later{remark}", choice)


@dataclass(frozen=True, slots=True)
class Plan:
    """Changes of a reset."""

    group: str
    state: str
    words: str
    changes: list[Change]
    notes: list[str]
    is_undo: bool = False

    def to_json(self, *, executed: bool) -> dict[str, Any]:
        """Return what ``muster groups reset-offsets --json`` prints."""
        read_again, skipped = reset_plan.totals(self.changes)
        return {
            "group": self.group,
            "state": self.state,
            "target": self.words,
            "executed": executed,
            "offsets": [change.row() for change in self.changes],
            "read_again": read_again,
            "skipped": skipped,
            "notes": self.notes,
        }


def check_has_offsets(group: Group) -> None:
    """Raise MusterError for a group whose members are no consumers: they keep their positions elsewhere."""
    if group.protocol_type not in ("", CONSUMER):
        raise MusterError(
            f"group {group.name} has protocol type {group.protocol_type}: only consumer groups have offsets"
        )


def plan(
    client: Requests, group: Group, target: Target, topics: Wanted | None, committed: Mapping[Partition, Committed]
) -> Plan:
    """Return the plan for these topics, or for all partitions with a committed offset. Raises MusterError."""
    there, notes = _partition_counts(client), []
    if target.listed is not None:
        wanted = list(target.listed)
    elif topics:
        wanted = [
            (topic, partition)
            for topic, listed in topics.items()
            for partition in (range(there.get(topic, 0)) if listed is None else listed)
        ]
        if missing := [topic for topic in topics if topic not in there]:
            raise UnknownResetTopic(missing[0], there)
    else:
        wanted = [key for key in committed if _is_there(there, key)]
        if gone := sorted(set(committed) - set(wanted)):
            notes.append(f"unchanged, because the topics no longer exist: {reset_plan.named(gone)}")
        if not wanted:
            raise MusterError(f"group {group.name} has no committed offsets; use --topic instead of --all-topics")
    if unknown := sorted(key for key in wanted if not _is_there(there, key)):
        raise MusterError(f"there is no partition {reset_plan.named(unknown)}")
    choice = target.choice(client, wanted)
    try:
        changes = reset_plan.plan(choice, wanted, committed, _bounds(client, wanted))
    except reset_plan.CannotReset as error:
        raise MusterError(f"{error}{reset_plan.without(wanted, committed)}") from error
    return Plan(group.name, group.state, target.words, changes, notes)


def plan_undo(
    client: Requests, coordinator_of: CoordinatorOf, group: Group, committed: Mapping[Partition, Committed]
) -> Plan:
    """Return the plan that restores what the last reset changed. Raises MusterError if there is none."""
    undo = reset_undo.last(coordinator_of, group.name)
    if undo is None:
        raise MusterError(f"group {group.name} has no reset to undo")
    there = _partition_counts(client)
    wanted = [key for key in undo.before if _is_there(there, key)]
    gone = sorted(set(undo.before) - set(wanted))
    words = f"to what was committed before the reset of {_iso(undo.reset_at_ms)}"
    notes = [f"skipped, because the topics no longer exist: {reset_plan.named(gone)}"] if gone else []
    changes = reset_plan.restoration(undo.before, committed, _bounds(client, wanted))
    return Plan(group.name, group.state, words, changes, notes, is_undo=True)


def execute(coordinator: GroupCoordinator, coordinator_of: CoordinatorOf, planned: Plan, now_ms: int) -> None:
    """Make the changes; save what they remove first. Raises MusterError if not all could be made."""
    changes = [change for change in planned.changes if change.is_one]
    if changes and not planned.is_undo and not reset_undo.keep(coordinator_of, planned.group, changes, now_ms):
        planned.notes.append(
            "the metadata of some offsets is too long to be saved: --undo restores those offsets without it"
        )
    set_to = {change.partition: change.after for change in changes if change.after is not None}
    failed = offsets.commit(coordinator, set_to)
    if dropped := [change.partition for change in changes if change.after is None]:
        failed |= offsets.delete(coordinator, dropped)
    if failed:
        partition, error = next(iter(failed.items()))
        back = "" if planned.is_undo or len(failed) == len(changes) else "; the others were; --undo reverts them"
        reason = (
            "a member joined the group in the meantime" if error.name == "unknown_member_id" else error.name.upper()
        )
        raise MusterError(
            f"{len(failed)} of {len(changes)} offsets could not be reset: {name_of(partition)} {reason}{back}"
        )
    if planned.is_undo:
        reset_undo.forget(coordinator_of, planned.group)


def _partition_counts(client: Requests) -> dict[str, int]:
    return {name: len(found) for name, found in metadata(client).topics.items()}


def _is_there(counts: Mapping[str, int], partition: Partition) -> bool:
    return partition[1] < counts.get(partition[0], 0)


def _bounds(client: Requests, partitions: Collection[Partition]) -> dict[Partition, Bounds]:
    earliest, latest = (list_offsets(client, partitions, at) for at in (EARLIEST, LATEST))
    return {key: Bounds(earliest[key], latest[key]) for key in earliest}


def _iso(moment_ms: int) -> str:
    try:
        moment = datetime.fromtimestamp(moment_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{moment_ms} ms since 1970"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
