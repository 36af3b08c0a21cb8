"""Resources of the cases: names and addresses of their own, topics with records, running teams."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from benchmarks.attribution.consumer import OFFSET_FETCH, Consumer, Member, Nobody, Reading, Simple, Team
from benchmarks.attribution.muster import GATEWAYS, Muster
from benchmarks.attribution.world import OFFSET_COMMIT, Link, committed
from muster.gateway.attribution.one_to_one import pair_after_ms

PARTITIONS = 6
BATCH_BYTES = 4_000
_READING = Reading(interval_s=0.1, fetch_bytes=2 * BATCH_BYTES)
_FEED_S = 0.1
_POLL_S = 0.05
_READ_S = 120.0


@dataclass(frozen=True, slots=True)
class Scale:
    batches: int
    """In each partition, which is read to its end."""
    pairs: int
    """Number of pairs of groups that may be confused."""
    groups: int
    members: int
    rounds: int
    """Repetitions of what the case does to Muster or to the clients."""
    outage_s: float
    """Duration of ZooKeeper's outage."""
    pending_s: float
    """attribution.pending.ms."""
    lanes: int
    """Number of lanes; in each, groups come and go one after another."""
    turns: int

    @property
    def paired_s(self) -> float:
        """Time without better evidence after which connections are paired with groups; with a margin."""
        return pair_after_ms(int(self.pending_s * 1000)) / 1000 + 3.0


QUICK = Scale(batches=30, pairs=2, groups=4, members=3, rounds=2, outage_s=8, pending_s=15, lanes=4, turns=4)
FULL = Scale(batches=120, pairs=4, groups=8, members=4, rounds=5, outage_s=60, pending_s=60, lanes=8, turns=6)


class Stage:
    """One running case. All its topics and groups begin with ``prefix``; its addresses are 127.<number>.x.y."""

    def __init__(self, muster: Muster, scale: Scale, prefix: str, number: int) -> None:
        self.muster = muster
        self.world = muster.world
        self.scale = scale
        self.prefix = prefix
        self._hosts = (f"127.{number}.{high}.{low}" for high in itertools.count() for low in range(1, 255))
        self._topics = itertools.count(1)
        self.teams: list[Team] = []
        self._consumers: list[Consumer] = []

    def host(self) -> str:
        """Return an unused address."""
        return next(self._hosts)

    async def look_at(self, team: Team, host: str, client_id: str) -> None:
        """Send OffsetFetch for the group as a tool does, on a connection of its own."""
        link = await self._of_coordinator(team, host, client_id)
        topics = [{"name": team.topic, "partition_indexes": list(team.partitions)}]
        await link.call(OFFSET_FETCH, {"group_id": team.name, "topics": topics, "require_stable": False})
        link.close()

    async def set_offsets(self, team: Team, host: str, client_id: str, offset: int) -> None:
        """Commit that offset of all its partitions as a tool does, on a connection of its own."""
        link = await self._of_coordinator(team, host, client_id)
        offsets = {(team.topic, partition): offset for partition in team.partitions}
        body = {"group_id": team.name, "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
        await link.call(OFFSET_COMMIT, {**body, "topics": committed(offsets)})
        link.close()

    async def _of_coordinator(self, team: Team, host: str, client_id: str) -> Link:
        assert team.name is not None
        link = await self.world.link(None, host, client_id)
        gateway = None
        async with asyncio.timeout(_READ_S):
            while gateway is None:
                await asyncio.sleep(_POLL_S)
                gateway = await link.find_coordinator(team.name)
        link.close()
        return await self.world.link(gateway, host, client_id)

    async def topic(self, partitions: int = PARTITIONS, batches: int | None = None) -> str:
        """Create a topic with that many batches in each partition; by default the number of the scale."""
        name = await self.world.create(f"{self.prefix}topic-{next(self._topics)}", partitions)
        await self.world.produce(name, range(partitions), batches or self.scale.batches, BATCH_BYTES)
        return name

    async def shared_topic(self) -> tuple[str, list[int], list[int]]:
        """Create a topic, and choose the partitions of two consumers: each gateway has shared ones, and one for each
        alone."""
        while True:
            topic = f"{self.prefix}topic-{next(self._topics)}"
            await self.world.create(topic, GATEWAYS * 4)
            led: dict[int, list[int]] = {}
            for (_, partition), gateway in sorted((await self.world.leaders([topic])).items()):
                led.setdefault(gateway, []).append(partition)
            if len(led) == GATEWAYS and min(map(len, led.values())) > 2:
                break
        await self.world.produce(topic, range(GATEWAYS * 4), self.scale.batches, BATCH_BYTES)
        one = [partition for partitions in led.values() for partition in (partitions[0], *partitions[2:])]
        other = [partition for partitions in led.values() for partition in partitions[1:]]
        return topic, sorted(one), sorted(other)

    def team(
        self, name: str | None, topic: str, partitions: Sequence[int] | None = None, *, share: float = 0.0
    ) -> Team:
        """Return a group, or None, without committed offsets, which starts at that share of the records."""
        partitions = range(PARTITIONS) if partitions is None else partitions
        first = {partition: int(self.world.ends.get((topic, partition), 0) * share) for partition in partitions}
        team = Team(name and self.prefix + name, topic, partitions, first)
        self.teams.append(team)
        return team

    async def begin_at(self, team: Team, share: float) -> None:
        """Commit for the group as if it had already read that share of its partitions."""
        assert team.name is not None
        places = [(team.topic, partition) for partition in team.partitions]
        await self.world.commit(team.name, {place: int(self.world.ends[place] * share) for place in places})

    def member(self, team: Team, host: str, client_id: str | None) -> Member:
        consumer = Member(self.world, team, host, client_id, _READING)
        self._consumers.append(consumer)
        return consumer

    def simple(
        self, team: Team, host: str, client_id: str | None, partitions: Sequence[int], *, from_committed: bool
    ) -> Simple:
        consumer = Simple(self.world, team, host, client_id, _READING, partitions, from_committed=from_committed)
        self._consumers.append(consumer)
        return consumer

    def nobody(self, team: Team, host: str, client_id: str | None) -> Nobody:
        consumer = Nobody(self.world, team, host, client_id, _READING, team.partitions)
        self._consumers.append(consumer)
        return consumer

    async def read_all(self) -> None:
        """Start all consumers, read to the end, and stop them."""
        async with self.working():
            pass

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Run all consumers inside the block; after it, everything is read and all are stopped."""
        for consumer in self._consumers:
            consumer.start()
        try:
            async with asyncio.timeout(_READ_S):
                while not all(team.positions for team in self.teams):
                    await self._look()
            yield
            async with asyncio.timeout(_READ_S):
                while not all(team.has_read(self.world.ends) for team in self.teams):
                    await self._look()
        finally:
            await asyncio.gather(*(consumer.stop() for consumer in self._consumers))

    async def _look(self) -> None:
        """Wait a moment; raises the error that ended a consumer, if any."""
        await asyncio.sleep(_POLL_S)
        for consumer in self._consumers:
            consumer.check()

    @asynccontextmanager
    async def feeding(self) -> AsyncIterator[None]:
        """Produce records to all topics continuously inside the block."""
        topics: Mapping[str, set[int]] = {team.topic: set() for team in self.teams}
        for team in self.teams:
            topics[team.topic].update(team.partitions)

        async def feed() -> None:
            while True:
                for topic, partitions in topics.items():
                    await self.world.produce(topic, sorted(partitions), 1, BATCH_BYTES)
                await asyncio.sleep(_FEED_S)

        feeding = asyncio.get_running_loop().create_task(feed())
        try:
            yield
        finally:
            feeding.cancel()
            with suppress(asyncio.CancelledError):
                await feeding

    def reconnect(self, every: int = 1, first: int = 0) -> None:
        """Let every ``every``-th consumer close its connections and open new ones."""
        for consumer in self._consumers[first::every]:
            consumer.reconnect()

    async def begins(self, team: Team) -> None:
        """Wait until the team reads."""
        async with asyncio.timeout(_READ_S):
            while not team.positions:
                await self._look()

    async def goes_on(self, team: Team) -> None:
        """Wait until the team has read more of every partition."""
        before = dict(team.positions)
        places = [(team.topic, partition) for partition in team.partitions]
        async with asyncio.timeout(_READ_S):
            while not all(team.positions.get(place, 0) > before.get(place, 0) for place in places):
                await self._look()

    async def has_read(self, team: Team) -> None:
        """Wait until the team has read to the end."""
        async with asyncio.timeout(_READ_S):
            while not team.has_read(self.world.ends):
                await self._look()

    async def has_gone(self, team: Team) -> None:
        """Wait until the team has read to the end, and let all its consumers leave."""
        await self.has_read(team)
        for consumer in list(team.consumers):
            await self.go(consumer)

    async def go(self, consumer: Consumer) -> None:
        """Stop the consumer and remove it from the stage."""
        self._consumers.remove(consumer)
        await consumer.stop()
