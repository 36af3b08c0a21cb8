"""Server-side assignors of consumer groups: ``uniform`` and ``range``, as Kafka's, which ignore racks.

An assignor gives every partition of a topic with subscribers to exactly one of them, and no member a partition of a
topic that it does not subscribe to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from uuid import UUID

from muster.actors.group.codec.consumer_records import TopicIdPartition
from muster.actors.group.consumer.rebalancing import balance
from muster.actors.group.types import MemberId

Assignment = dict[MemberId, frozenset[TopicIdPartition]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignee:
    """A member, as assignors see it."""

    member_id: MemberId
    instance_id: str | None = None
    topics: frozenset[UUID]
    """Topics that it subscribes to and that exist."""
    target: frozenset[TopicIdPartition] = field(default=frozenset())
    """Target assignment until now."""


def assign(name: str, members: Iterable[Assignee], partitions: Mapping[UUID, int]) -> Assignment:
    """Return the partitions of every member, by the assignor of that name. ``partitions``: the count of each topic."""
    return ASSIGNORS[name]([*members], partitions)


def preferred(wanted: Iterable[str | None], assignors: tuple[str, ...]) -> str:
    """Return the assignor that most members want; the first configured one if no member wants any."""
    votes = Counter(name for name in wanted if name in assignors)
    return max(assignors, key=lambda name: (votes[name], -assignors.index(name)))


def assign_range(members: list[Assignee], partitions: Mapping[UUID, int]) -> Assignment:
    """Give the subscribers of each topic ranges of its partitions: static members first, then by member id."""
    given: dict[MemberId, set[TopicIdPartition]] = {member.member_id: set() for member in members}
    ordered = sorted(members, key=lambda each: (each.instance_id is None, each.instance_id or "", each.member_id))
    for topic, subscribers in _subscribers(ordered).items():
        quota, extra = divmod(partitions[topic], len(subscribers))
        start = 0
        for position, member in enumerate(subscribers):
            end = start + quota + (position < extra)
            given[member.member_id].update((topic, index) for index in range(start, end))
            start = end
    return {member_id: frozenset(mine) for member_id, mine in given.items()}


def assign_uniform(members: list[Assignee], partitions: Mapping[UUID, int]) -> Assignment:
    """Assign as evenly as subscriptions allow, with as few moves as possible."""
    ordered = sorted(members, key=lambda member: member.member_id)
    if len({member.topics for member in ordered}) <= 1:
        return _assign_alike(ordered, partitions)
    kept = {
        member.member_id: {one for one in member.target if _is_valid(one, member, partitions)} for member in ordered
    }
    subscribers = {topic: [each.member_id for each in mine] for topic, mine in _subscribers(ordered).items()}
    return balance(kept, subscribers, partitions)


def _assign_alike(members: list[Assignee], partitions: Mapping[UUID, int]) -> Assignment:
    """All members subscribe to the same topics. Those that have one partition more than others keep it."""
    topics = sorted(members[0].topics) if members else []
    every = [(topic, index) for topic in topics for index in range(partitions[topic])]
    quota, extras = divmod(len(every), len(members)) if members else (0, 0)
    given: dict[MemberId, list[TopicIdPartition]] = {}
    room: list[tuple[MemberId, int]] = []
    for position, member in enumerate(members):
        mine = sorted(one for one in member.target if _is_valid(one, member, partitions))
        others_may = len(members) - position > extras
        limit = quota + (extras > 0 and (len(mine) > quota or not others_may))
        extras -= limit > quota
        given[member.member_id] = mine[:limit]
        room.append((member.member_id, limit - len(mine[:limit])))
    free = iter(_freed(every, members, given))
    for member_id, count in room:
        given[member_id] += islice(free, count)
    return {member_id: frozenset(mine) for member_id, mine in given.items()}


def _freed(
    every: list[TopicIdPartition], members: list[Assignee], given: Mapping[MemberId, Iterable[TopicIdPartition]]
) -> list[TopicIdPartition]:
    """Partitions that no member has: those that none had before come first."""
    taken = {one for mine in given.values() for one in mine}
    had = {one for member in members for one in member.target}
    free = [one for one in every if one not in taken]
    return [one for one in free if one not in had] + [one for one in free if one in had]


def _is_valid(partition: TopicIdPartition, member: Assignee, partitions: Mapping[UUID, int]) -> bool:
    topic, index = partition
    return topic in member.topics and index < partitions[topic]


def _subscribers(members: list[Assignee]) -> dict[UUID, list[Assignee]]:
    """Who subscribes to each topic, in the order of the members; topics in order of their ids."""
    topics: dict[UUID, list[Assignee]] = {}
    for member in members:
        for topic in member.topics:
            topics.setdefault(topic, []).append(member)
    return dict(sorted(topics.items()))


ASSIGNORS: Mapping[str, Callable[[list[Assignee], Mapping[UUID, int]], Assignment]] = {
    "uniform": assign_uniform,
    "range": assign_range,
}
