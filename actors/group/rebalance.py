"""A rebalance: how it starts, how long it waits, how the join phase ends. Soft state only, except for an Empty group.

A crash during a rebalance loses it: the group then has the state of its last record, and members with a later
generation get an error and join again.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from muster.actors.group.events import Cause, GenerationCompleted, RebalanceStarted, Removal
from muster.actors.group.membership import evict, respond_to_sync
from muster.actors.group.messages import NO_MEMBER, JoinedMember, JoinGroupResponse, SyncGroupResponse
from muster.actors.group.shard import Shard, join_timer, sync_timer
from muster.actors.group.state import Group, GroupState, InitialDelay, Member
from muster.actors.group.types import GroupId
from muster.actors.group.watchdog import phase_over, watch

MIN_REARM_MS = 100
"""A join deadline that is set again because no member has joined yet is at least this far away."""


def prepare(shard: Shard, group: Group, cause: Cause, member: Member | None = None, reason: str | None = None) -> None:
    """Start a rebalance of a group that is Empty, CompletingRebalance or Stable.

    ``member`` caused it, with that ``reason`` unless its JoinGroup has one.
    """
    if group.state is GroupState.COMPLETING_REBALANCE:
        drop_assignments(shard, group, ErrorCode.rebalance_in_progress)
    group.pending_syncs.clear()
    shard.timers.cancel(sync_timer(group))
    from_state = group.state
    if from_state is GroupState.COMPLETING_REBALANCE:
        phase_over(shard, group, from_state, group.state_since_ms)
    group.move(GroupState.PREPARING_REBALANCE, shard.now_ms)
    watch(shard, group)
    _report_start(shard, group, cause, from_state, member, reason)
    if from_state is GroupState.EMPTY:
        _start_initial_delay(shard, group)
    elif group.all_joined:
        complete_join(shard, group)
    else:
        _await_joins(shard, group, max(group.rebalance_timeout_ms(), 0))


def _report_start(
    shard: Shard, group: Group, cause: Cause, from_state: GroupState, member: Member | None, reason: str | None
) -> None:
    if member is not None and member.parked_join:
        reason = member.parked_join.request.reason
    shard.report(
        RebalanceStarted(
            group=group.id,
            cause=cause,
            member_id=member.id if member else NO_MEMBER,
            client_id=member.client_id if member else None,
            host=member.client_host if member else "",
            group_instance_id=member.group_instance_id if member else None,
            reason=reason or None,
            from_state=from_state,
            generation=group.generation,
            members=tuple(each.who for each in group.members.values()),
            joined=frozenset(each.id for each in group.members.values() if each.parked_join),
            pending=tuple(group.pending_joins.values()),
        )
    )


def prepare_or_advance(shard: Shard, group: Group, cause: Cause, member: Member | None = None) -> None:
    """Start a rebalance after a join, or advance the current one."""
    if group.state is GroupState.PREPARING_REBALANCE:
        complete_if_all_joined(shard, group)
    else:
        prepare(shard, group, cause, member)


def complete_if_all_joined(shard: Shard, group: Group) -> None:
    """End the join phase early if no member is awaited, but never during the initial delay."""
    if group.state is GroupState.PREPARING_REBALANCE and not group.in_initial_delay and group.all_joined:
        complete_join(shard, group)


def after_removal(shard: Shard, group: Group, cause: Cause, member: Member | None = None) -> None:
    """Start or end a join phase after a member (or a handed-out id) has expired; also during the initial delay."""
    if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        prepare(shard, group, cause, member)
    elif group.state is GroupState.PREPARING_REBALANCE and group.all_joined:
        complete_join(shard, group)


def drop_assignments(shard: Shard, group: Group, error: ErrorCode) -> None:
    """Clear every assignment and fail every parked sync."""
    for member in group.members.values():
        member.assignment = b""
        respond_to_sync(shard, group, member, SyncGroupResponse(error_code=error))


def on_join_deadline(shard: Shard, group_id: GroupId) -> None:
    """End the join phase, unless the initial delay is extended."""
    group = shard.groups.get(group_id)
    if group is None or group.state is not GroupState.PREPARING_REBALANCE:
        return
    delay = group.initial_delay
    if delay and delay.member_added and delay.remaining_ms:
        wait_ms = min(shard.config.group_initial_rebalance_delay_ms, delay.remaining_ms)
        group.initial_delay = InitialDelay(wait_ms, max(delay.remaining_ms - delay.wait_ms, 0))
        _await_joins(shard, group, wait_ms)
    else:
        complete_join(shard, group)


def on_sync_deadline(shard: Shard, group_id: GroupId) -> None:
    """Remove members that have not sent SyncGroup by now, including the leader and static members."""
    group = shard.groups.get(group_id)
    if group is None or group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        return
    late = [member for member in group.members.values() if member.id in group.pending_syncs]
    triggered_by = next((member for member in late if member.id == group.leader or len(late) == 1), None)
    for member in late:
        evict(shard, group, member, Removal.SYNC_TIMEOUT)
    if late:
        prepare(shard, group, Cause.SYNC_TIMEOUT, triggered_by)


def complete_join(shard: Shard, group: Group) -> None:
    """End the join phase: a new generation of the members that have joined, and static members that have not."""
    group.initial_delay = None
    shard.timers.cancel(join_timer(group))
    for member in [*group.members.values()]:
        if member.parked_join is None and member.group_instance_id is None:
            evict(shard, group, member, Removal.REBALANCE_TIMEOUT)
    if not group.members:
        _become_empty(shard, group)
    elif _elect_joined_leader(group):
        _await_assignment(shard, group)
    else:
        _await_joins(shard, group, max(group.rebalance_timeout_ms(), MIN_REARM_MS))


def _start_initial_delay(shard: Shard, group: Group) -> None:
    wait_ms = shard.config.group_initial_rebalance_delay_ms
    group.initial_delay = InitialDelay(wait_ms, max(group.rebalance_timeout_ms() - wait_ms, 0))
    _await_joins(shard, group, wait_ms)


def _await_joins(shard: Shard, group: Group, wait_ms: int) -> None:
    shard.timers.set(join_timer(group), shard.now_ms + wait_ms)


def _elect_joined_leader(group: Group) -> bool:
    """Make sure that the leader is a member that has joined. False if none has."""
    joined = [member.id for member in group.members.values() if member.parked_join]
    if joined and group.leader not in joined:
        group.leader = joined[0]
    return bool(joined)


def _become_empty(shard: Shard, group: Group) -> None:
    _next_generation(shard, group, GroupState.EMPTY, None)
    shard.append_group(group, group.snapshot({}))


def _await_assignment(shard: Shard, group: Group) -> None:
    _next_generation(shard, group, GroupState.COMPLETING_REBALANCE, group.select_protocol())
    members = group.joined_members()
    for member in group.members.values():
        member.is_new = False
        group.pending_syncs.add(member.id)
        shard.arm_session(group, member)
        shard.say(shard.registry.joined(group, member))
        if join := group.take_parked_join(member):
            is_leader = member.id == group.leader
            shard.reply(join.token, joined_response(group, member, members if is_leader else ()))
    shard.timers.set(sync_timer(group), shard.now_ms + max(group.rebalance_timeout_ms(), 0))
    watch(shard, group)


def _next_generation(shard: Shard, group: Group, state: GroupState, protocol: str | None) -> None:
    began_ms = group.state_since_ms
    phase_over(shard, group, group.state, began_ms)
    group.generation += 1
    group.protocol = protocol
    group.compute_subscribed_topics()
    group.move(state, shard.now_ms)
    shard.report(
        GenerationCompleted(
            group=group.id,
            generation=group.generation,
            members=len(group.members),
            duration_ms=shard.now_ms - began_ms,
            protocol_type=group.protocol_type,
            protocol=protocol,
            leader=group.leader,
            subscriptions=tuple((member.who, member.metadata(protocol)) for member in group.members.values()),
        )
    )


def joined_response(group: Group, member: Member, members: tuple[JoinedMember, ...]) -> JoinGroupResponse:
    """Return the response to a member of the current generation; ``members`` only for the leader."""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader or NO_MEMBER,
        member_id=member.id,
        members=members,
    )
