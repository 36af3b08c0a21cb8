"""Consumers that assign partitions themselves. Without membership they are known by their requests, and expire."""

from __future__ import annotations

from collections.abc import Iterable

from muster.actors.group.registry import simple_member_id
from muster.actors.group.shard import Shard
from muster.actors.group.timers import TimerKind, TimerName
from muster.actors.group.types import GroupId
from muster.placement.client import Context


def saw_simple(shard: Shard, group: GroupId, context: Context, partitions: Iterable[tuple[str, int]]) -> None:
    """The client has just used the group's offsets of these partitions."""
    shard.say(shard.registry.seen(group, context, partitions))
    name = TimerName(TimerKind.SIMPLE, group, simple_member_id(context))
    shard.timers.set(name, shard.now_ms + shard.config.attribution_simple_ttl_ms)


def on_simple_deadline(shard: Shard, group: GroupId, member_id: str) -> None:
    """The client has not been seen for ``attribution_simple_ttl_ms``."""
    shard.say(shard.registry.gone(group, member_id))


def withdraw_all(shard: Shard, group: GroupId) -> None:
    """The group was removed."""
    for member_id in shard.registry.members_of(group):
        shard.timers.cancel(TimerName(TimerKind.SIMPLE, group, member_id))
        shard.say(shard.registry.gone(group, member_id))
