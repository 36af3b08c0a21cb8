"""Who is a member, and how membership ends. The reaction of the group is in ``rebalance``."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from muster.actors.group.errors import ApiError
from muster.actors.group.events import MemberExpired, PendingEnd, PendingMemberRemoved, Removal
from muster.actors.group.messages import NO_MEMBER, JoinGroupResponse, SyncGroupResponse
from muster.actors.group.shard import Shard, join_timer, pending_timer, session_timer, stuck_timer, sync_timer
from muster.actors.group.state import Group, Member, Parked
from muster.actors.group.types import MemberId
from muster.placement.client import Context


def check_member(group: Group, member_id: MemberId, group_instance_id: str | None) -> Member:
    """Return the member that sent a request.

    Raises ApiError with UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID. A static member may omit its instance id.
    """
    if group_instance_id is not None:
        current = group.static_members.get(group_instance_id)
        if current is None:
            raise ApiError(ErrorCode.unknown_member_id)
        if current != member_id:
            raise ApiError(ErrorCode.fenced_instance_id)
    member = group.members.get(member_id)
    if member is None:
        raise ApiError(ErrorCode.unknown_member_id)
    return member


def meet(shard: Shard, group: Group, member: Member, context: Context) -> None:
    """Note that the member sent a request from ``context``; update the client in its registration if it differs.

    The first request after loading shows the principal, and whether an empty client id was null.
    A static member's next process may have come from another host.
    """
    if member.context != context:
        member.context = context
        shard.say(shard.registry.met(group, member))


def drop(shard: Shard, group: Group, member: Member, *, left: bool = False) -> None:
    """Remove a member; ``left``: at its own request. Its parked requests are answered UNKNOWN_MEMBER_ID."""
    if join := group.take_parked_join(member):
        shard.reply(join.token, JoinGroupResponse(error_code=ErrorCode.unknown_member_id, member_id=NO_MEMBER))
    if member.parked_sync is not None:
        shard.reply(member.parked_sync, SyncGroupResponse(error_code=ErrorCode.unknown_member_id))
        member.parked_sync = None
    shard.timers.cancel(session_timer(group, member))
    group.remove(member)
    shard.say(shard.registry.gone(group.id, member.id, left=left))


def evict(shard: Shard, group: Group, member: Member, cause: Removal) -> None:
    """Remove a member that did not request it."""
    drop(shard, group, member)
    shard.report(
        MemberExpired(
            group=group.id,
            member_id=member.id,
            client_id=member.client_id,
            host=member.client_host,
            group_instance_id=member.group_instance_id,
            cause=cause,
        )
    )


def forget_pending(shard: Shard, group: Group, member_id: MemberId, cause: PendingEnd) -> None:
    """Stop waiting for a handed-out id."""
    shard.timers.cancel(pending_timer(group, member_id))
    if group.pending_joins.pop(member_id, None) is not None:
        shard.report(PendingMemberRemoved(group=group.id, member_id=member_id, cause=cause))


def respond_to_sync(shard: Shard, group: Group, member: Member, response: SyncGroupResponse) -> None:
    """Answer the member's parked sync, if any. Its session, which may have expired meanwhile, starts again."""
    if member.parked_sync is None:
        return
    shard.reply(member.parked_sync, response)
    member.parked_sync = None
    shard.arm_session(group, member)


def park(shard: Shard, group: Group, member: Member, join: Parked) -> None:
    """Keep a known member's JoinGroup unanswered until the join phase ends, and adopt its settings."""
    if member.parked_join:
        superseded = JoinGroupResponse(error_code=ErrorCode.rebalance_in_progress, member_id=member.id)
        shard.reply(member.parked_join.token, superseded)
    group.park_join(member, join)
    member.session_timeout_ms = join.request.session_timeout_ms
    member.rebalance_timeout_ms = join.request.rebalance_timeout_ms


def fail_parked(shard: Shard, group: Group, error: ErrorCode) -> None:
    """Answer every parked request of the group with that error."""
    for member in group.members.values():
        fail_parked_of(shard, group, member, error)


def fail_parked_of(shard: Shard, group: Group, member: Member, error: ErrorCode) -> None:
    """Answer the member's parked requests with that error; the response to a join carries its member id."""
    if join := group.take_parked_join(member):
        shard.reply(join.token, JoinGroupResponse(error_code=error, member_id=member.id))
    if member.parked_sync is not None:
        shard.reply(member.parked_sync, SyncGroupResponse(error_code=error))
        member.parked_sync = None


def forget_group(shard: Shard, group: Group) -> None:
    """Remove the group and its timers from memory."""
    for member in group.members.values():
        shard.timers.cancel(session_timer(group, member))
    for member_id in group.pending_joins:
        shard.timers.cancel(pending_timer(group, member_id))
    shard.timers.cancel(join_timer(group))
    shard.timers.cancel(sync_timer(group))
    shard.timers.cancel(stuck_timer(group))
    shard.groups.pop(group.id, None)
