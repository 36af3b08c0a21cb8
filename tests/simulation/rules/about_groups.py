"""Invariants of groups: states, generations, sizes, assignments."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from muster.actors.group.codec.consumer_protocol import assigned_partitions
from muster.actors.group.codec.records import GroupKey, GroupMetadata, decode_key, decode_value
from muster.actors.group.messages import JoinGroupResponse, SyncGroup, SyncGroupResponse
from muster.actors.group.state import GroupState
from muster.actors.group.types import GroupId
from tests.simulation.actor import Received, Step, StepKind
from tests.simulation.planted.broken import Broken
from tests.simulation.promises import Assignments
from tests.simulation.shots import GroupShot
from tests.simulation.view import View

E = ErrorCode
EMPTY, PREPARING, COMPLETING, STABLE, DEAD = GroupState
ONE_STEP = {
    EMPTY: {EMPTY, PREPARING},
    PREPARING: {EMPTY, PREPARING, COMPLETING},
    COMPLETING: {EMPTY, PREPARING, COMPLETING, STABLE},
    STABLE: {EMPTY, PREPARING, COMPLETING, STABLE},
}
"""The possible states of a group after one step: the moves of MAY_COME_FROM, as many as one step can make."""


def states_move_as_the_table_says(view: View, step: Step) -> None:
    """Clients depend on the phases: assignments follow joins, Stable follows the log, Dead is the end."""
    for group_id, after in (step.after if step.dying else step.changed).items():
        before = step.before.get(group_id)
        if step.kind is StepKind.RESIGNED:
            if after.state is not DEAD:
                raise Broken(f"{group_id} is {after.state} although the coordinator has resigned")
            continue
        if step.kind is StepKind.LOADED:
            continue
        was = before.state if before else EMPTY
        if after.state not in ONE_STEP[was]:
            raise Broken(f"{group_id} goes from {was} to {after.state} in one step")
        if after.state is STABLE and was is not STABLE and step.kind is not StepKind.WRITTEN:
            raise Broken(f"{group_id} is Stable before its assignment is written")
        awaits_others = after.state is PREPARING and (after.pending_joins or after.in_initial_delay)
        if bool(after.members) != (after.state is not EMPTY) and not awaits_others:
            raise Broken(f"{group_id} is {after.state} with {len(after.members)} members")


def generations_only_grow(view: View, step: Step) -> None:
    """Check that a generation grows by one when a join phase ends, and never decreases while the actor lives.

    Only a generation in the log survives the actor: one whose assignment was not written may be used again after a
    crash, but a written one never decreases (until the group is deleted).
    """
    for group_id, after in (step.after if step.outcome.records else step.changed).items():
        before = step.before.get(group_id)
        if before is not None and not step.dying:
            ended = 1 if before.state is not after.state and after.state is not PREPARING else 0
            if not before.generation <= after.generation <= before.generation + 1:
                raise Broken(f"{group_id} goes from generation {before.generation} to {after.generation}")
            if after.generation == before.generation and ended and after.state is not STABLE:
                raise Broken(f"{group_id} becomes {after.state} in its old generation {after.generation}")
        stored = None if step.dying else view.log.live_group(group_id)
        if stored is not None and after.generation < stored.generation:
            raise Broken(f"{group_id} is in generation {after.generation}, its record says {stored.generation}")


def members_agree_on_their_generation(view: View, step: Step) -> None:
    """All members of a new generation must agree on its number, protocol and leader, and one of them must be the
    leader.

    Only the leader gets the list of members. It must be complete: a member missing from it gets no partitions.
    """
    joined: dict[GroupId, list[JoinGroupResponse]] = {}
    for received, response in step.answered:
        if isinstance(response, JoinGroupResponse) and response.error_code is E.none:
            joined.setdefault(GroupId(received.request.group_id), []).append(response)  # type: ignore[union-attr]
    for group_id, responses in joined.items():
        after, before = step.after[group_id], step.before.get(group_id)
        if before is not None and before.generation == after.generation:
            continue
        if len({(a.generation_id, a.protocol_name, a.leader) for a in responses}) != 1:
            raise Broken(f"members of {group_id} got different responses: {responses}")
        leader = [response for response in responses if response.member_id == response.leader]
        if len(leader) != 1:
            raise Broken(f"the leader {responses[0].leader} of {group_id} has not joined")
        if {member.member_id for member in leader[0].members} != after.members.keys():
            raise Broken(f"the leader of {group_id} got {leader[0].members}, members are {[*after.members]}")


def groups_have_at_most_max_size_joined(view: View, step: Step) -> None:
    """``group.max.size`` limits the JoinGroups accepted into one generation, also after it was lowered."""
    limit = view.actor.config.group_max_size
    for group_id, group in step.changed.items():
        if group.state is PREPARING and group.parked_joins() > limit:
            raise Broken(f"{group.parked_joins()} joins are parked in {group_id}, group.max.size is {limit}")
        dynamic = [m for m in group.members.values() if m.group_instance_id is None]
        if group.state in (COMPLETING, STABLE) and len(dynamic) > limit:
            raise Broken(f"{group_id} has {len(dynamic)} dynamic members, group.max.size is {limit}")


def the_log_gets_what_the_leader_decided(view: View, step: Step) -> None:
    """Check that the assignment is the leader's decision alone.

    Each member gets what the leader gave it, or nothing.
    """
    received = step.received
    if received is None or not isinstance(received.request, SyncGroup) or not step.outcome.records:
        return
    given = dict(received.request.assignments)
    for record in step.outcome.records:
        key = decode_key(record.key)
        if not isinstance(key, GroupKey) or record.value is None:
            continue
        stored = decode_value(key, record.value)
        assert isinstance(stored, GroupMetadata)
        if {m.member_id: m.assignment for m in stored.members} != {
            m.member_id: given.get(m.member_id, b"") for m in stored.members
        }:
            raise Broken(f"{received.sender} gave {given}, the record has {stored.members}")


def assignments_are_durable_before_they_are_sent(view: View, step: Step) -> None:
    """Check that assignments are in the log, in that generation, before they are sent.

    A member that got its partitions must find them after any crash.
    """
    for received, response in _synced(step):
        request = received.request
        assert isinstance(request, SyncGroup)
        stored = view.log.group(request.group_id)
        shares = {m.member_id: m.assignment for m in stored.members} if stored else {}
        if stored is None or stored.generation != request.generation_id:
            raise Broken(f"{request.member_id} gets its share of generation {request.generation_id}, log: {stored}")
        if shares.get(request.member_id) != response.assignment:
            raise Broken(f"{request.member_id} gets {response.assignment!r}, the log has {shares}")


def a_failed_sync_phase_leaves_no_assignment(view: View, step: Step) -> None:
    """Check that no assignment is shown or kept that not all members got: what was consumed under it is unknown."""
    for group_id, after in step.changed.items():
        before = step.before.get(group_id)
        if before is None or before.state is not COMPLETING or step.dying:
            continue
        over = after.state is PREPARING or (after.state is COMPLETING and after.generation != before.generation)
        left = {member_id: member.assignment for member_id, member in after.members.items() if member.assignment}
        if over and left:
            raise Broken(f"{group_id} has begun a new join phase and keeps {left}")


def a_generation_has_one_assignment(view: View, step: Step) -> None:
    """Two different assignments under one generation of one group would be indistinguishable.

    A repeated request gets the same bytes, before or after a crash, under the old id or from the next process of the
    instance.
    """
    for received, response in _synced(step):
        assignments, slot = _assignments_of(view, step, received)
        if assignments.shares.setdefault(slot, response.assignment) != response.assignment:
            raise Broken(f"{slot} got {assignments.shares[slot]!r} and now gets {response.assignment!r}")


def a_partition_is_assigned_once(view: View, step: Step) -> None:
    """Two consumers of one partition in one generation: this is what a group must prevent."""
    for received, response in _synced(step):
        request = received.request
        assert isinstance(request, SyncGroup)
        if (view.incarnation(request.group_id), request.generation_id) in view.promises.dishonest:
            continue
        assignments, slot = _assignments_of(view, step, received)
        for partition in assigned_partitions(response.assignment) or ():
            if assignments.owners.setdefault(partition, slot) != slot:
                raise Broken(f"{partition} belongs to {assignments.owners[partition]} and to {slot} in {request}")


def a_reload_gives_the_group_back(view: View, step: Step) -> None:
    """Members, generation, leader and assignments agree with the log, and with earlier responses to members."""
    if step.kind is not StepKind.LOADED:
        return
    for group_id, group in step.after.items():
        stored = view.log.group(group_id)
        if stored is None:
            if group.members or group.generation:
                raise Broken(f"{group_id} has no record and is {group}")
            continue
        shares = {member_id: member.assignment for member_id, member in group.members.items()}
        if (group.generation, group.leader) != (stored.generation, stored.leader):
            raise Broken(f"{group_id} is in generation {group.generation} led by {group.leader}, log: {stored}")
        if shares != {member.member_id: member.assignment for member in stored.members}:
            raise Broken(f"{group_id} has {shares}, log: {stored.members}")
        assignments = view.promises.assignments.get((view.incarnation(group_id), group.generation))
        for member_id, member in group.members.items():
            slot = member.group_instance_id or member_id
            if assignments and assignments.shares.get(slot, member.assignment) != member.assignment:
                raise Broken(f"{slot} got {assignments.shares[slot]!r}, the loaded group has {member.assignment!r}")
    later = [
        assignments
        for assignments in view.promises.assignments
        if assignments[0] == view.incarnation(assignments[0][0])
    ]
    for (group_id, _), generation in later:
        if group_id not in step.after or step.after[group_id].generation < generation:
            raise Broken(f"{group_id} was in generation {generation}, now it is {step.after.get(group_id)}")


def _synced(step: Step) -> list[tuple[Received, SyncGroupResponse]]:
    return [(a, r) for a, r in step.answered if isinstance(r, SyncGroupResponse) and r.error_code is E.none]


def _assignments_of(view: View, step: Step, received: Received) -> tuple[Assignments, str]:
    """Return the assignments of that generation, and the owner of this response's share: an instance or a member."""
    request = received.request
    assert isinstance(request, SyncGroup)
    group: GroupShot = step.after[request.group_id]
    slot = group.members[request.member_id].group_instance_id or request.member_id
    assignments = view.promises.assignments.setdefault(
        (view.incarnation(request.group_id), request.generation_id), Assignments()
    )
    return assignments, slot
