"""How members of a consumer group leave it, or are removed from it."""

from __future__ import annotations

from collections.abc import Mapping

from kio.schema.errors import ErrorCode

from muster.actors.group.codec.consumer_records import ConsumerRecord
from muster.actors.group.consumer import conversion, epochs, membership
from muster.actors.group.consumer.state import LEFT_FOR_A_WHILE, ConsumerGroup
from muster.actors.group.consumer.timers import revocation_timer, session_timer
from muster.actors.group.errors import ApiError
from muster.actors.group.events import Cause, MemberExpired, MemberLeft, Removal
from muster.actors.group.messages import ConsumerGroupHeartbeat, ConsumerGroupHeartbeatResponse
from muster.actors.group.shard import Shard
from muster.actors.group.types import GroupId, MemberId, Token, Who
from muster.placement.client import Context

REMOVED_BYTES = 100_000
"""Sessions that end together are removed in steps of about so many bytes, for which any log has room."""
_RECORD_BYTES = 50
"""Size of a tombstone without the names in its key."""


def leave(shard: Shard, request: ConsumerGroupHeartbeat, context: Context, token: Token) -> None:
    """Handle a ConsumerGroupHeartbeat of epoch -1 or -2. Raises ApiError."""
    group = shard.consumer_group(request.group_id)
    if group is None:
        known = request.group_id in shard.groups
        message = f"Group {request.group_id} {'is not a consumer group' if known else 'not found'}."
        raise ApiError(ErrorCode.group_id_not_found, message=message)
    member_id = request.member_id
    if request.instance_id is not None:
        membership.check_static(group, member_id, request.instance_id)
    elif member_id not in group.members:
        raise membership.unknown_member(group.id, member_id)
    if request.member_epoch == LEFT_FOR_A_WHILE:
        membership.meet(shard, group, member_id, context)
        away = membership.left_for_a_while(group.assignment_of(member_id))
        shard.append_consumer(group.id, ConsumerRecord.CURRENT_MEMBER_ASSIGNMENT, away, member_id)
        epochs.register(shard, group, member_id)
        shard.timers.cancel(revocation_timer(group.id, member_id))
    else:
        remove(shard, group, {member_id: None}, left_by=context)
    response = ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=request.member_epoch)
    shard.reply_when_durable(token, request, response)


def fence(shard: Shard, group_id: GroupId, member_id: MemberId, cause: Removal) -> None:
    """Remove a member that did not request it, if it is still one."""
    group = shard.consumer_group(group_id)
    if group is not None and member_id in group.members:
        remove(shard, group, {member_id: None}, cause)


def end_sessions(shard: Shard, group_id: GroupId, member_id: MemberId) -> None:
    """Remove a member whose session has ended, if it is still one; with it the next ones of the group, at one epoch.

    Together as many as surely fit a batch: after a failover, sessions of all members that have died end at once.
    """
    group = shard.consumer_group(group_id)
    if group is None or member_id not in group.members:
        return
    ended = [member_id]
    size = _removal_bytes(group, member_id)
    while (timer := shard.timers.next_due(shard.now_ms)) is not None:
        following = MemberId(timer.member)
        if timer != session_timer(group_id, following) or following not in group.members:
            break
        size += _removal_bytes(group, following)
        if size > REMOVED_BYTES:
            break
        shard.timers.cancel(timer)
        ended.append(following)
    remove(shard, group, dict.fromkeys(ended), Removal.SESSION_EXPIRED)


def _removal_bytes(group: ConsumerGroup, member_id: MemberId) -> int:
    """About the size of the tombstones of a member and of its regular expression."""
    names = 3 * (len(group.id) + len(member_id)) + len(group.id) + len(group.members[member_id].regex or "")
    return names + 4 * _RECORD_BYTES


def remove(
    shard: Shard,
    group: ConsumerGroup,
    gone: Mapping[MemberId, str | None],
    cause: Removal | None = None,
    *,
    left_by: Context | None = None,
) -> None:
    """Remove these members, at least one: at a request from ``left_by`` with the reasons in it, or for that ``cause``.

    If only members with the classic protocol remain, the group may become a classic group.
    """
    stopped = {member_id: _is_client(group.contexts.get(member_id), left_by) for member_id in gone}
    for member_id, reason in gone.items():
        shard.report(_event(group.id, group.who(member_id), reason, cause))
    if conversion.may_downgrade(shard, group, [*gone]):
        conversion.downgrade(shard, group, [*gone], rebalance_now=True)
    else:
        membership.remove_members(shard, group, gone, Cause.MEMBER_FENCED if cause else Cause.MEMBER_LEFT)
    for member_id in gone:
        membership.forget(shard, group, member_id, left=stopped[member_id])


def _is_client(own: Context | None, sender: Context | None) -> bool:
    """Whether the member itself sent the request, judging by its origin."""
    if own is None or sender is None:
        return False
    return (own.host, own.client_id, own.principal) == (sender.host, sender.client_id, sender.principal)


def _event(group: GroupId, who: Who, reason: str | None, cause: Removal | None) -> MemberLeft | MemberExpired:
    if cause is None:
        return MemberLeft(
            group=group,
            member_id=who.member_id,
            client_id=who.client_id,
            host=who.host,
            group_instance_id=who.group_instance_id,
            reason=reason,
        )
    return MemberExpired(
        group=group,
        member_id=who.member_id,
        client_id=who.client_id,
        host=who.host,
        group_instance_id=who.group_instance_id,
        cause=cause,
    )
