"""The gateways from the clients' side; next to them, KoP's rule on the same events, and the bytes really received."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from muster.actors.log.format.records import build_batch
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.batches import summarize
from tests.attribution.kop.kop_rule import KopRule, MemoryStore, java_address
from tests.attribution.truth import Books, Group, Place, Truth
from tests.raw_client import ApiVersion, Connection, Lost, open_connection

PRODUCE, METADATA, OFFSET_COMMIT, FIND_COORDINATOR, CREATE_TOPICS = (0, 9), (3, 9), (8, 8), (10, 4), (19, 7)
_SELF = "127.0.0.1"
"""Source address of the benchmark's own requests; no consumer uses it."""
_RETRY_S = 0.1
_GIVE_UP_S = 60.0
_AT_ONCE = 20
"""Concurrent Produce requests; each has one batch per partition, as the protocol requires."""


class Gate:
    """Fetches pass through the gate; inside :meth:`shut`, none is under way."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._passing = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def __aenter__(self) -> None:
        while not self._open.is_set():
            await self._open.wait()
        self._passing += 1
        self._idle.clear()

    async def __aexit__(self, *_: object) -> None:
        self._passing -= 1
        if not self._passing:
            self._idle.set()

    @asynccontextmanager
    async def shut(self) -> AsyncIterator[None]:
        self._open.clear()
        try:
            await self._idle.wait()
            yield
        finally:
            self._open.set()


class Link:
    """One connection of a client to one gateway, as KoP sees it too. Made by :meth:`World.link`."""

    def __init__(self, world: World, gateway: int, connection: Connection) -> None:
        self.gateway = gateway
        self._world = world
        self._connection = connection
        self._address = java_address(*connection.local_address)
        self._kop = world.kop_of(gateway)

    @property
    def is_lost(self) -> bool:
        return self._connection.is_lost

    async def call(self, api: ApiVersion, body: dict[str, Any]) -> Any:
        """Send a request and return the response. Lost, when the gateway closes the connection."""
        return await self._connection.call(api, body)

    async def find_coordinator(self, group: str) -> int | None:
        """Return the gateway that coordinates the group; None if that is unknown at the moment. Raises Lost."""
        self._kop.found_coordinator(self, self._address, self._connection.client_id, [group])
        response = await self.call(FIND_COORDINATOR, {"key_type": 0, "coordinator_keys": [group]})
        (found,) = response.coordinators
        return int(found.node_id) if found.error_code is ErrorCode.none else None

    def received(self, group: Group, place: Place, records: bytes) -> int:
        """Count the bytes of a Fetch response; return the offset to fetch next."""
        self._world.truth.receive(group, place, len(records))
        label = self._kop.label(self, self._address, self._connection.client_id)
        self._world.note_kop(label, place, len(records))
        return summarize((records,)).last_offset + 1

    def close(self) -> None:
        """Close from the client's side; nothing reaches a gateway that has ended."""
        if not self._connection.is_lost:
            self._connection.close()
            self._kop.closed(self)
            self._world.forget(self)


class World:
    """One Muster and all its clients. Addresses are ``host:port``."""

    def __init__(self, bootstrap: Sequence[str]) -> None:
        self.gate = Gate()
        self.truth = Truth()
        self.ends: dict[Place, int] = {}
        """The offset after the last produced record."""
        self.kop_books = Books()
        self.kop_store = MemoryStore()
        self._kop: dict[int, KopRule] = {}
        self._links: set[Link] = set()
        self._port_of: dict[int, int] = {}
        self._bootstrap = [int(address.rpartition(":")[2]) for address in bootstrap]
        self._host = bootstrap[0].rpartition(":")[0]
        self._own: Connection | None = None
        self._turn = itertools.count()

    @property
    def gateways(self) -> list[int]:
        """All broker ids seen so far."""
        return sorted(self._port_of)

    def kop_of(self, gateway: int) -> KopRule:
        return self._kop.setdefault(gateway, KopRule(self.kop_store))

    def note_kop(self, label: str, place: Place, size_bytes: int) -> None:
        """Count the bytes for KoP; it uses "" where it has no group."""
        if label:
            self.kop_books.groups[label, place] += size_bytes
        else:
            self.kop_books.reasons['group=""', place] += size_bytes

    def kop_dies(self, gateway: int, *, orderly: bool) -> None:
        """Tell KoP that the broker is about to end; only an orderly shutdown closes its connections, which deletes
        nodes."""
        if orderly:
            for link in [link for link in self._links if link.gateway == gateway and not link.is_lost]:
                self.kop_of(gateway).closed(link)
        self._kop[gateway] = KopRule(self.kop_store)

    async def link(self, gateway: int | None, local_host: str, client_id: str | None) -> Link:
        """Connect a client to that gateway, or to one of the bootstrap addresses. OSError."""
        if gateway is None:
            port = self._bootstrap[next(self._turn) % len(self._bootstrap)]
            gateway = next(each for each, its_port in self._port_of.items() if its_port == port)
        connection = await open_connection(
            self._host, self._port_of[gateway], client_id=client_id, local_host=local_host
        )
        self._links = {link for link in self._links if not link.is_lost}
        link = Link(self, gateway, connection)
        self._links.add(link)
        return link

    def forget(self, link: Link) -> None:
        """Forget a closed link."""
        self._links.discard(link)

    async def call(self, api: ApiVersion, body: dict[str, Any]) -> Any:
        """Send a request of the benchmark itself, to any live gateway."""
        async with asyncio.timeout(_GIVE_UP_S):
            while True:
                try:
                    if self._own is None or self._own.is_lost:
                        port = self._bootstrap[next(self._turn) % len(self._bootstrap)]
                        self._own = await open_connection(self._host, port, client_id="bench", local_host=_SELF)
                    return await self._own.call(api, body)
                except (Lost, OSError):
                    self._own = None
                    await asyncio.sleep(_RETRY_S)

    async def leaders(self, topics: Iterable[str]) -> dict[Place, int]:
        """Return the gateway that leads each partition of the topics."""
        response = await self.call(METADATA, {"topics": [{"name": name} for name in sorted(set(topics))], **_NO_EXTRAS})
        self._port_of.update((broker.node_id, broker.port) for broker in response.brokers)
        return {
            (topic.name, partition.partition_index): int(partition.leader_id)
            for topic in response.topics
            for partition in topic.partitions
            if partition.leader_id in self._port_of
        }

    async def create(self, name: str, partitions: int) -> str:
        """Create a topic, wait until all its partitions have a leader, and return its name."""
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": [], "configs": []}
        body = {"topics": [topic], "timeout": 10_000, "validate_only": False}
        async with asyncio.timeout(_GIVE_UP_S):
            while True:
                error = (await self.call(CREATE_TOPICS, body)).topics[0].error_code
                known = error in (ErrorCode.none, ErrorCode.topic_already_exists)
                if known and len(await self.leaders([name])) == partitions:
                    return name
                await asyncio.sleep(_RETRY_S)

    async def produce(self, topic: str, partitions: Iterable[int], batches: int, batch_bytes: int) -> None:
        """Append that many batches of one record to each partition, and update :attr:`ends`."""
        batch = bytes(build_batch([(None, bytes(batch_bytes))], round(time.time() * 1000), 0, -1))
        data = [{"index": partition, "records": batch} for partition in partitions]
        body = {"transactional_id": None, "acks": -1, "timeout": 10_000}
        request = {**body, "topic_data": [{"name": topic, "partition_data": data}]}
        for _ in range(0, batches, _AT_ONCE):
            responses = await asyncio.gather(*(self.call(PRODUCE, request) for _ in range(min(_AT_ONCE, batches))))
            for response in (each for found in responses for each in found.responses[0].partition_responses):
                place = (topic, response.index)
                if response.error_code is ErrorCode.none:
                    self.ends[place] = max(self.ends.get(place, 0), response.base_offset + 1)

    async def commit(self, group: str, offsets: Mapping[Place, int]) -> None:
        """Commit for a group without members, as an admin tool does."""
        body = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
        async with asyncio.timeout(_GIVE_UP_S):
            while True:
                response = await self.call(OFFSET_COMMIT, {**body, "topics": committed(offsets)})
                errors = {partition.error_code for topic in response.topics for partition in topic.partitions}
                if errors <= {ErrorCode.none}:
                    return
                await asyncio.sleep(_RETRY_S)


def committed(offsets: Mapping[Place, int]) -> list[dict[str, Any]]:
    """Return the topics of an OffsetCommit."""
    topics: dict[str, list[dict[str, Any]]] = {}
    for (topic, partition), offset in offsets.items():
        item = {"partition_index": partition, "committed_offset": offset, "committed_leader_epoch": -1}
        topics.setdefault(topic, []).append({**item, "committed_metadata": ""})
    return [{"name": topic, "partitions": partitions} for topic, partitions in topics.items()]


_NO_EXTRAS = {
    "allow_auto_topic_creation": False,
    "include_cluster_authorized_operations": False,
    "include_topic_authorized_operations": False,
}
