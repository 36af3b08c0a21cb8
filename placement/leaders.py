"""Which gateways Metadata names as leader and as replicas of a partition.

A leader is a hint, since every gateway serves every request. It decides where clients connect, so a gateway that leads
too many partitions is busy while others are idle: leaders are spread evenly, per topic and in total.

Replicas only distribute the consumers of other racks than the leader's, so that they find a gateway in their own
(KIP-392). Each rack has a replica, if the replication factor allows, and the leaders of a rack have theirs on different
gateways of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol
from uuid import UUID

Leaders = Mapping[UUID, tuple[int, ...]]
"""By topic id: the gateway of each partition, by broker id. Empty without gateways."""

_HANDS = 4096
"""The size of the cache: among a thousand topics, a hundred or two differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitions:
    """The properties of a topic that matter here."""

    topic_id: UUID
    owners: tuple[str | None, ...]
    """For each partition: the node where its log is served; None if unknown."""


def deal(gateways: Mapping[int, str], topics: Sequence[Partitions], before: Leaders) -> Leaders:
    """Return the new leaders, given those ``before``. ``gateways``: the node of each, by broker id.

    No gateway has two more of a topic's partitions than another, nor two more of all partitions. Within these bounds,
    leaders change as little as possible (a new topic changes none of the others), and as many partitions as possible
    are led on the node where their log is served. Within a topic, the latter takes precedence over the previous
    leaders: leaders follow a log that moves.
    """
    if not gateways:
        return {topic.topic_id: () for topic in topics}
    nodes = tuple(gateways.items())
    dealt = [_Topic(topic.topic_id, _hand(nodes, topic.owners, before.get(topic.topic_id, ()))) for topic in topics]
    load = Counter(dict.fromkeys(gateways, 0))
    for topic in dealt:
        for gateway in topic.extra:
            load[gateway] += 1
    for topic in sorted((topic for topic in dealt if not topic.hand.is_even), key=lambda topic: topic.topic_id.int):
        topic.choose(load)
        load.update(topic.extra)
    _even_out(dealt, load)
    return {topic.topic_id: topic.hand.leaders(topic.extra) for topic in dealt}


@lru_cache(maxsize=_HANDS)
def _hand(gateways: tuple[tuple[int, str], ...], owners: tuple[str | None, ...], before: tuple[int, ...]) -> _Hand:
    """Shared by all topics that are alike, and the same as long as nothing changes."""
    return _Hand(dict(gateways), owners, before)


class _Hand:
    """How the gateways share a topic: ``base`` of its partitions each, and one more for ``extras`` of the gateways.

    Immutable.
    """

    def __init__(self, gateways: Mapping[int, str], owners: tuple[str | None, ...], before: tuple[int, ...]) -> None:
        self.gateways = gateways
        self.base, self.extras = divmod(len(owners), len(gateways))
        self._owners = owners
        self._before = (*before, *[-1] * len(owners))[: len(owners)]
        self._pairs = Counter(zip(self._before, owners, strict=True))
        self.led: Counter[int] = Counter()
        self._owned: Counter[str | None] = Counter()
        for (gateway, node), count in self._pairs.items():
            self.led[gateway] += count
            self._owned[node] += count
        sharing = Counter(gateways.values())
        self.near = {gateway: self._owned[node] / sharing[node] for gateway, node in gateways.items()}
        self.more = frozenset(gateway for gateway in gateways if self.led[gateway] > self.base)
        """The gateways that have more than ``base``."""
        self.is_even = len(self.more) == self.extras and self._has(self._room(self.more))
        """Whether this topic alone requires no change: the gateways that have one more keep it."""
        self._leaders: dict[frozenset[int], tuple[int, ...]] = {}

    def leaders(self, extra: frozenset[int]) -> tuple[int, ...]:
        """Return the leader of each partition if these gateways get one more."""
        found = self._leaders.get(extra)
        if found is None:
            room = self._room(extra)
            found = self._leaders[extra] = self._before if self._is_good(room) else self._deal(room)
        return found

    def _room(self, extra: frozenset[int]) -> dict[int, int]:
        return {gateway: self.base + (gateway in extra) for gateway in self.gateways}

    def _has(self, room: Mapping[int, int]) -> bool:
        return all(self.led[gateway] == count for gateway, count in room.items())

    def _is_good(self, room: Mapping[int, int]) -> bool:
        """Whether the previous leaders have that many, and as many as possible are on the node of their log."""
        if not self._has(room):
            return False
        rooms: Counter[str] = Counter()
        for gateway, node in self.gateways.items():
            rooms[node] += room[gateway]
        near = sum(count for (gateway, node), count in self._pairs.items() if self.gateways[gateway] == node)
        return near == sum(min(count, self._owned[node]) for node, count in rooms.items())

    def _deal(self, room: dict[int, int]) -> tuple[int, ...]:
        on: dict[str, list[int]] = {}
        for gateway, node in self.gateways.items():
            on.setdefault(node, []).append(gateway)
        near = [on.get(owner, []) if owner is not None else [] for owner in self._owners]
        found: dict[int, int] = {}

        def take(choices: Sequence[Sequence[int]]) -> None:
            for partition, gateways in enumerate(choices):
                free = [gateway for gateway in gateways if room.get(gateway)]
                if partition not in found and free:
                    found[partition] = max(free, key=lambda gateway: room[gateway])
                    room[found[partition]] -= 1

        was = [[gateway] for gateway in self._before]
        take([[gateway for gateway in old if gateway in close] for old, close in zip(was, near, strict=True)])
        take(near)
        take(was)
        take([list(self.gateways)] * len(near))
        return tuple(found[partition] for partition in range(len(near)))


class _Topic:
    """A topic during the assignment: the gateways in ``extra`` get one more of its partitions than the others."""

    __slots__ = ("extra", "hand", "topic_id")

    def __init__(self, topic_id: UUID, hand: _Hand) -> None:
        self.topic_id = topic_id
        self.hand = hand
        self.extra = hand.more if hand.is_even else frozenset()

    def choose(self, load: Mapping[int, int]) -> None:
        """Choose ``extra``: first gateways that had one more, then by logs on their node, then by lowest load."""
        hand = self.hand

        def rank(gateway: int) -> tuple[int, float, int, int]:
            kept = min(hand.led[gateway], hand.base + 1)
            return -kept, -hand.near[gateway], load[gateway], gateway

        self.extra = frozenset(sorted(hand.gateways, key=rank)[: hand.extras])

    def cost(self, source: int, target: int) -> tuple[bool, float, int]:
        """Return the cost of moving the extra partition: a change of leader is worse than a leader on another node."""
        hand = self.hand
        return source in hand.more, hand.near[source] - hand.near[target], self.topic_id.int


def _even_out(topics: Sequence[_Topic], load: Counter[int]) -> None:
    """Move extra partitions until no gateway has two more than another.

    While one gateway has more than another, there is a topic of which the first has an extra partition and the other
    has none. This therefore terminates, in as few steps as there are surplus partitions.
    """
    share, left = divmod(load.total(), len(load))
    ranked = sorted(load, key=lambda gateway: (-load[gateway], gateway))
    wanted = {gateway: share + (place < left) for place, gateway in enumerate(ranked)}
    for source in ranked:
        for target in reversed(ranked):
            count = min(load[source] - wanted[source], wanted[target] - load[target])
            if count > 0:
                movable = [topic for topic in topics if source in topic.extra and target not in topic.extra]
                for topic in sorted(movable, key=lambda topic: topic.cost(source, target))[:count]:
                    topic.extra ^= {source, target}
                load[source] -= count
                load[target] += count


class HasRack(Protocol):
    @property
    def id(self) -> int: ...
    @property
    def rack(self) -> str | None: ...


def replicas(leader: HasRack, brokers: Sequence[HasRack]) -> list[int]:
    """Return the ids of all brokers, by preference: the leader, one of each other rack, then the next by id.

    ``brokers``: by id, the leader among them.
    """
    ids = [broker.id for broker in brokers]
    first = ids.index(leader.id)
    following = [*ids[first:], *ids[:first]]
    members: dict[str, list[int]] = {}
    for broker in brokers:
        if broker.rack is not None:
            members.setdefault(broker.rack, []).append(broker.id)
    peers = members.pop(leader.rack, ids) if leader.rack is not None else ids
    place = peers.index(leader.id)
    begin = next((rack for rack in sorted(members) if rack > (leader.rack or "")), "")
    racks = sorted(members, key=lambda rack: (rack < begin, rack))
    chosen = [leader.id, *(members[rack][place % len(members[rack])] for rack in racks)]
    return [*chosen, *(broker_id for broker_id in following if broker_id not in chosen)]
