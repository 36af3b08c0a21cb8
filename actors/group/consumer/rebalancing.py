"""The uniform assignor for members with different subscriptions: give out what is free, then even out the loads."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from muster.actors.group.codec.consumer_records import TopicIdPartition
from muster.actors.group.types import MemberId

MAX_PASSES = 16
"""As in Kafka: after so many rounds over all topics the loads are even enough."""


def balance(
    kept: Mapping[MemberId, set[TopicIdPartition]],
    subscribers: Mapping[UUID, list[MemberId]],
    partitions: Mapping[UUID, int],
) -> dict[MemberId, frozenset[TopicIdPartition]]:
    """``kept``: what each member may keep, without duplicates; ``subscribers``: of each topic, in order."""
    given = {member_id: set(mine) for member_id, mine in kept.items()}
    topics = sorted(
        subscribers,
        key=lambda topic: (-partitions[topic] / len(subscribers[topic]), len(subscribers[topic]), topic),
    )
    taken = {one for mine in given.values() for one in mine}
    for topic in topics:
        for index in range(partitions[topic]):
            if (topic, index) not in taken:
                least = min(subscribers[topic], key=lambda each: len(given[each]))
                given[least].add((topic, index))
    for _ in range(MAX_PASSES):
        moves = sum(_even_out(topic, subscribers[topic], given) for topic in topics)
        if not moves:
            break
    return {member_id: frozenset(mine) for member_id, mine in given.items()}


def _even_out(topic: UUID, subscribers: list[MemberId], given: dict[MemberId, set[TopicIdPartition]]) -> int:
    """Move partitions of the topic from members with many partitions to members with few. How many were moved."""
    moves = 0
    while True:
        holders = [each for each in subscribers if any(one[0] == topic for one in given[each])]
        least = min(subscribers, key=lambda each: len(given[each]))
        most = max(holders, key=lambda each: len(given[each]), default=least)
        if len(given[most]) - len(given[least]) < 2:
            return moves
        moving = max(one for one in given[most] if one[0] == topic)
        given[most].remove(moving)
        given[least].add(moving)
        moves += 1
