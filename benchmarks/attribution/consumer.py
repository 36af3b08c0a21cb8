"""Consumers that use connections as the libraries do: one for the group, others for fetches."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from benchmarks.attribution.world import OFFSET_COMMIT, Link, World, committed
from benchmarks.members import HEARTBEAT, JOIN_GROUP, PROTOCOL, SYNC_GROUP, assignment, subscription
from muster.actors.group.codec.consumer_protocol import assigned_partitions
from muster.actors.wire.kafka.codec import ErrorCode
from tests.attribution.truth import Group, Place
from tests.raw_client import Lost

FETCH, OFFSET_FETCH, LEAVE_GROUP = (1, 12), (9, 7), (13, 4)
HEARTBEAT_S = 0.5
"""Also the interval of offset commits. Like all intervals here, shorter than in production."""
_SESSION_MS, _REBALANCE_MS = 30_000, 30_000
_MAX_WAIT_MS = 250
_MAX_BYTES = 8 << 20
_RETRY_S = 0.2
_LAST_COMMIT_S = 60
_COMES_BACK = (ErrorCode.rebalance_in_progress, ErrorCode.illegal_generation, ErrorCode.unknown_member_id)


class RetriableError(Exception):
    """Error of the coordinator after which a request may be repeated."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Speed at which a consumer reads."""

    interval_s: float
    """Pause between a response and the next request on the same connection."""
    fetch_bytes: int
    """max.partition.fetch.bytes."""


class Team:
    """The consumers of one group, all of which read one topic.

    ``first`` has the start offsets of partitions without a committed offset. The leader assigns ``partitions`` in turn.
    """

    def __init__(
        self, name: Group, topic: str, partitions: Sequence[int], first: Mapping[int, int] | None = None
    ) -> None:
        self.name = name
        self.topic = topic
        self.partitions = tuple(partitions)
        self.positions: dict[Place, int] = {}
        """Position of the group in each partition."""
        self.first = dict(first or {})
        self.consumers: list[Consumer] = []

    def assign(self, members: Sequence[str]) -> dict[str, list[int]]:
        ordered = sorted(members)
        return {member: list(self.partitions[number :: len(ordered)]) for number, member in enumerate(ordered)}

    def has_read(self, ends: Mapping[Place, int]) -> bool:
        """Return whether the group has read everything that was produced to its partitions."""
        places = [(self.topic, partition) for partition in self.partitions]
        return all(self.positions.get(place, 0) >= ends.get(place, 0) for place in places)


class Consumer:
    """One process: an address, a client id, a group. :meth:`start` it, and :meth:`stop` it."""

    def __init__(self, world: World, team: Team, host: str, client_id: str | None, reading: Reading) -> None:
        self._world = world
        self._team = team
        self._host = host
        self._client_id = client_id
        self._reading = reading
        self._positions: dict[Place, int] = {}
        self.connects_each = False
        """Whether each partition has a connection of its own, as in kafka-go."""
        self._fetch_links: dict[tuple[int, Place | None], Link] = {}
        self._fetching: asyncio.Task[None] | None = None
        self._resting = asyncio.Event()
        self._stopping = asyncio.Event()
        self._reconnects = False
        self._task: asyncio.Task[None] | None = None
        self._bootstrap: Link | None = None
        self._coordinator: Link | None = None
        team.consumers.append(self)
        for partition in team.partitions:
            world.truth.expect(team.name, (team.topic, partition))

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    def check(self) -> None:
        """Raise the error that ended the consumer, if any."""
        if self._task is not None and self._task.done():
            self._task.result()

    async def stop(self) -> None:
        """Leave the group and close all connections. Raises the error that ended the consumer before, if any."""
        self._stopping.set()
        if self._task is not None:
            await self._task

    def reconnect(self) -> None:
        """Close and reopen every connection, as after a network fault; membership and positions stay."""
        self._reconnects = True

    async def _heed(self) -> None:
        """Reconnect if that was requested. Only called between requests of the group."""
        if self._reconnects:
            self._reconnects = False
            was_fetching = self._fetching is not None
            await self._rest()
            self._close_links()
            if was_fetching:
                self._go_on()

    async def _run(self) -> None:
        try:
            await self._work()
        finally:
            await self._rest()
            self._close_links()

    async def _work(self) -> None:
        """Work until the consumer is stopped."""
        raise NotImplementedError

    def _begin(self, positions: Mapping[Place, int]) -> None:
        self._positions = dict(positions)
        self._go_on()

    def _go_on(self) -> None:
        self._resting.clear()
        self._fetching = asyncio.get_running_loop().create_task(self._fetch())

    async def _rest(self) -> None:
        """Stop fetching, after the responses under way have arrived."""
        fetching, self._fetching = self._fetching, None
        if fetching is not None:
            self._resting.set()
            await fetching

    def _close_links(self) -> None:
        links = [*self._fetch_links.values(), self._bootstrap, self._coordinator]
        self._fetch_links, self._bootstrap, self._coordinator = {}, None, None
        for link in links:
            if link is not None:
                link.close()

    async def _fetch(self) -> None:
        """Fetch from all leaders in parallel; start over when one of the connections is lost."""
        while not self._resting.is_set() and self._positions:
            led: dict[tuple[int, Place | None], list[Place]] = {}
            leaders = await self._world.leaders(topic for topic, _ in self._positions)
            for place in self._positions.keys() & leaders.keys():
                led.setdefault((leaders[place], place if self.connects_each else None), []).append(place)
            again = asyncio.Event()
            await asyncio.gather(*(self._fetch_from(each, sorted(places), again) for each, places in led.items()))
            if not self._resting.is_set():
                await asyncio.sleep(_RETRY_S)

    async def _fetch_from(self, which: tuple[int, Place | None], places: list[Place], again: asyncio.Event) -> None:
        try:
            link = self._fetch_links.get(which)
            if link is None or link.is_lost:
                link = self._fetch_links[which] = await self._world.link(which[0], self._host, self._client_id)
            while not (self._resting.is_set() or again.is_set()):
                async with self._world.gate:
                    response = await link.call(FETCH, self._fetch_body(places))
                if not self._take(link, response):
                    await asyncio.sleep(_RETRY_S)
                    again.set()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._resting.wait(), self._reading.interval_s)
        except (Lost, OSError):
            again.set()

    def _fetch_body(self, places: list[Place]) -> dict[str, Any]:
        partitions = [
            {
                "partition": place[1],
                "fetch_offset": self._positions[place],
                "partition_max_bytes": self._reading.fetch_bytes,
            }
            for place in places
        ]
        return {
            "max_wait": _MAX_WAIT_MS,
            "min_bytes": 1,
            "max_bytes": _MAX_BYTES,
            "topics": [{"topic": self._team.topic, "partitions": partitions}],
            "forgotten_topics_data": [],
        }

    def _take(self, link: Link, response: Any) -> bool:
        """Take the records of a response. Return whether every partition was answered without an error."""
        errors = False
        for topic in response.responses:
            for item in topic.partitions:
                place = (str(topic.topic), int(item.partition_index))
                errors |= item.error_code is not ErrorCode.none
                if item.records:
                    position = link.received(self._team.name, place, item.records)
                    self._positions[place] = position
                    self._team.positions[place] = max(self._team.positions.get(place, 0), position)
        return not errors

    async def _coordination(self) -> Link:
        """Return the link to the coordinator, looked up over another connection if there is none.

        Raises Lost, OSError or RetriableError.
        """
        assert self._team.name is not None
        if self._coordinator is None or self._coordinator.is_lost:
            if self._bootstrap is None or self._bootstrap.is_lost:
                self._bootstrap = await self._world.link(None, self._host, self._client_id)
            gateway = await self._bootstrap.find_coordinator(self._team.name)
            if gateway is None:
                raise RetriableError("FindCoordinator")
            self._coordinator = await self._world.link(gateway, self._host, self._client_id)
        return self._coordinator

    async def _committed(self, places: Sequence[Place]) -> dict[Place, int]:
        """Start offsets: the committed ones, else the team's. Raises the same as :meth:`_coordination`."""
        link = await self._coordination()
        topics = [{"name": self._team.topic, "partition_indexes": [partition for _, partition in places]}]
        response = await link.call(
            OFFSET_FETCH, {"group_id": self._team.name, "topics": topics, "require_stable": False}
        )
        found = {
            (self._team.topic, item.partition_index): item for topic in response.topics for item in topic.partitions
        }
        if response.error_code is not ErrorCode.none or any(item.error_code for item in found.values()):
            raise RetriableError("OffsetFetch")
        offsets = {place: int(item.committed_offset) for place, item in found.items()}
        return {
            place: offset if offset >= 0 else self._team.first.get(place[1], 0) for place, offset in offsets.items()
        }

    async def _commit(self, identity: Mapping[str, Any]) -> ErrorCode:
        """Commit all positions. Raises the same as :meth:`_coordination`."""
        if not self._positions:
            return ErrorCode.none
        link = await self._coordination()
        response = await link.call(OFFSET_COMMIT, {**identity, "topics": committed(self._positions)})
        return next(
            (p.error_code for topic in response.topics for p in topic.partitions if p.error_code), ErrorCode.none
        )

    async def _wait(self, duration_s: float) -> None:
        """Wait that long, or until the consumer is stopped."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), duration_s)


class Member(Consumer):
    """``subscribe()``: a member of the group, with an eager assignor."""

    def __init__(self, world: World, team: Team, host: str, client_id: str | None, reading: Reading) -> None:
        super().__init__(world, team, host, client_id, reading)
        self._id = ""
        self._generation = -1

    async def _work(self) -> None:
        while not self._stopping.is_set():
            try:
                await self._join()
                while not self._stopping.is_set() and await self._stays():
                    await self._wait(HEARTBEAT_S)
                    await self._heed()
            except (Lost, OSError, RetriableError):
                await self._wait(_RETRY_S)
        await self._leave()

    async def _join(self) -> None:
        """Join until the group is stable, then start to fetch. Raises the same as :meth:`_coordination`."""
        await self._rest()
        link = await self._coordination()
        joined = await link.call(JOIN_GROUP, self._join_body())
        self._id = joined.member_id
        if joined.error_code is ErrorCode.member_id_required:
            joined = await link.call(JOIN_GROUP, self._join_body())
        self._check("JoinGroup", joined.error_code)
        self._generation = joined.generation_id
        assignments = []
        if joined.leader == joined.member_id:
            dealt = self._team.assign([member.member_id for member in joined.members])
            assignments = [
                {"member_id": member, "assignment": assignment(self._team.topic, partitions, 0)}
                for member, partitions in dealt.items()
            ]
        kind = {"protocol_type": "consumer", "protocol_name": PROTOCOL}
        synced = await link.call(SYNC_GROUP, {**self._identity(), **kind, "assignments": assignments})
        self._check("SyncGroup", synced.error_code)
        places = sorted(assigned_partitions(synced.assignment) or ())
        self._begin(await self._committed(places) if places else {})

    async def _stays(self) -> bool:
        """Heartbeat and commit; return whether it is still a member of that generation."""
        try:
            beaten = await (await self._coordination()).call(HEARTBEAT, self._identity())
            error = beaten.error_code
            if error in (ErrorCode.none, ErrorCode.rebalance_in_progress):
                if error is not ErrorCode.none:
                    await self._rest()
                error = await self._commit(self._commit_identity()) or error
        except (Lost, OSError, RetriableError):
            return True
        if error is ErrorCode.not_coordinator and self._coordinator is not None:
            self._coordinator.close()
            self._coordinator = None
        if error in (ErrorCode.unknown_member_id, ErrorCode.illegal_generation):
            self._id = "" if error is ErrorCode.unknown_member_id else self._id
        return error not in _COMES_BACK

    async def _leave(self) -> None:
        await self._rest()
        with suppress(Lost, OSError, RetriableError):
            await self._commit(self._commit_identity())
            who = [{"member_id": self._id, "group_instance_id": None}]
            await (await self._coordination()).call(LEAVE_GROUP, {"group_id": self._team.name, "members": who})

    def _check(self, what: str, error: ErrorCode) -> None:
        if error is ErrorCode.unknown_member_id:
            self._id = ""
        if error is ErrorCode.not_coordinator and self._coordinator is not None:
            self._coordinator.close()
            self._coordinator = None
        if error is not ErrorCode.none:
            raise RetriableError(f"{what} {error.name}")

    def _identity(self) -> dict[str, Any]:
        return {
            "group_id": self._team.name,
            "generation_id": self._generation,
            "member_id": self._id,
            "group_instance_id": None,
        }

    def _commit_identity(self) -> dict[str, Any]:
        identity = self._identity()
        return {**identity, "generation_id_or_member_epoch": identity.pop("generation_id")}

    def _join_body(self) -> dict[str, Any]:
        return {
            "group_id": self._team.name,
            "session_timeout": _SESSION_MS,
            "rebalance_timeout": _REBALANCE_MS,
            "member_id": self._id,
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": PROTOCOL, "metadata": subscription(self._team.topic, 0)}],
            "reason": None,
        }


class Simple(Consumer):
    """``assign()`` with a group id: reads committed offsets, commits, is never a member."""

    def __init__(
        self,
        world: World,
        team: Team,
        host: str,
        client_id: str | None,
        reading: Reading,
        partitions: Sequence[int],
        *,
        from_committed: bool = True,
    ) -> None:
        """Join ``team``. ``from_committed``: start at the committed offsets, not at the team's."""
        super().__init__(world, team, host, client_id, reading)
        self._places = [(self._team.topic, partition) for partition in partitions]
        self._from_committed = from_committed

    async def _work(self) -> None:
        begun = False
        while not self._stopping.is_set():
            try:
                if not begun:
                    first = {place: self._team.first.get(place[1], 0) for place in self._places}
                    self._begin(await self._committed(self._places) if self._from_committed else first)
                    begun = True
            except (Lost, OSError, RetriableError):
                pass
            await self._commits()
            await self._wait(HEARTBEAT_S)
            await self._heed()
        await self._rest()
        async with asyncio.timeout(_LAST_COMMIT_S):
            await self._commit_at_last()

    async def _commit_at_last(self) -> None:
        """Commit until one commit succeeds: without it, nothing on the wire names the group."""
        while True:
            if await self._commits():
                return
            await asyncio.sleep(_RETRY_S)

    async def _commits(self) -> bool:
        """Commit; return whether the coordinator accepted it. It may have just been started for this group."""
        try:
            error = await self._commit(self._identity())
        except (Lost, OSError, RetriableError):
            return False
        if error is ErrorCode.not_coordinator and self._coordinator is not None:
            self._coordinator.close()
            self._coordinator = None
        return error is ErrorCode.none

    def _identity(self) -> dict[str, Any]:
        none = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
        return {"group_id": self._team.name, **none}


class Nobody(Simple):
    """``assign()`` and ``seek()`` without a commit: nothing on the wire names a group."""

    async def _work(self) -> None:
        self._begin({place: self._team.first.get(place[1], 0) for place in self._places})
        await self._stopping.wait()
