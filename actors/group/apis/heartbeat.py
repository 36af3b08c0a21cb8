"""Heartbeat (api key 12) and sessions.

v3 group.instance.id | only PreparingRebalance is answered REBALANCE_IN_PROGRESS; CompletingRebalance is answered NONE
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from muster.actors.group import lease
from muster.actors.group.errors import ApiError
from muster.actors.group.events import Cause, Removal
from muster.actors.group.membership import check_member, evict, meet
from muster.actors.group.messages import Heartbeat, HeartbeatResponse
from muster.actors.group.rebalance import after_removal
from muster.actors.group.shard import Shard
from muster.actors.group.state import GroupState
from muster.actors.group.types import GroupId, MemberId, Token
from muster.placement.client import Context


def heartbeat(shard: Shard, request: Heartbeat, context: Context, token: Token) -> None:
    """Keep the member alive, and reply whether it must join again. Raises ApiError."""
    group = shard.groups.get(request.group_id)
    if group is None:
        raise ApiError(ErrorCode.unknown_member_id)
    member = check_member(group, request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise ApiError(ErrorCode.illegal_generation)
    meet(shard, group, member, context)
    shard.arm_session(group, member)
    moving = group.state is GroupState.PREPARING_REBALANCE
    response = HeartbeatResponse(error_code=ErrorCode.rebalance_in_progress if moving else ErrorCode.none)
    if not shard.is_durable(group.id):
        shard.reply_when_durable(token, request, response)
        return
    shard.reply(token, response)
    if shard.config.heartbeat_lease_enable and group.state is GroupState.STABLE:
        lease.grant(shard, group, member, token)


def on_session_deadline(shard: Shard, group_id: GroupId, member_id: MemberId) -> None:
    """Remove a member that sent nothing for a session timeout, or whose first join was parked for too long.

    A member with a parked request is alive: its next session begins when the request is answered.
    """
    group = shard.groups.get(group_id)
    member = group.members.get(member_id) if group else None
    if group is None or member is None:
        return
    if member.is_new:
        evict(shard, group, member, Removal.JOIN_EXPIRED)
    elif member.parked_join or member.parked_sync is not None or lease.postpone(shard, group, member):
        return
    else:
        evict(shard, group, member, Removal.SESSION_EXPIRED)
    after_removal(shard, group, Cause.SESSION_EXPIRED, member)
