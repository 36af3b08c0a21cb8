"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup in a consumer group: members whose clients have the classic protocol.

Such a member is assigned its partitions as any other, at once: there is no join phase. A response REBALANCE_IN_PROGRESS
has it send JoinGroup, with which it confirms what it has given up.
"""

from __future__ import annotations

from dataclasses import replace

from kio.schema.errors import ErrorCode

from muster.actors.group.codec.consumer_protocol import PROTOCOL_TYPE, Subscription, read_subscription
from muster.actors.group.codec.consumer_records import ClassicMember, MemberMetadata, MemberState, TopicIdPartition
from muster.actors.group.consumer import conversion, departure, epochs, membership
from muster.actors.group.consumer.state import ConsumerGroup
from muster.actors.group.consumer.timers import join_timer, sync_timer
from muster.actors.group.errors import ApiError, CorruptRecord
from muster.actors.group.events import Cause, MemberJoined
from muster.actors.group.messages import (
    MEMBER_ID_REQUIRED_FROM,
    NO_MEMBER,
    Heartbeat,
    HeartbeatResponse,
    JoinGroup,
    JoinGroupResponse,
    LeaveGroup,
    LeaveGroupResponse,
    LeavingMember,
    LeftMember,
    SyncGroup,
    SyncGroupResponse,
)
from muster.actors.group.shard import Shard
from muster.actors.group.types import MemberId, Token
from muster.placement.client import Context


def join(shard: Shard, group: ConsumerGroup, request: JoinGroup, context: Context, token: Token) -> None:
    """Add the member, or let it take the next step towards its assignment. Raises ApiError."""
    try:
        membership.check_room(shard, group, request.member_id, request.group_instance_id)
        _check_protocols(group, request)
        if not request.member_id and request.group_instance_id is None:
            member_id = MemberId(shard.new_id())
            if request.api_version >= MEMBER_ID_REQUIRED_FROM:
                raise ApiError(ErrorCode.member_id_required, member_id)
            request = request._replace(member_id=member_id)
        with shard.all_or_nothing():
            joined, replaced, member_id = _identify(shard, group, request)
            subscription = _subscription(request)
            owned = _owned(shard, subscription)
            changed = _write_member(shard, group, member_id, request, subscription, context)
            membership.report_arrival(shard, group, member_id, joined=joined, replaced=replaced)
            cause = (Cause.MEMBER_JOINED if joined else Cause.SUBSCRIPTION_CHANGED) if changed else None
            epochs.take_account(shard, group, cause, member_id)
            epochs.assign_targets(shard, group)
            epochs.reconcile(shard, group, member_id, owned, subscription_changed=changed)
    except ApiError as refused:
        raise ApiError(refused.error, refused.member_id or NO_MEMBER) from refused
    if replaced is not None:
        membership.forget(shard, group, replaced)
    membership.meet(shard, group, member_id, context)
    shard.report(MemberJoined(group=group.id, member_id=member_id))
    membership.arm_session(shard, group, member_id)
    shard.timers.cancel(join_timer(group.id, member_id))
    shard.timers.set(sync_timer(group.id, member_id), shard.now_ms + max(0, request.rebalance_timeout_ms))
    response = JoinGroupResponse(
        generation_id=group.assignment_of(member_id).epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=request.protocols[0][0],
        member_id=member_id,
    )
    if replaced is not None and conversion.may_downgrade(shard, group, ()):
        conversion.downgrade(shard, group, (), rebalance_now=False)
    shard.reply_when_durable(token, request, response)


def sync(shard: Shard, group: ConsumerGroup, request: SyncGroup, context: Context, token: Token) -> None:
    """Give the member its partitions. Raises ApiError."""
    member_id = request.member_id
    member = _check_member(group, member_id, request.group_instance_id)
    current = group.assignment_of(member_id)
    if request.generation_id != current.epoch:
        raise ApiError(ErrorCode.illegal_generation)
    protocols = member.classic.protocols if member.classic else ()
    if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (None, protocols[0][0]):
        raise ApiError(ErrorCode.inconsistent_group_protocol)
    if group.epoch > current.epoch and current.state is not MemberState.UNREVOKED_PARTITIONS:
        _await_join(shard, group, member_id)
        raise ApiError(ErrorCode.rebalance_in_progress)
    membership.meet(shard, group, member_id, context)
    shard.timers.cancel(sync_timer(group.id, member_id))
    membership.arm_session(shard, group, member_id)
    assignment = conversion.assignment_bytes(shard, member, [*current.assigned])
    response = SyncGroupResponse(protocol_type=PROTOCOL_TYPE, protocol_name=protocols[0][0], assignment=assignment)
    shard.reply_when_durable(token, request, response)


def heartbeat(shard: Shard, group: ConsumerGroup, request: Heartbeat, context: Context, token: Token) -> None:
    """Keep the member alive, and reply whether it has to join again. Raises ApiError."""
    member_id = request.member_id
    _check_member(group, member_id, request.group_instance_id)
    current = group.assignment_of(member_id)
    if request.generation_id != current.epoch:
        raise ApiError(ErrorCode.illegal_generation)
    membership.meet(shard, group, member_id, context)
    membership.arm_session(shard, group, member_id)
    epochs.take_account(shard, group, None, member_id)
    may_go_on = current.state is MemberState.UNRELEASED_PARTITIONS and not _is_waiting(group, member_id)
    moving = current.epoch < group.epoch or current.state is MemberState.UNREVOKED_PARTITIONS or may_go_on
    if moving:
        _await_join(shard, group, member_id)
    error = ErrorCode.rebalance_in_progress if moving else ErrorCode.none
    shard.reply_when_durable(token, request, HeartbeatResponse(error_code=error))


def leave(shard: Shard, group: ConsumerGroup, request: LeaveGroup, context: Context, token: Token) -> None:
    """Remove the members that the request names, whichever protocol they have.

    The response has the member ids of the request, as Kafka's: an empty one, if the instance id names the member.
    """
    results: list[LeftMember] = []
    gone: dict[MemberId, str | None] = {}
    for leaving in request.members:
        try:
            gone.setdefault(_leaver(group, leaving), leaving.reason)
            error = ErrorCode.none
        except ApiError as refused:
            error = refused.error
        results.append(
            LeftMember(member_id=leaving.member_id, group_instance_id=leaving.group_instance_id, error_code=error)
        )
    if gone:
        departure.remove(shard, group, gone, left_by=context)
    shard.reply_when_durable(token, request, LeaveGroupResponse(members=tuple(results)))


def _check_protocols(group: ConsumerGroup, request: JoinGroup) -> None:
    """Check that the member offers a protocol that all others with the classic protocol have."""
    offered = [name for name, _ in request.protocols]
    if request.protocol_type != PROTOCOL_TYPE or not group.supports(offered, request.member_id):
        raise ApiError(ErrorCode.inconsistent_group_protocol)


def _identify(shard: Shard, group: ConsumerGroup, request: JoinGroup) -> tuple[bool, MemberId | None, MemberId]:
    """Whether the member is new, which one it replaces, and its id. Raises ApiError."""
    instance_id, member_id = request.group_instance_id, request.member_id
    if instance_id is None:
        return member_id not in group.members, None, member_id
    if member_id:
        membership.check_static(group, member_id, instance_id)
        return False, None, member_id
    new_id, old_id = MemberId(shard.new_id()), group.static_members.get(instance_id)
    if old_id is not None:
        membership.replace_member(shard, group, old_id, new_id)
    return old_id is None, old_id, new_id


def _subscription(request: JoinGroup) -> Subscription:
    try:
        return read_subscription(request.protocols[0][1])
    except CorruptRecord as error:
        raise ApiError(ErrorCode.inconsistent_group_protocol) from error


def _owned(shard: Shard, subscription: Subscription) -> frozenset[TopicIdPartition]:
    topics = shard.topics.by_name
    return frozenset((topics[name].topic_id, index) for name, index in subscription.owned if name in topics)


def _write_member(
    shard: Shard,
    group: ConsumerGroup,
    member_id: MemberId,
    request: JoinGroup,
    subscription: Subscription,
    context: Context,
) -> bool:
    """Write what is new about the member. Whether its subscription has changed.

    It has no regular expression: the client could not use what one matches, and would join again without end.
    """
    before = group.members.get(member_id)
    known = before or MemberMetadata(client_id="", client_host="", instance_id=request.group_instance_id)
    member = replace(
        known,
        rack_id=known.rack_id if subscription.rack is None else subscription.rack,
        client_id=context.client_id or "",
        client_host=f"/{context.host}",
        topics=tuple(sorted(subscription.topics)),
        regex="",
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        classic=ClassicMember(session_timeout_ms=request.session_timeout_ms, protocols=request.protocols),
    )
    membership.put_member(shard, group.id, member_id, member)
    membership.drop_regexes(shard, group, (known.regex,))
    return member.topics != known.topics or bool(known.regex) or before is None


def _check_member(group: ConsumerGroup, member_id: MemberId, instance_id: str | None) -> MemberMetadata:
    """Return the member that sent a request of the classic protocol. Raises ApiError."""
    if instance_id is not None:
        membership.check_static(group, member_id, instance_id)
    member = group.members.get(member_id)
    if member is None or member.classic is None:
        raise ApiError(ErrorCode.unknown_member_id)
    return member


def _is_waiting(group: ConsumerGroup, member_id: MemberId) -> bool:
    """Whether another member still holds a partition that this one should get."""
    return any(group.holders.get(one, member_id) != member_id for one in group.target_of(member_id))


def _await_join(shard: Shard, group: ConsumerGroup, member_id: MemberId) -> None:
    timer = join_timer(group.id, member_id)
    if shard.timers.get(timer) is None:
        shard.timers.set(timer, shard.now_ms + max(0, group.members[member_id].rebalance_timeout_ms))


def _leaver(group: ConsumerGroup, leaving: LeavingMember) -> MemberId:
    """Return the id of the member that leaves. Raises ApiError."""
    member_id, instance_id = leaving.member_id, leaving.group_instance_id
    if not member_id and instance_id is not None:
        member_id = group.static_members.get(instance_id, member_id)
    if instance_id is not None:
        membership.check_static(group, member_id, instance_id)
    if member_id not in group.members:
        raise ApiError(ErrorCode.unknown_member_id)
    return member_id
