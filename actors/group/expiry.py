"""Expires offsets that were not used for ``offsets.retention.minutes``, and groups that have nothing left (KIP-211).

A partition with a pending offset, of a transaction that has not ended, keeps its committed one, and keeps its group.
"""

from __future__ import annotations

from muster.actors.group.apis.admin import remove_group
from muster.actors.group.codec.consumer_protocol import PROTOCOL_TYPE
from muster.actors.group.codec.records import NO_TIMESTAMP, CommittedOffset
from muster.actors.group.events import OffsetsExpired
from muster.actors.group.shard import Shard
from muster.actors.group.state import Group, GroupState
from muster.actors.group.timers import TimerKind, TimerName

EXPIRY_TIMER = TimerName(TimerKind.EXPIRY)


def arm_expiry(shard: Shard) -> None:
    shard.timers.set(EXPIRY_TIMER, shard.now_ms + shard.config.offsets_retention_check_interval_ms)


def on_expiry(shard: Shard) -> None:
    """Check all groups, and again after an interval."""
    for group in [*shard.groups.values()]:
        _expire(shard, group)
    arm_expiry(shard)


def _expire(shard: Shard, group: Group) -> None:
    pending = shard.hard.pending.of_group(group.id)
    expired = [
        partition
        for partition, offset in shard.hard.offsets(group.id).items()
        if partition not in pending and _may_expire(group, partition[0]) and _is_expired(shard, group, offset)
    ]
    removed = shard.append_offset_tombstones(group.id, expired)
    if removed:
        event = OffsetsExpired(group=group.id, partitions=removed)
        shard.follow(lambda: shard.report(event), lambda error: None)
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
    if offset.expire_timestamp_ms is not None:
        return shard.now_ms >= offset.expire_timestamp_ms
    base_ms = offset.commit_timestamp_ms
    if not group.is_simple and group.state is GroupState.EMPTY and group.state_since_ms != NO_TIMESTAMP:
        base_ms = group.state_since_ms
    return shard.now_ms - base_ms >= shard.config.offsets_retention_ms
