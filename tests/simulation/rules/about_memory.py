"""Invariants of the coordinator's memory: it agrees with the log and with itself, and does not grow."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

from muster.actors.group.codec.consumer_protocol import assigned_partitions
from muster.actors.group.codec.records import CommittedOffset, GroupMetadata, OffsetKey
from muster.actors.group.state import GroupState
from muster.actors.group.timers import TimerKind
from muster.actors.group.types import GroupId, MemberId
from muster.placement.mapping.registration import Kind
from tests.simulation.actor import Step, StepKind
from tests.simulation.log import decoded
from tests.simulation.planted.broken import Broken
from tests.simulation.view import View

EMPTY, PREPARING, COMPLETING, STABLE, _DEAD = GroupState


def replay_equals_live(view: View, step: Step) -> None:
    """Check that memory equals the log's last values, key by key: a successor knows only the log."""
    if step.outcome.write is None and step.kind not in (StepKind.FAILED, StepKind.LOADED):
        return
    hard = view.core.hard_state
    groups: dict[GroupId, GroupMetadata] = {}
    offsets: dict[tuple[GroupId, str, int], CommittedOffset] = {}
    for key_bytes, value_bytes in view.log.live.last.items():
        key, value = decoded(key_bytes, value_bytes)
        if isinstance(key, OffsetKey) and isinstance(value, CommittedOffset):
            offsets[key.group, key.topic, key.partition] = value
        elif isinstance(value, GroupMetadata):
            groups[key.group] = value
    if hard.groups != groups:
        raise Broken(f"memory has groups {hard.groups}, the log {groups}")
    live = {(g, *p): offset for g in hard.known_groups() for p, offset in hard.offsets(g).items()}
    if live != offsets:
        raise Broken(f"memory has offsets {live}, the log {offsets}")
    pending: set[tuple[int, tuple[GroupId, str, int], CommittedOffset]] = set()
    for producer_id, records in view.log.live.pending.items():
        for key_bytes, (_, value_bytes) in records.items():
            key, value = decoded(key_bytes, value_bytes)
            assert isinstance(key, OffsetKey)
            assert isinstance(value, CommittedOffset)
            pending.add((producer_id, (key.group, key.topic, key.partition), value))
    held = {
        (each.producer_id, (group, *partition), each.value)
        for group in hard.pending.groups()
        for partition, pendings in hard.pending.of_group(group).items()
        for each in pendings
    }
    if held != pending:
        raise Broken(f"memory has pending offsets {held}, the log {pending}")


def groups_in_memory_are_those_of_the_log(view: View, step: Step) -> None:
    """Check that a group exists while it has a record or offsets, and is forgotten with them.

    A group that only stored offsets stays when the last one is deleted, until the next walk for expired ones; if
    members join before that, its first record is that of their assignment.
    """
    known = set(view.core.hard_state.known_groups())
    emptied = {g for g, group in step.after.items() if group.state in (PREPARING, COMPLETING) or not group.generation}
    if not known <= step.after.keys() <= known | emptied:
        raise Broken(f"groups in memory: {sorted(step.after)}, in the log: {sorted(known)}")


def every_timer_has_an_owner(view: View, step: Step) -> None:
    """Check that no timer lacks an owner, which is a leak, and may affect a later owner of that name."""
    for name in view.timers._armed:
        group = step.after.get(GroupId(name.group))
        match name.kind:
            case TimerKind.SESSION:
                good = group is not None and name.member in group.members
            case TimerKind.PENDING:
                good = group is not None and name.member in group.pending_joins
            case TimerKind.JOIN:
                good = group is not None and group.state is PREPARING
            case TimerKind.SYNC:
                good = group is not None and group.state in (COMPLETING, STABLE)
            case TimerKind.SIMPLE:
                good = (name.group, name.member) in view.promises.registrations
            case _:
                good = True
        if not good:
            raise Broken(f"{name} is armed, but has no owner")


def counters_agree_with_members(view: View, step: Step) -> None:
    """Counters, which keep a join equally cheap in large groups, equal the counted values."""
    for group_id in step.changed:
        group = view.core.groups[group_id]
        parked = sum(1 for member in group.members.values() if member.parked_join)
        offers = Counter(name for member in group.members.values() for name in {name for name, _ in member.protocols})
        if group.parked_joins != parked or group.support._counts != offers:
            raise Broken(f"{group_id} counts {group.parked_joins}, {group.support._counts}; is {parked}, {offers}")


def registrations_agree_with_members(view: View, step: Step) -> None:
    """Attribution relies on registrations: exactly the members of the generation, with their partitions.

    A new member, or the next process of an instance, is registered when its first generation begins; during a rebalance
    members keep what they had. While a replacement is in flight to the log, the old id represents the new one.
    """
    if not step.changed and not step.outcome.updates and step.kind is StepKind.REQUEST:
        return
    registered: dict[str, set[str]] = {}
    for (group_id, member_id), registration in view.promises.registrations.items():
        if registration.kind is Kind.MEMBER:
            registered.setdefault(group_id, set()).add(member_id)
    for group_id in registered.keys() | step.after.keys():
        group = step.after.get(GroupId(group_id))
        members = group.members if group else {}
        ids = registered.get(group_id, set())
        expected = {member_id for member_id, member in members.items() if not member.is_new}
        begins = {i for i in expected if members[i].group_instance_id and members[i].parked_join is not None}
        if not view.log.pending and not expected - begins <= ids <= expected:
            raise Broken(f"registered for {group_id}: {sorted(ids)}, members: {members}")
        if group is None or group.state is not STABLE or view.log.pending:
            continue
        for member_id in sorted(expected):
            _check_partitions(view, group_id, member_id, group.generation, members[MemberId(member_id)].assignment)


def _check_partitions(view: View, group_id: str, member_id: str, generation: int, share: bytes) -> None:
    registration = view.promises.registrations[group_id, member_id]
    consumer = view.core.groups[GroupId(group_id)].protocol_type == "consumer"
    expected = assigned_partitions(share) if consumer else None
    if registration.partitions != expected or registration.generation != generation:
        raise Broken(f"{registration}, but generation {generation} gives it {expected}")


def connections_are_those_of_registered_members(view: View, step: Step) -> None:
    """Check that a member's connections go with its registration: otherwise it is a leak."""
    registry: Any = view.core._shard.registry
    registered = {(group, member) for group, members in registry._known.items() for member in members}
    speakers = registry._speakers
    if not speakers._connections.keys() <= registered:
        raise Broken(f"connections of {speakers._connections.keys() - registered}")
    by_member = {(*who, each) for who, connections in speakers._connections.items() for each in connections}
    if by_member != {(group, who, each) for (group, each), members in speakers._members.items() for who in members}:
        raise Broken(f"{by_member}, but {speakers._members}")


def updates_sum_up_to_registrations(view: View, step: Step) -> None:
    """Gateways receive updates only: applied in order, they must give what a new gateway receives at once."""
    if not step.outcome.updates and step.kind is not StepKind.LOADED:
        return
    summed = set(view.promises.registrations.values())
    if summed != set(view.core.registrations()):
        raise Broken(f"updates give {summed}, registrations() {view.core.registrations()}")
    sequences = [update.sequence for update in step.outcome.updates]
    if any(later <= earlier for earlier, later in pairwise(sequences)):
        raise Broken(f"sequences {sequences} do not grow")
