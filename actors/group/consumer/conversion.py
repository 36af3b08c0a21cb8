"""Classic groups that become consumer groups, and back. Offsets stay. The rules are those of KIP-848, "Migration".

A group without members is converted by the first request of the other protocol; one with members if
``group.consumer.migration.policy`` allows it. Members with the classic protocol stay members of a consumer group, until
they have another client.
"""

from __future__ import annotations

from collections.abc import Collection

from kio.schema.errors import ErrorCode

from muster.actors.group import rebalance
from muster.actors.group.codec.consumer_protocol import (
    PROTOCOL_TYPE,
    Subscription,
    read_assignment,
    read_subscription,
    write_assignment,
)
from muster.actors.group.codec.consumer_records import (
    ClassicMember,
    ConsumerRecord,
    CurrentAssignment,
    GroupEpoch,
    MemberMetadata,
    Target,
    TargetEpoch,
    TopicIdPartition,
)
from muster.actors.group.consumer import epochs, membership
from muster.actors.group.consumer.state import ConsumerGroup
from muster.actors.group.consumer.timers import revocation_timer, timers_of
from muster.actors.group.errors import ApiError, CorruptRecord
from muster.actors.group.events import Cause, GroupConverted, GroupType, RebalanceAborted
from muster.actors.group.membership import fail_parked, forget_group
from muster.actors.group.messages import ConsumerGroupHeartbeat
from muster.actors.group.shard import Shard
from muster.actors.group.state import Group, GroupState, Member, restored
from muster.actors.group.types import GroupId, MemberId
from muster.actors.group.watchdog import in_rebalance, settled, unsettled, watch_consumers

_UPGRADE = ("upgrade", "bidirectional")
_DOWNGRADE = ("downgrade", "bidirectional")


def begin_upgrade(shard: Shard, request: ConsumerGroupHeartbeat) -> Group | None:
    """Write the records of the consumer group that a classic one becomes. The classic group, if there is one; ApiError.

    ``finish_upgrade`` must follow once nothing is left that may refuse the request.
    """
    group_id = request.group_id
    if shard.consumer_group(group_id) is not None:
        return None
    classic = shard.groups.get(group_id)
    if request.member_epoch:
        text = (
            f"Consumer group {group_id} not found." if classic is None else f"Group {group_id} is not a consumer group."
        )
        raise ApiError(ErrorCode.group_id_not_found, message=text)
    if classic is None:
        return None
    if classic.state is GroupState.EMPTY:
        if group_id in shard.hard.groups:
            shard.append_group(classic, None)
    else:
        _check_upgrade(shard, classic)
        _write_upgrade(shard, classic)
        group = shard.hard.consumer_groups[group_id]
        held = {each: epochs.named(shard, group.assignment_of(each).assigned) for each in group.members}
        assignments = tuple((group.who(each), mine) for each, mine in held.items())
        shard.report(GroupConverted(group=group_id, to=GroupType.CONSUMER, assignments=assignments))
    return classic


def finish_upgrade(shard: Shard, classic: Group) -> None:
    """Forget the classic group: requests that wait have to be repeated."""
    group_id = classic.id
    classic.revoke()
    if in_rebalance(classic):
        shard.report(RebalanceAborted(group=group_id))
    fail_parked(shard, classic, ErrorCode.rebalance_in_progress)
    forget_group(shard, classic)
    group = shard.hard.consumer_groups[group_id]
    watch_consumers(shard, group)
    for member in classic.members.values():
        if member.context is not None:
            group.contexts[member.id] = member.context
        if member.id in group.members:
            membership.arm_session(shard, group, member.id)
            assigned = epochs.named(shard, group.assignment_of(member.id).assigned)
            shard.say(shard.registry.reconciled(group, member.id, assigned))

    def failed(error: ErrorCode) -> None:
        _bring_back(shard, classic)

    shard.follow(lambda: None, failed)


def _bring_back(shard: Shard, classic: Group) -> None:
    """Restore the classic group from its record: the consumer group could not be written."""
    group = shard.groups[classic.id] = restored(classic.id, shard.hard.groups.get(classic.id))
    for member in group.members.values():
        shard.timers.cancel(revocation_timer(group.id, member.id))
        shard.arm_session(group, member)
    for member_id in classic.members:
        if member_id not in group.members:  # it was joining, and has to join again
            for timer in timers_of(group.id, member_id):
                shard.timers.cancel(timer)
            shard.say(shard.registry.gone(group.id, member_id))


def _check_upgrade(shard: Shard, classic: Group) -> None:
    reason = None
    if shard.config.group_consumer_migration_policy not in _UPGRADE:
        reason = "online upgrade is disabled"
    elif classic.protocol_type != PROTOCOL_TYPE:
        reason = "the group does not use the consumer embedded protocol"
    elif len(classic.members) > shard.config.group_consumer_max_size:
        reason = "the group size exceeds the consumer group maximum size"
    if reason is not None:
        raise _not_upgraded(classic, reason)


def _not_upgraded(classic: Group, reason: str) -> ApiError:
    message = f"Cannot upgrade classic group {classic.id} to consumer group because {reason}."
    return ApiError(ErrorCode.group_id_not_found, message=message)


def _write_upgrade(shard: Shard, classic: Group) -> None:
    """Every member has what it had, at the epoch that was its generation."""
    try:
        subscriptions = {each.id: read_subscription(_metadata(classic, each)) for each in classic.members.values()}
        assigned = {each.id: read_assignment(each.assignment) for each in classic.members.values()}
        _check_first_protocols(classic)
    except CorruptRecord as error:
        raise _not_upgraded(classic, "the embedded consumer protocol is malformed") from error
    append, group_id, epoch = shard.append_consumer, classic.id, classic.generation
    if group_id in shard.hard.groups:
        shard.append_group(classic, None)
    for member in classic.members.values():
        metadata = _member_record(member, subscriptions[member.id])
        append(group_id, ConsumerRecord.MEMBER_METADATA, metadata, member.id)
    topics = frozenset[str]().union(*(each.topics for each in subscriptions.values()))
    append(group_id, ConsumerRecord.METADATA, GroupEpoch(epoch=epoch, metadata_hash=shard.topics.hash_of(topics)))
    shares = _shares(shard, assigned)
    for member_id, share in shares.items():
        append(group_id, ConsumerRecord.TARGET_ASSIGNMENT_MEMBER, Target(share), member_id)
    append(group_id, ConsumerRecord.TARGET_ASSIGNMENT_METADATA, TargetEpoch(epoch=epoch))
    for member_id, share in shares.items():
        current = CurrentAssignment(
            epoch=epoch, previous_epoch=epoch, assigned=dict.fromkeys(share, epoch), revoking={}
        )
        append(group_id, ConsumerRecord.CURRENT_MEMBER_ASSIGNMENT, current, member_id)


def _check_first_protocols(classic: Group) -> None:
    """Whether the members can join a consumer group again, which reads their first protocol. Raises CorruptRecord.

    Kafka does not check this, and refuses their next JoinGroup.
    """
    for member in classic.members.values():
        for _, metadata in member.protocols[:1]:
            read_subscription(metadata)


def _metadata(classic: Group, member: Member) -> bytes:
    """Return the subscription for the group's protocol; for the member's first one while no protocol was selected."""
    return member.metadata(classic.protocol) or next((metadata for _, metadata in member.protocols), b"")


def _member_record(member: Member, subscription: Subscription) -> MemberMetadata:
    return MemberMetadata(
        instance_id=member.group_instance_id,
        rack_id=subscription.rack,
        client_id=member.client_id or "",
        client_host=f"/{member.client_host}",
        topics=tuple(sorted(subscription.topics)),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMember(session_timeout_ms=member.session_timeout_ms, protocols=member.protocols),
    )


def _shares(
    shard: Shard, assigned: dict[MemberId, frozenset[tuple[str, int]]]
) -> dict[MemberId, frozenset[TopicIdPartition]]:
    """Return the members' partitions of existing topics. One that a leader gave to several stays with the first."""
    by_name = shard.topics.by_name
    taken: set[TopicIdPartition] = set()
    shares: dict[MemberId, frozenset[TopicIdPartition]] = {}
    for member_id, partitions in assigned.items():
        share = {(by_name[topic].topic_id, index) for topic, index in partitions if topic in by_name} - taken
        taken |= share
        shares[member_id] = frozenset(share)
    return shares


def may_downgrade(shard: Shard, group: ConsumerGroup, gone: Collection[MemberId]) -> bool:
    """Whether the group becomes a classic one when these members are gone: the others have that protocol."""
    return (
        group.is_classic_without(gone)
        and shard.config.group_consumer_migration_policy in _DOWNGRADE
        and len(group.members) - len(gone) <= shard.config.group_max_size
    )


def downgrade(shard: Shard, group: ConsumerGroup, gone: Collection[MemberId], *, rebalance_now: bool) -> None:
    """Make it a classic group of the other members, Stable with their target assignment, or about to rebalance."""
    group_id = group.id
    settled(shard, group)
    classic = _classic(shard, group, gone)
    held = {each.id: epochs.named(shard, group.target_of(each.id)) for each in classic.members.values()}
    write_tombstones(shard, group)
    shard.append_group(classic, classic.snapshot(classic.assignments()))
    shard.groups[group_id] = classic
    for member in classic.members.values():
        for timer in timers_of(group_id, member.id):
            shard.timers.cancel(timer)
        shard.arm_session(classic, member)
        shard.say(shard.registry.assigned(classic, member))

    def failed(error: ErrorCode) -> None:
        fail_parked(shard, classic, ErrorCode.rebalance_in_progress)
        forget_group(shard, classic)
        group = shard.consumer_group(group_id)
        for member_id in classic.members:
            if group is None or member_id not in group.members:  # it was joining, and has to join again
                shard.say(shard.registry.gone(group_id, member_id))

    shard.follow(lambda: None, failed)
    assignments = tuple((each.who, held[each.id]) for each in classic.members.values())
    shard.report(GroupConverted(group=group_id, to=GroupType.CLASSIC, assignments=assignments))
    if rebalance_now:
        rebalance.prepare(shard, classic, Cause.MEMBER_LEFT)


def downgrade_empty(shard: Shard, group: ConsumerGroup) -> None:
    """Remove a group without members, for a classic group that takes its place."""
    write_tombstones(shard, group)
    shard.report(GroupConverted(group=group.id, to=GroupType.CLASSIC, assignments=()))


def _classic(shard: Shard, group: ConsumerGroup, gone: Collection[MemberId]) -> Group:
    classic = Group(
        id=group.id,
        state=GroupState.STABLE,
        state_since_ms=shard.now_ms,
        generation=group.epoch,
        protocol_type=PROTOCOL_TYPE,
    )
    for member_id, member in group.members.items():
        if member_id in gone or member.classic is None:
            continue
        classic.add(
            Member(
                id=member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host.removeprefix("/"),
                session_timeout_ms=member.classic.session_timeout_ms,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                protocols=member.classic.protocols,
                assignment=assignment_bytes(shard, member, group.target_of(member_id)),
                context=group.contexts.get(member_id),
            )
        )
    classic.protocol = classic.select_protocol()
    classic.compute_subscribed_topics()
    return classic


def assignment_bytes(shard: Shard, member: MemberMetadata, partitions: Collection[TopicIdPartition]) -> bytes:
    """Return the assignment for SyncGroup of a member with the classic protocol, in the version of its subscription.

    Version 0 if that is unreadable: the record may be of a Kafka broker.
    """
    protocols = member.classic.protocols if member.classic else ()
    try:
        version = read_subscription(protocols[0][1]).version if protocols else 0
    except CorruptRecord:
        version = 0
    return write_assignment(epochs.named(shard, partitions), version)


def write_tombstones(shard: Shard, group: ConsumerGroup) -> None:
    """Remove every record of the group."""
    append, group_id = shard.append_consumer, group.id
    members, targets, current, regexes = [*group.members], [*group.targets], [*group.current], [*group.regexes]
    for member_id in current:
        append(group_id, ConsumerRecord.CURRENT_MEMBER_ASSIGNMENT, None, member_id)
    for member_id in targets:
        append(group_id, ConsumerRecord.TARGET_ASSIGNMENT_MEMBER, None, member_id)
    append(group_id, ConsumerRecord.TARGET_ASSIGNMENT_METADATA, None)
    for member_id in members:
        append(group_id, ConsumerRecord.MEMBER_METADATA, None, member_id)
    for regex in regexes:
        append(group_id, ConsumerRecord.REGULAR_EXPRESSION, None, regex)
    append(group_id, ConsumerRecord.PARTITION_METADATA, None)
    append(group_id, ConsumerRecord.METADATA, None)


def restore(shard: Shard, group_id: GroupId) -> None:
    """Every member of a group gets a full session, and time to give up partitions.

    For groups that were read from the log, and for those whose last changes could not be written: the timers and
    registrations of the members may be those of what was undone.
    """
    group = shard.hard.consumer_groups[group_id]
    if not group.is_settled():
        unsettled(shard, group)
    for member_id, member in group.members.items():
        for timer in timers_of(group_id, member_id):
            shard.timers.cancel(timer)
        membership.arm_session(shard, group, member_id)
        current = group.assignment_of(member_id)
        if current.revoking:
            shard.timers.set(revocation_timer(group_id, member_id), shard.now_ms + max(0, member.rebalance_timeout_ms))
        held = epochs.named(shard, [*current.assigned, *current.revoking])
        shard.say(shard.registry.reconciled(group, member_id, held))
