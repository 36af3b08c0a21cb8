"""Static membership (KIP-345): a new process replaces the one that had its group.instance.id.

In a Stable group whose protocol does not change, other members do not notice: same generation, same assignment. The
group record with the new id must be in the log before the new process gets its response.
"""

from __future__ import annotations

from dataclasses import replace

from kio.schema.errors import ErrorCode

from muster.actors.group.errors import translate
from muster.actors.group.events import Cause, MemberJoined, StaticMemberReplaced
from muster.actors.group.membership import fail_parked_of, park
from muster.actors.group.messages import NO_MEMBER, JoinGroupResponse
from muster.actors.group.rebalance import joined_response, prepare_or_advance
from muster.actors.group.shard import Shard, session_timer, sync_timer
from muster.actors.group.state import Group, GroupState, Member, Parked
from muster.actors.group.types import MemberId
from muster.placement.client import Context

SKIP_ASSIGNMENT_FROM = 9


def replace_member(
    shard: Shard, group: Group, member: Member, new_id: MemberId, join: Parked, context: Context
) -> None:
    """Give the member a new id. Requests that wait with the old id are fenced; assignment and leadership stay."""
    before = replace(member)
    led_by = group.leader or NO_MEMBER
    fail_parked_of(shard, group, member, ErrorCode.fenced_instance_id)
    before.parked_join = before.parked_sync = None
    shard.timers.cancel(session_timer(group, member))
    group.rename(member.id, new_id)
    member.is_new = False
    member.context = context
    shard.arm_session(group, member)
    park(shard, group, member, join)
    if group.state is GroupState.STABLE and group.select_protocol() == group.protocol:
        shard.report(MemberJoined(group=group.id, member_id=member.id))
        _replace_quietly(shard, group, member, before, join, led_by)
    else:
        _announce(shard, group, member, before)
        shard.report(MemberJoined(group=group.id, member_id=member.id))
        prepare_or_advance(shard, group, Cause.STATIC_MEMBER_REPLACED, member)


def _replace_quietly(
    shard: Shard, group: Group, member: Member, before: Member, join: Parked, led_by: MemberId
) -> None:
    shard.append_group(group, group.snapshot(group.assignments()))
    if member.id in group.pending_syncs:  # the new process owes the SyncGroup, and has the whole time for it
        shard.timers.set(sync_timer(group), shard.now_ms + max(group.rebalance_timeout_ms(), 0))

    def written() -> None:
        if group.members.get(member.id) is not member:
            shard.say(shard.registry.gone(group.id, before.id))
            return
        _announce(shard, group, member, before)
        if group.state is GroupState.STABLE and member.parked_join == join:
            group.take_parked_join(member)
            if shard.timers.get(session_timer(group, member)) is None:  # expired while the log was slow, and kept
                shard.arm_session(group, member)
            shard.say(shard.registry.assigned(group, member))
            shard.reply(join.token, _quiet_response(group, member, join, led_by))

    def failed(error: ErrorCode) -> None:
        if group.members.get(member.id) is not member:
            shard.say(shard.registry.gone(group.id, before.id))
        elif member.parked_join == join:
            _restore(shard, group, member, before)
            shard.reply(join.token, _failed_response(group, translate(error)))

    shard.follow(written, failed)


def _announce(shard: Shard, group: Group, member: Member, before: Member) -> None:
    shard.say(shard.registry.gone(group.id, before.id))
    shard.report(
        StaticMemberReplaced(
            group=group.id,
            group_instance_id=before.group_instance_id or "",
            old_member_id=before.id,
            new_member_id=member.id,
            client_id=member.context.client_id if member.context else member.client_id,
            host=member.context.host if member.context else member.client_host,
        )
    )


def _quiet_response(group: Group, member: Member, join: Parked, led_by: MemberId) -> JoinGroupResponse:
    """From v9 on, a leader is instructed to skip its assignment; before v9 it gets a response as if it did not lead."""
    if join.request.api_version < SKIP_ASSIGNMENT_FROM:
        return joined_response(group, member, ())._replace(leader=led_by)
    leads = group.leader == member.id
    members = group.joined_members() if leads else ()
    return joined_response(group, member, members)._replace(skip_assignment=leads)


def _failed_response(group: Group, error: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error,
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader or NO_MEMBER,
        member_id=NO_MEMBER,
    )


def _restore(shard: Shard, group: Group, member: Member, before: Member) -> None:
    """Undo the replacement."""
    shard.timers.cancel(session_timer(group, member))
    group.rename(member.id, before.id)
    group.put_back(member, before)
    shard.arm_session(group, before)
