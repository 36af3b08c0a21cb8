"""LeaveGroup (api key 13).

v3 several members, each with its own result (KIP-345); earlier versions name one | v5 reason (KIP-800)

If a handed-out id leaves, the group, which never knew it, does not rebalance; Kafka's new coordinator does rebalance.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from muster.actors.group.errors import ApiError
from muster.actors.group.events import Cause, MemberLeft, PendingEnd
from muster.actors.group.membership import check_member, drop, forget_pending
from muster.actors.group.messages import LeaveGroup, LeaveGroupResponse, LeavingMember, LeftMember
from muster.actors.group.rebalance import complete_if_all_joined, prepare
from muster.actors.group.shard import Shard
from muster.actors.group.state import Group, GroupState, Member
from muster.actors.group.types import Token
from muster.placement.client import Context


def leave(shard: Shard, request: LeaveGroup, context: Context, token: Token) -> None:
    """Remove the members that the request names, its sender or (as an admin) others, then rebalance once."""
    group = shard.groups.get(request.group_id)
    results: list[LeftMember] = []
    removed: list[tuple[Member, str | None]] = []
    for leaving in request.members:
        try:
            member = _find(shard, group, leaving)
        except ApiError as refused:
            results.append(_result(leaving, refused.error))
            continue
        results.append(_result(leaving, ErrorCode.none))
        if group is not None and member is not None:
            drop(shard, group, member, left=_is_client_of(member, context))
            shard.report(
                MemberLeft(
                    group=group.id,
                    member_id=member.id,
                    client_id=member.client_id,
                    host=member.client_host,
                    group_instance_id=member.group_instance_id,
                    reason=leaving.reason,
                )
            )
            removed.append((member, leaving.reason))
    if group is not None:
        _after_leaving(shard, group, removed)
    shard.reply_when_durable(token, request, LeaveGroupResponse(members=tuple(results)))


def _find(shard: Shard, group: Group | None, leaving: LeavingMember) -> Member | None:
    """Return the member that leaves; None for a handed-out id, which is forgotten here. Raises ApiError."""
    if group is None:
        raise ApiError(ErrorCode.unknown_member_id)
    if leaving.member_id in group.pending_joins:
        forget_pending(shard, group, leaving.member_id, PendingEnd.LEFT)
        return None
    member_id = leaving.member_id
    if not member_id and leaving.group_instance_id is not None:
        member_id = group.static_members.get(leaving.group_instance_id, member_id)
    return check_member(group, member_id, leaving.group_instance_id)


def _is_client_of(member: Member, context: Context) -> bool:
    """Whether the member itself sent the request, judging by its origin."""
    own = member.context
    return own is not None and (own.host, own.client_id, own.principal) == (
        context.host,
        context.client_id,
        context.principal,
    )


def _after_leaving(shard: Shard, group: Group, removed: list[tuple[Member, str | None]]) -> None:
    if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE) and removed:
        member, reason = removed[0]
        prepare(shard, group, Cause.MEMBER_LEFT, member, reason)
    else:
        complete_if_all_joined(shard, group)


def _result(leaving: LeavingMember, error: ErrorCode) -> LeftMember:
    return LeftMember(member_id=leaving.member_id, group_instance_id=leaving.group_instance_id, error_code=error)
