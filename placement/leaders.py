"""Which gateway Metadata names as leader of which partition: dealt out like cards, per topic and in sum.

A leader is a hint, since every gateway serves every request. What it decides is where clients connect, so a gateway
with too many of them is busy while others rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

Leaders = Mapping[UUID, tuple[int, ...]]
"""Of each topic, by id: the gateway of each partition, by broker id. Empty without gateways."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitions:
    """A topic, as far as it matters here."""

    topic_id: UUID
    owners: Sequence[str | None]
    """Of each partition: the node where its log is served; None where that is not known."""


def deal(gateways: Mapping[int, str], topics: Sequence[Partitions], before: Leaders) -> Leaders:
    """Who leads what now, after ``before``. ``gateways``: the node of each, by broker id.

    Of a topic's partitions no gateway has two more than another, and of all partitions neither. What this leaves open
    is decided so that leaders change as little as can be, a new topic changes none of the others; and so that as many
    partitions as this allows are led on the node where their log is served. Within a topic that comes before who led
    it: leaders follow a log that moves.
    """
    if not gateways:
        return {topic.topic_id: () for topic in topics}
    tables = [_Topic(topic, gateways, before.get(topic.topic_id, ())) for topic in topics]
    tables.sort(key=lambda table: table.topic_id.int)
    load = Counter(dict.fromkeys(gateways, 0))
    for table in tables:
        table.choose(load)
        load.update(table.extra)
    _even_out(tables, load)
    return {table.topic_id: table.leaders() for table in tables}


class _Topic:
    """One topic: every gateway gets ``base`` of its partitions, and those in ``extra`` one more."""

    def __init__(self, topic: Partitions, gateways: Mapping[int, str], before: Sequence[int]) -> None:
        self.topic_id = topic.topic_id
        self.extra: set[int] = set()
        self._gateways = gateways
        self._owners = topic.owners
        self._before = [*before[: len(topic.owners)], *[-1] * (len(topic.owners) - len(before))]
        self._pairs = Counter(zip(self._before, topic.owners, strict=True))
        self._led: Counter[int] = Counter()
        owned: Counter[str | None] = Counter()
        for (gateway, node), count in self._pairs.items():
            self._led[gateway] += count
            owned[node] += count
        self._owned = owned
        self._base, self._extras = divmod(len(topic.owners), len(gateways))
        sharing = Counter(gateways.values())
        self._near = {gateway: owned[node] / sharing[node] for gateway, node in gateways.items()}

    def choose(self, load: Mapping[int, int]) -> None:
        """Decide on ``extra``: who had one keeps it, then whose node has most of the logs, then who has least."""

        def rank(gateway: int) -> tuple[int, float, int, int]:
            kept = min(self._led[gateway], self._base + 1)
            return -kept, -self._near[gateway], load[gateway], gateway

        self.extra = set(sorted(self._gateways, key=rank)[: self._extras])

    def cost(self, source: int, target: int) -> tuple[bool, float, int]:
        """Of passing the extra partition on: that a leader changes is worse than that it is on another node."""
        return self._led[source] > self._base, self._near[source] - self._near[target], self.topic_id.int

    def leaders(self) -> tuple[int, ...]:
        """The leader of each partition."""
        room = {gateway: self._base + (gateway in self.extra) for gateway in self._gateways}
        return tuple(self._before) if self._is_good(room) else self._deal(room)

    def _is_good(self, room: Mapping[int, int]) -> bool:
        """Whether who led before has that many, and as many as can be on the node of their log."""
        if any(self._led[gateway] != count for gateway, count in room.items()):
            return False
        rooms: Counter[str] = Counter()
        for gateway, node in self._gateways.items():
            rooms[node] += room[gateway]
        near = sum(count for (gateway, node), count in self._pairs.items() if self._gateways[gateway] == node)
        return near == sum(min(count, self._owned[node]) for node, count in rooms.items())

    def _deal(self, room: dict[int, int]) -> tuple[int, ...]:
        on: dict[str, list[int]] = {}
        for gateway, node in self._gateways.items():
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
        take([list(self._gateways)] * len(near))
        return tuple(found[partition] for partition in range(len(near)))


def _even_out(topics: Sequence[_Topic], load: Counter[int]) -> None:
    """Pass extra partitions on until no gateway has two more than another.

    While one gateway has more than another there is a topic of which the first has an extra partition and the other
    has none; so this ends, and with as few steps as there are partitions too many.
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
