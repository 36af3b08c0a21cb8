"""The connections of an actor to others: over real sockets, to listeners that come and go."""

from __future__ import annotations

import asyncio
import dataclasses
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from ray.exceptions import RayError

from muster.actors.runtime.channels import ActorChannels
from muster.actors.wire.internal.channel import ChannelLost, NotSent
from muster.actors.wire.internal.listener import Peer, Server
from muster.actors.wire.internal.verification import VerifyRequest, write_verified
from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.hashing import partition_for
from muster.placement.view import TRANSACTIONS, TRANSACTIONS_TOPIC, ClusterView, Endpoint, Topic
from tests.wire.test_channel import Echo

PARTITIONS = 3
TOPIC = Topic(name=TRANSACTIONS_TOPIC, topic_id=uuid.UUID(int=1), partitions=PARTITIONS, internal=True)
REQUEST = VerifyRequest("txn", 7, 0, [("a", 0), ("b", 1)], add=False, transaction_version=0)
OWNER = partition_for("txn", PARTITIONS)
VIEW = ClusterView(
    cluster_id="c",
    controller_epoch=1,
    version=1,
    brokers=(),
    topics={TRANSACTIONS_TOPIC: TOPIC},
    logs={0: None},
    offsets={},
)


class Coordinator(Echo):
    """Answers verifications with these codes; None: closes the connection instead."""

    def __init__(self, codes: list[ErrorCode] | None) -> None:
        super().__init__()
        self._codes = codes
        self.requests: list[VerifyRequest] = []
        self.from_gateways = 0

    def joined(self, peer: Peer) -> None:
        self.peers.append(peer)
        self.from_gateways += peer.is_gateway

    def verify(self, peer: Peer, token: int, request: VerifyRequest) -> None:
        self.requests.append(request)
        if self._codes is None:
            peer.close()
        else:
            peer.send(write_verified(token, self._codes))


class Cluster:
    """Listeners, and what an actor requests of the controller."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._servers: list[Server] = []
        self.activated: list[tuple[int, str]] = []
        self.was_activated = asyncio.Event()
        self.has_controller = False
        self.view = VIEW

    async def activate(self, partition: int, kind: str) -> None:
        self.activated.append((partition, kind))
        self.was_activated.set()
        if not self.has_controller:
            raise RayError("there is no controller")

    async def listen(self, handler: Any) -> Endpoint:
        server = Server(handler, b"secret")
        self._servers.append(server)
        return await server.start(node_id="here", host="127.0.0.1", path=self._folder / f"{len(self._servers)}")

    async def stop(self) -> None:
        for server in self._servers:
            await server.stop()


def run(folder: Path, scenario: Callable[[Cluster], Awaitable[None]]) -> None:
    async def main() -> None:
        cluster = Cluster(folder)
        try:
            async with asyncio.timeout(20):
                await scenario(cluster)
        finally:
            await cluster.stop()

    asyncio.run(main())


def owned(view: ClusterView, endpoint: Endpoint | None) -> ClusterView:
    return dataclasses.replace(view, version=view.version + 1, transactions={OWNER: endpoint})


@pytest.mark.parametrize("node_id", ["here", "elsewhere"])
def test_partitions_are_verified_by_the_coordinator_of_the_producer(tmp_path: Path, node_id: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        codes = [ErrorCode.none, ErrorCode.transaction_abortable]
        coordinator = Coordinator(codes)
        view = owned(VIEW, await cluster.listen(coordinator))
        channels = ActorChannels(lambda: node_id, view, cluster.activate)
        assert await asyncio.gather(*(channels.verify(REQUEST) for _ in range(3))) == [codes] * 3
        assert coordinator.requests == [REQUEST] * 3
        assert (len(coordinator.peers), coordinator.from_gateways) == (1, 0)
        channels.close()

    run(tmp_path, scenario)


def test_a_coordinator_that_never_ran_is_started(tmp_path: Path) -> None:
    """One that is down is not: the controller knows of it."""

    async def scenario(cluster: Cluster) -> None:
        channels = ActorChannels(lambda: "here", VIEW, cluster.activate)
        not_available = [ErrorCode.coordinator_not_available] * 2
        assert await channels.verify(REQUEST) == not_available
        assert cluster.activated == [(OWNER, TRANSACTIONS)]
        channels.follow(owned(VIEW, None))
        assert await channels.verify(REQUEST) == not_available
        assert len(cluster.activated) == 1
        with pytest.raises(NotSent, match="log-0 is down"):
            await channels.to(("log", 0))
        assert len(cluster.activated) == 1
        channels.follow(dataclasses.replace(VIEW, topics={}))
        assert await channels.verify(REQUEST) == not_available
        channels.close()

    run(tmp_path, scenario)


def test_verification_waits_for_a_coordinator_that_starts(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.has_controller = True
        codes = [ErrorCode.none, ErrorCode.transaction_abortable]
        endpoint = await cluster.listen(Coordinator(codes))
        channels = ActorChannels(lambda: "here", VIEW, cluster.activate)
        verifying = asyncio.ensure_future(channels.verify(REQUEST))
        await cluster.was_activated.wait()
        channels.follow(dataclasses.replace(VIEW, version=VIEW.version + 1))  # it is not there yet
        channels.follow(owned(channels.view, endpoint))
        assert await verifying == codes
        channels.close()

    run(tmp_path, scenario)


def test_a_response_that_does_not_come_may_have_been_lost(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        coordinator = Coordinator(None)
        channels = ActorChannels(lambda: "here", owned(VIEW, await cluster.listen(coordinator)), cluster.activate)
        for _ in range(2):
            assert await channels.verify(REQUEST) == [ErrorCode.network_exception] * 2
        assert len(coordinator.requests) == 2
        channels.close()

    run(tmp_path, scenario)


def test_requests_go_to_the_process_of_the_newest_view(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        first, second = Coordinator([ErrorCode.none] * 2), Coordinator([ErrorCode.none] * 2)
        view = owned(VIEW, await cluster.listen(first))
        channels = ActorChannels(lambda: "here", view, cluster.activate)
        await channels.verify(REQUEST)
        lost = await channels.to((TRANSACTIONS, OWNER))
        channels.follow(owned(view, await cluster.listen(second)))
        with pytest.raises(ChannelLost):
            await lost.verify(REQUEST)
        await channels.verify(REQUEST)
        assert (len(first.requests), len(second.requests)) == (1, 1)
        channels.close()

    run(tmp_path, scenario)


def test_an_actor_that_cannot_be_reached(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        endpoint = dataclasses.replace(await cluster.listen(Echo()), path=str(tmp_path / "nothing"))
        channels = ActorChannels(lambda: "here", owned(VIEW, endpoint), cluster.activate)
        assert await channels.verify(REQUEST) == [ErrorCode.coordinator_not_available] * 2
        channels.close()

    run(tmp_path, scenario)
