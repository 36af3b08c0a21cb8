"""Expires offsets that were not used for ``offsets.retention.minutes``, and groups that have nothing left (KIP-211).

A partition with a pending offset, of a transaction that has not ended, keeps its committed one, and keeps its group.
"""

from __future__ import annotations

from muster.actors.group.apis.admin import remove_consumer_group, remove_group
from muster.actors.group.codec.consumer_protocol import PROTOCOL_TYPE
from muster.actors.group.codec.records import NO_TIMESTAMP, CommittedOffset
from muster.actors.group.consumer.state import ConsumerGroup
from muster.actors.group.events import OffsetsExpired
from muster.actors.group.hard import TopicPartition
from muster.actors.group.shard import Shard
from muster.actors.group.state import Group, GroupState
from muster.actors.group.timers import TimerKind, TimerName
from muster.actors.group.types import GroupId

EXPIRY_TIMER = TimerName(TimerKind.EXPIRY)


def arm_expiry(shard: Shard) -> None:
    shard.timers.set(EXPIRY_TIMER, shard.now_ms + shard.config.offsets_retention_check_interval_ms)


def on_expiry(shard: Shard) -> None:
    """Check all groups, and again after an interval."""
    for group in [*shard.groups.values()]:
        _expire(shard, group)
    for consumer in [*shard.hard.consumer_groups.values()]:
        _expire_consumer(shard, consumer)
    arm_expiry(shard)


def _expire_consumer(shard: Shard, group: ConsumerGroup) -> None:
    """Expire a consumer group's offsets of topics that no member subscribes to; they count from their commit."""
    subscribed, pending = group.subscribed_topics(), shard.hard.pending.of_group(group.id)
    expired = [
        partition
        for partition, offset in shard.hard.offsets(group.id).items()
        if partition not in pending
        and partition[0] not in subscribed
        and _is_old(shard, offset, offset.commit_timestamp_ms)
    ]
    _remove_expired(shard, group.id, expired)
    if not group.members and not shard.hard.has_offsets(group.id):
        remove_consumer_group(shard, group)


def _remove_expired(shard: Shard, group: GroupId, expired: list[TopicPartition]) -> None:
    removed = shard.append_offset_tombstones(group, expired)
    if removed:
        event = OffsetsExpired(group=group, partitions=removed)
        shard.follow(lambda: shard.report(event), lambda error: None)


def _expire(shard: Shard, group: Group) -> None:
    pending = shard.hard.pending.of_group(group.id)
    expired = [
        partition
        for partition, offset in shard.hard.offsets(group.id).items()
        if partition not in pending and _may_expire(group, partition[0]) and _is_expired(shard, group, offset)
    ]
    _remove_expired(shard, group.id, expired)
    if group.state is GroupState.EMPTY and not shard.hard.has_offsets(group.id):
        remove_group(shard, group)


def _may_expire(group: Group, topic: str) -> bool:
    """Whether no member of the group needs the topic's offsets now."""
    if group.is_simple or group.state is GroupState.EMPTY:
        return True
    return (
        group.protocol_type == PROTOCOL_TYPE
        and group.state is GroupState.STABLE
        and group.subscribed_topics is not None
        and topic not in group.subscribed_topics
    )


def _is_expired(shard: Shard, group: Group, offset: CommittedOffset) -> bool:
    base_ms = offset.commit_timestamp_ms
    if not group.is_simple and group.state is GroupState.EMPTY and group.state_since_ms != NO_TIMESTAMP:
        base_ms = group.state_since_ms
    return _is_old(shard, offset, base_ms)


def _is_old(shard: Shard, offset: CommittedOffset, base_ms: int) -> bool:
    if offset.expire_timestamp_ms is not None:
        return shard.now_ms >= offset.expire_timestamp_ms
    return shard.now_ms - base_ms >= shard.config.offsets_retention_ms
