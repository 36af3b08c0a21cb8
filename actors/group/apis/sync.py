"""SyncGroup (api key 14).

v3 group.instance.id | v5 protocol type and name, mandatory in requests (KIP-559)

The leader's assignment is not sent to members before it is in the log. If a sync is parked twice, the first is
answered REBALANCE_IN_PROGRESS; Kafka leaves it without any response.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from muster.actors.group.errors import ApiError, translate
from muster.actors.group.events import AssignmentStored, Cause, MemberSynced
from muster.actors.group.membership import check_member, meet, respond_to_sync
from muster.actors.group.messages import SyncGroup, SyncGroupResponse
from muster.actors.group.rebalance import drop_assignments, prepare
from muster.actors.group.shard import Shard
from muster.actors.group.state import Group, GroupState, Member
from muster.actors.group.types import MemberId, Token
from muster.actors.group.watchdog import phase_over
from muster.placement.client import Context


def sync(shard: Shard, request: SyncGroup, context: Context, token: Token) -> None:
    """Park the sync, or answer it. Raises ApiError."""
    group = shard.groups.get(request.group_id)
    if group is None:
        raise ApiError(ErrorCode.unknown_member_id)
    member = check_member(group, request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise ApiError(ErrorCode.illegal_generation)
    if not _protocol_matches(group, request):
        raise ApiError(ErrorCode.inconsistent_group_protocol)
    if group.state is GroupState.PREPARING_REBALANCE:
        raise ApiError(ErrorCode.rebalance_in_progress)
    meet(shard, group, member, context)
    group.pending_syncs.discard(member.id)
    shard.report(MemberSynced(group=group.id, generation=group.generation, member_id=member.id))
    if group.state is GroupState.STABLE:
        shard.reply(token, _synced(group, member))
        return
    _park(shard, member, token)
    if member.id == group.leader:
        _store_assignment(shard, group, dict(request.assignments))


def _protocol_matches(group: Group, request: SyncGroup) -> bool:
    return (request.protocol_type is None or request.protocol_type == group.protocol_type) and (
        request.protocol_name is None or request.protocol_name == group.protocol
    )


def _park(shard: Shard, member: Member, token: Token) -> None:
    if member.parked_sync is not None:
        shard.reply(member.parked_sync, SyncGroupResponse(error_code=ErrorCode.rebalance_in_progress))
    member.parked_sync = token


def _store_assignment(shard: Shard, group: Group, given: dict[MemberId, bytes]) -> None:
    """Write the group with the leader's assignment; members that it left out get none.

    A leader that sends another assignment before the first is durable has changed its mind. Only the last one counts,
    or the log would end with an assignment that no member received. (Kafka delivers the first and keeps the second.)
    """
    assignments = group.assignment_under_way = {member_id: given.get(member_id, b"") for member_id in group.members}
    generation = group.generation
    shard.append_group(group, group.snapshot(assignments))

    def still_waiting() -> bool:
        return (
            shard.groups.get(group.id) is group
            and group.state is GroupState.COMPLETING_REBALANCE
            and group.generation == generation
            and group.assignment_under_way is assignments
        )

    def written() -> None:
        if still_waiting():
            _become_stable(shard, group, assignments)

    def failed(error: ErrorCode) -> None:
        if still_waiting():
            drop_assignments(shard, group, translate(error))
            prepare(shard, group, Cause.ASSIGNMENT_NOT_WRITTEN)

    shard.follow(written, failed)


def _become_stable(shard: Shard, group: Group, assignments: dict[MemberId, bytes]) -> None:
    began_ms = group.state_since_ms
    phase_over(shard, group, group.state, began_ms)
    group.move(GroupState.STABLE, shard.now_ms)
    for member in group.members.values():
        member.assignment = assignments.get(member.id, b"")
        shard.say(shard.registry.assigned(group, member))
        respond_to_sync(shard, group, member, _synced(group, member))
    shard.report(
        AssignmentStored(
            group=group.id,
            generation=group.generation,
            members=len(group.members),
            duration_ms=shard.now_ms - began_ms,
            assignments=tuple((member.id, member.assignment) for member in group.members.values()),
        )
    )


def _synced(group: Group, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
    )
