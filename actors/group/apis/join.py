"""JoinGroup (api key 11).

v0 has no rebalance timeout and uses the session timeout | v4 a dynamic member without id is answered
MEMBER_ID_REQUIRED once (KIP-394) | v5 group.instance.id, KIP-345 | v9 skip_assignment, KIP-814

If a member sends a second JoinGroup while its first one is parked, the second replaces the first. The first is
answered REBALANCE_IN_PROGRESS; Kafka leaves it without any response.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from muster.actors.group.codec.records import GroupMetadata
from muster.actors.group.errors import ApiError, translate
from muster.actors.group.events import (
    Cause,
    MemberAdded,
    MemberJoined,
    PendingEnd,
    PendingMemberAdded,
    RebalanceAborted,
    Removal,
)
from muster.actors.group.membership import check_member, evict, fail_parked, forget_group, forget_pending, meet, park
from muster.actors.group.messages import MEMBER_ID_REQUIRED_FROM, NO_MEMBER, JoinGroup, JoinGroupResponse
from muster.actors.group.rebalance import after_removal, complete_if_all_joined, joined_response, prepare_or_advance
from muster.actors.group.shard import Shard, pending_timer, session_timer
from muster.actors.group.state import Group, GroupState, Member, Parked
from muster.actors.group.static import replace_member
from muster.actors.group.types import GroupId, MemberId, Token, Who
from muster.placement.client import Context

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long a new member's first join may be parked. Hard-coded in Kafka, too."""


def join(shard: Shard, request: JoinGroup, context: Context, token: Token, *, in_log: bool = False) -> None:
    """Park the join, or answer it. ``in_log``: the log has the group, as a consumer group. Raises ApiError."""
    group = shard.groups.get(request.group_id)
    if group is None:
        if request.member_id:
            raise ApiError(ErrorCode.unknown_member_id)
        group = _create(shard, request.group_id, in_log=in_log)
    if not _has_room(shard, group, request):
        _turn_away(shard, group, request.member_id)
        raise ApiError(ErrorCode.group_max_size_reached, NO_MEMBER)
    if not _supports(group, request):
        raise ApiError(ErrorCode.inconsistent_group_protocol)
    join = Parked(token, request)
    if request.member_id in group.pending_joins:
        _join_pending(shard, group, join, context)
    elif request.member_id:
        _rejoin(shard, group, join, context)
    elif request.group_instance_id is not None:
        _join_static(shard, group, join, context, request.group_instance_id)
    elif request.api_version >= MEMBER_ID_REQUIRED_FROM:
        _hand_out_id(shard, group, join, context)
    else:
        _add(shard, group, join, context, _new_member_id(shard, context.client_id))


def on_pending_deadline(shard: Shard, group_id: GroupId, member_id: MemberId) -> None:
    """Forget a handed-out id that was not used in time; a later join with it is refused."""
    group = shard.groups.get(group_id)
    if group is not None and member_id in group.pending_joins:
        forget_pending(shard, group, member_id, PendingEnd.EXPIRED)
        if group.state is GroupState.PREPARING_REBALANCE:
            after_removal(shard, group, Cause.SESSION_EXPIRED)


def _create(shard: Shard, group_id: GroupId, *, in_log: bool) -> Group:
    """Create an Empty group and its record; the client's response does not wait for the record."""
    group = Group(id=group_id, state_since_ms=shard.now_ms, creation_pending=not in_log)
    shard.groups[group_id] = group
    shard.append_group(
        group,
        GroupMetadata(
            protocol_type="", generation=0, protocol=None, leader=None, state_timestamp_ms=shard.now_ms, members=()
        ),
    )

    def written() -> None:
        group.creation_pending = False

    def failed(error: ErrorCode) -> None:
        if shard.groups.get(group_id) is group:
            fail_parked(shard, group, translate(error))
            forget_group(shard, group)
            shard.report(RebalanceAborted(group=group_id))

    shard.follow(written, failed)
    return group


def _has_room(shard: Shard, group: Group, request: JoinGroup) -> bool:
    limit = shard.config.group_max_size
    member_id = request.member_id
    if not member_id and request.group_instance_id is not None:
        member_id = group.static_members.get(request.group_instance_id, NO_MEMBER)
    member = group.members.get(member_id)
    if group.state is GroupState.PREPARING_REBALANCE:
        return bool(member and member.parked_join) or group.parked_joins < limit
    if group.state is GroupState.EMPTY:
        return True
    return member is not None or len(group.members) < limit


def _turn_away(shard: Shard, group: Group, member_id: MemberId) -> None:
    """Remove the client that sent this request: the group is full."""
    if member_id in group.pending_joins:
        forget_pending(shard, group, member_id, PendingEnd.GROUP_FULL)
    elif member_id in group.members:
        evict(shard, group, group.members[member_id], Removal.GROUP_FULL)
    complete_if_all_joined(shard, group)


def _supports(group: Group, request: JoinGroup) -> bool:
    """Whether a member of that type and with these protocols fits into the group."""
    if group.state is GroupState.EMPTY:
        return bool(request.protocol_type and request.protocols)
    if request.protocol_type != group.protocol_type:
        return False
    if not group.members:
        return bool(request.protocols)
    return group.support.all_offer_any(request.protocols, len(group.members))


def _new_member_id(shard: Shard, prefix: str | None) -> MemberId:
    return MemberId(f"{prefix or ''}-{shard.new_id()}")


def _hand_out_id(shard: Shard, group: Group, join: Parked, context: Context) -> None:
    """Hand out a dynamic member's id, and wait one session timeout for its second JoinGroup (KIP-394)."""
    member_id = _new_member_id(shard, context.client_id)
    pending = group.pending_joins[member_id] = Who(member_id, context.client_id, context.host, None)
    shard.timers.set(pending_timer(group, member_id), shard.now_ms + join.request.session_timeout_ms)
    shard.report(PendingMemberAdded(group=group.id, member=pending))
    shard.reply(join.token, JoinGroupResponse(error_code=ErrorCode.member_id_required, member_id=member_id))


def _join_pending(shard: Shard, group: Group, join: Parked, context: Context) -> None:
    if join.request.group_instance_id is not None:
        raise ApiError(ErrorCode.unknown_server_error, NO_MEMBER)
    forget_pending(shard, group, join.request.member_id, PendingEnd.JOINED)
    _add(shard, group, join, context, join.request.member_id)


def _join_static(shard: Shard, group: Group, join: Parked, context: Context, instance_id: str) -> None:
    new_id = _new_member_id(shard, instance_id)
    old_id = group.static_members.get(instance_id)
    if old_id is None:
        _add(shard, group, join, context, new_id)
    else:
        replace_member(shard, group, group.members[old_id], new_id, join, context)


def _add(shard: Shard, group: Group, join: Parked, context: Context, member_id: MemberId) -> None:
    """Add a member. Until its first join is answered it has NEW_MEMBER_JOIN_TIMEOUT_MS, regardless of its session."""
    request = join.request
    member = Member(
        id=member_id,
        group_instance_id=request.group_instance_id,
        client_id=context.client_id,
        client_host=context.host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        protocols=request.protocols,
        parked_join=join,
        is_new=True,
        context=context,
    )
    if not group.members:
        group.protocol_type = request.protocol_type
    group.add(member)
    shard.report(MemberAdded(group=group.id, member=member.who))
    shard.report(MemberJoined(group=group.id, member_id=member.id))
    shard.timers.set(session_timer(group, member), shard.now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)
    if group.initial_delay:
        group.initial_delay.member_added = True
    prepare_or_advance(shard, group, Cause.MEMBER_JOINED, member)


def _rejoin(shard: Shard, group: Group, join: Parked, context: Context) -> None:
    request = join.request
    member = check_member(group, request.member_id, request.group_instance_id)
    meet(shard, group, member, context)
    shard.report(MemberJoined(group=group.id, member_id=member.id))
    same = member.protocols == request.protocols
    is_leader = group.leader == member.id
    if group.state is GroupState.COMPLETING_REBALANCE and same:
        members = group.joined_members() if is_leader else ()
        shard.reply(join.token, joined_response(group, member, members))
    elif group.state is GroupState.STABLE and same and not is_leader:
        shard.reply(join.token, joined_response(group, member, ()))
    else:
        park(shard, group, member, join)
        prepare_or_advance(shard, group, Cause.LEADER_REJOINED if same else Cause.PROTOCOLS_CHANGED, member)
