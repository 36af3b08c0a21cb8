"""Consumers that assign partitions themselves. Without membership they are known by their commits, and expire.

OffsetFetch shows nothing of a client: tools send it for groups that others consume for, as exporters of lag do.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.actors.group.events import CommittedPartition
from muster.actors.group.registry import simple_member_id
from muster.actors.group.shard import Shard
from muster.actors.group.timers import TimerKind, TimerName
from muster.actors.group.types import GroupId
from muster.placement.client import Context


def saw_commit(shard: Shard, group: GroupId, context: Context, committed: Iterable[CommittedPartition]) -> None:
    """Register a client that has committed these offsets and is no member.

    Those that go beyond what the group had committed show that it was sent records.
    """
    committed = list(committed)
    shard.say(shard.registry.seen(group, context, [(topic, index) for topic, index, _, _ in committed]))
    positions = tuple(
        (topic, index, offset)
        for topic, index, before, offset in committed
        if offset > (-1 if before is None else before)
    )
    if positions:
        shard.say(shard.registry.committed(group, context, positions, shard.now_ms))
    name = TimerName(TimerKind.SIMPLE, group, simple_member_id(context))
    shard.timers.set(name, shard.now_ms + shard.config.attribution_simple_ttl_ms)


def on_simple_deadline(shard: Shard, group: GroupId, member_id: str) -> None:
    """Withdraw a client that has not committed for ``attribution_simple_ttl_ms``."""
    shard.say(shard.registry.gone(group, member_id))


def withdraw_all(shard: Shard, group: GroupId) -> None:
    """Withdraw all clients of a group that was removed."""
    for member_id in shard.registry.members_of(group):
        shard.timers.cancel(TimerName(TimerKind.SIMPLE, group, member_id))
        shard.say(shard.registry.gone(group, member_id))
