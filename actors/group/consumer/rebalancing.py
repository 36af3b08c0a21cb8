"""The uniform assignor for members with different subscriptions: give out what is free, then even out the loads."""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Mapping
from heapq import heapify, heappop, heappush, heapreplace
from uuid import UUID

from muster.actors.group.codec.consumer_records import TopicIdPartition
from muster.actors.group.types import MemberId

MAX_PASSES = 16
"""Rounds over all topics, after which the loads are even enough; Kafka has the same number."""

Holders = defaultdict[MemberId, list[int]]
"""The partitions of one topic that each member has, sorted."""
Loads = dict[MemberId, int]
"""How many partitions each member has, of all topics."""


def balance(
    kept: Mapping[MemberId, set[TopicIdPartition]],
    subscribers: Mapping[UUID, list[MemberId]],
    partitions: Mapping[UUID, int],
) -> dict[MemberId, frozenset[TopicIdPartition]]:
    """``kept``: what each member may keep, without duplicates; ``subscribers``: of each topic, in order."""
    topics = sorted(
        subscribers,
        key=lambda topic: (-partitions[topic] / len(subscribers[topic]), len(subscribers[topic]), topic),
    )
    loads = {member_id: len(mine) for member_id, mine in kept.items()}
    holders = {topic: Holders(list) for topic in topics}
    for member_id, mine in kept.items():
        for topic, index in mine:
            insort(holders[topic][member_id], index)
    for topic in topics:
        _give_out(partitions[topic], subscribers[topic], holders[topic], loads)
    for _ in range(MAX_PASSES):
        moves = sum(_even_out(subscribers[topic], holders[topic], loads) for topic in topics)
        if not moves:
            break
    given: dict[MemberId, set[TopicIdPartition]] = {member_id: set() for member_id in kept}
    for topic in topics:
        for member_id, indexes in holders[topic].items():
            given[member_id].update((topic, index) for index in indexes)
    return {member_id: frozenset(mine) for member_id, mine in given.items()}


def _give_out(count: int, subscribers: list[MemberId], holders: Holders, loads: Loads) -> None:
    """Give the partitions of a topic that no subscriber has to the subscribers with the fewest partitions."""
    taken = {index for indexes in holders.values() for index in indexes}
    least = [(loads[each], position) for position, each in enumerate(subscribers)]
    heapify(least)
    for index in range(count):
        if index not in taken:
            load, position = least[0]
            heapreplace(least, (load + 1, position))
            insort(holders[subscribers[position]], index)
            loads[subscribers[position]] += 1


def _even_out(subscribers: list[MemberId], holders: Holders, loads: Loads) -> int:
    """Move partitions of a topic from members with many partitions to members with few. How many were moved.

    An entry of a heap is outdated if its member has another number of partitions now.
    """
    least = [(loads[each], position) for position, each in enumerate(subscribers)]
    most = [(-loads[each], position) for position, each in enumerate(subscribers) if holders[each]]
    heapify(least)
    heapify(most)
    moves = 0
    while most:
        (low, to), (high, source) = least[0], most[0]
        taker, giver = subscribers[to], subscribers[source]
        if low != loads[taker]:
            heappop(least)
        elif -high != loads[giver] or not holders[giver]:
            heappop(most)
        elif -high - low < 2:
            break
        else:
            insort(holders[taker], holders[giver].pop())
            for member_id, position, change in ((taker, to, 1), (giver, source, -1)):
                loads[member_id] += change
                heappush(least, (loads[member_id], position))
                heappush(most, (-loads[member_id], position))
            moves += 1
    return moves
