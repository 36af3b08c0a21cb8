"""The three epochs of a consumer group: of its members and topics, of its target assignment, of what a member has.

Each of them is written as the group gets there: ``take_account`` for the first, ``assign_targets`` for the second,
``reconcile`` for the third, one member at a time.
"""

from __future__ import annotations

from collections.abc import Iterable

from kio.schema.errors import ErrorCode

from muster.actors.group import watchdog
from muster.actors.group.codec.consumer_records import (
    ConsumerRecord,
    GroupEpoch,
    MemberState,
    Target,
    TargetEpoch,
    TopicIdPartition,
)
from muster.actors.group.consumer.assignors import Assignee, assign, preferred
from muster.actors.group.consumer.reconciliation import Goal, UnknownMemberState, next_assignment
from muster.actors.group.consumer.state import ConsumerGroup, ConsumerGroupState
from muster.actors.group.consumer.timers import revocation_timer
from muster.actors.group.errors import ApiError
from muster.actors.group.events import Cause, GroupEpochRaised, MemberReconciled, TargetAssigned
from muster.actors.group.shard import Shard
from muster.actors.group.types import MemberId


def take_account(shard: Shard, group: ConsumerGroup, cause: Cause | None, member_id: MemberId) -> None:
    """Raise the group's epoch if its members have changed (``cause``), or the topics that they subscribe to."""
    if cause is None and group.seen_topics == shard.topics.version:
        return
    metadata_hash = shard.topics.hash_of(group.subscribed_topics())
    if cause is None and metadata_hash != group.metadata_hash:
        cause = Cause.TOPICS_CHANGED
    if cause is not None:
        raise_epoch(shard, group, cause, member_id, metadata_hash)
    group.seen_topics = shard.topics.version


def raise_epoch(
    shard: Shard, group: ConsumerGroup, cause: Cause, member_id: MemberId, metadata_hash: int | None = None
) -> None:
    """Raise the group's epoch; ``member_id`` caused it, if any did.

    That of the target assignment keeps up in a group without members (KAFKA-20442).
    """
    if metadata_hash is None:
        metadata_hash = shard.topics.hash_of(group.subscribed_topics())
    if group.has_partition_metadata:
        shard.append_consumer(group.id, ConsumerRecord.PARTITION_METADATA, None)
    from_state = _state_before(group).value
    record = GroupEpoch(epoch=group.epoch + 1, metadata_hash=metadata_hash)
    shard.append_consumer(group.id, ConsumerRecord.METADATA, record)
    if group.members:
        watchdog.unsettled(shard, group)
    else:
        # Without a time: the next member's assignment has no other to keep its distance from.
        nothing = TargetEpoch(epoch=record.epoch, timestamp_ms=0)
        shard.append_consumer(group.id, ConsumerRecord.TARGET_ASSIGNMENT_METADATA, nothing)
        watchdog.settled(shard, group)
    shard.report(
        GroupEpochRaised(
            group=group.id,
            epoch=record.epoch,
            cause=cause,
            triggered_by=group.who(member_id) if member_id in group.members else None,
            from_state=from_state,
            members=len(group.members),
        )
    )


def _state_before(group: ConsumerGroup) -> ConsumerGroupState:
    """Return the state before the change for which the epoch is raised; the members have changed already."""
    if group.unsettled_ms is not None:
        assigning = group.epoch > group.target_epoch
        return ConsumerGroupState.ASSIGNING if assigning else ConsumerGroupState.RECONCILING
    is_first = bool(group.members) and not group.targets
    return ConsumerGroupState.EMPTY if is_first else ConsumerGroupState.STABLE


def assign_targets(shard: Shard, group: ConsumerGroup) -> None:
    """Compute the target assignment of the group's epoch, unless the last one is too young."""
    if group.epoch <= group.target_epoch or not _is_due(shard, group):
        return
    topics = shard.topics
    members = [
        Assignee(
            member_id=member_id,
            instance_id=member.instance_id,
            topics=topics.ids_of(group.topics_of(member_id)),
            target=group.target_of(member_id),
        )
        for member_id, member in group.members.items()
    ]
    counts = {topic: topics.partitions_of(topic) for member in members for topic in member.topics}
    assignor = assignor_of(shard, group)
    targets = assign(assignor, members, counts)
    for member_id in sorted(group.members):
        target = Target(targets[member_id])
        if group.targets.get(member_id) != target:
            shard.append_consumer(group.id, ConsumerRecord.TARGET_ASSIGNMENT_MEMBER, target, member_id)
    record = TargetEpoch(epoch=group.epoch, timestamp_ms=shard.now_ms)
    shard.append_consumer(group.id, ConsumerRecord.TARGET_ASSIGNMENT_METADATA, record)
    shard.report(
        TargetAssigned(
            group=group.id,
            epoch=group.epoch,
            assignor=assignor,
            targets=tuple((group.who(each), named(shard, group.target_of(each))) for each in group.members),
        )
    )


def assignor_of(shard: Shard, group: ConsumerGroup) -> str:
    """Return the assignor that most members want."""
    return preferred((member.assignor for member in group.members.values()), shard.config.group_consumer_assignors)


def reconcile(
    shard: Shard,
    group: ConsumerGroup,
    member_id: MemberId,
    owned: frozenset[TopicIdPartition] | None,
    *,
    subscription_changed: bool,
) -> bool:
    """Move the member towards its target, as far as it can go now. Whether what it may use has changed.

    Raises ApiError.
    """
    current = group.assignment_of(member_id)
    if not subscription_changed and member_id in group.current and group.is_reconciled(member_id):
        return False
    target = group.target_of(member_id)
    goal = Goal(
        epoch=group.target_epoch,
        partitions=target,
        subscribed=shard.topics.ids_of(group.topics_of(member_id)),
        subscription_changed=subscription_changed,
    )
    taken = frozenset(one for one in target if group.holders.get(one, member_id) != member_id)
    try:
        following = next_assignment(current, goal, owned, taken)
    except UnknownMemberState as error:
        message = (
            "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin."
        )
        raise ApiError(ErrorCode.fenced_member_epoch, message=message) from error
    if following == current and member_id in group.current:
        return False
    shard.append_consumer(group.id, ConsumerRecord.CURRENT_MEMBER_ASSIGNMENT, following, member_id)
    timer = revocation_timer(group.id, member_id)
    if following.state is MemberState.UNREVOKED_PARTITIONS:
        shard.timers.set(timer, shard.now_ms + max(0, group.members[member_id].rebalance_timeout_ms))
    else:
        shard.timers.cancel(timer)
    _report(shard, group, member_id)
    return following.assigned.keys() != current.assigned.keys()


def _is_due(shard: Shard, group: ConsumerGroup) -> bool:
    """Whether the last target assignment is old enough (KIP-1263)."""
    interval_ms = shard.config.assignment_interval_ms(group.id)
    return not interval_ms or not group.assigned_at_ms or shard.now_ms >= group.assigned_at_ms + interval_ms


def _report(shard: Shard, group: ConsumerGroup, member_id: MemberId) -> None:
    """When the record is durable: the registration of the member, and the event."""
    current = group.assignment_of(member_id)
    event = MemberReconciled(
        group=group.id,
        member_id=member_id,
        epoch=current.epoch,
        partitions=named(shard, current.assigned),
        is_reconciled=group.is_reconciled(member_id),
        is_last=group.state() is ConsumerGroupState.STABLE,
        members=len(group.members),
    )
    if event.is_last:
        watchdog.settled(shard, group)

    register(shard, group, member_id, event)


def register(shard: Shard, group: ConsumerGroup, member_id: MemberId, event: MemberReconciled | None = None) -> None:
    """When the record is durable: what the member has, or still has to give up; and the event."""
    current = group.assignment_of(member_id)
    partitions = named(shard, [*current.assigned, *current.revoking])

    def written() -> None:
        # A group that was converted meanwhile has registered its members anew.
        if shard.consumer_group(group.id) is group and member_id in group.members:
            shard.say(shard.registry.reconciled(group, member_id, partitions))
            if event is not None:
                shard.report(event)

    shard.follow(written, lambda error: None)


def named(shard: Shard, partitions: Iterable[TopicIdPartition]) -> frozenset[tuple[str, int]]:
    """Return the partitions by the names of their topics, without those of deleted topics."""
    name_of = shard.topics.name_of
    return frozenset((name, index) for topic, index in partitions if (name := name_of(topic)) is not None)
