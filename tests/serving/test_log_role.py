"""The role ``log-0`` in two processes, here two hosts in one: it passes from one to the other, or is taken."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muster.actors.config import MusterConfig
from muster.actors.log import role
from muster.actors.log.role import LogOpener
from muster.actors.runtime.settings import ClusterSettings
from muster.actors.runtime.started import Started
from muster.actors.serving.host import RoleHost
from muster.actors.wire.internal.channel import Channel, ChannelLost, connect
from muster.actors.wire.internal.listener import Server
from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.epochs import Superseded, take_actor_epoch
from muster.placement.topics import TopicRegistry
from muster.placement.view import ClusterView, Topic
from muster.placement.zookeeper.client import ZooKeeperClient
from tests.nodes.raw import produce

SECRET = b"secret"
ROLE = "log-0"
WAIT_S = 60.0


class World:
    """A topic with one partition, and hosts that may serve it."""

    def __init__(self, storage: Path, zk: ZooKeeperClient, hosts: str) -> None:
        self.storage = storage
        self._zk = zk
        self._hosts = hosts
        self.topic = TopicRegistry(zk).create("flights", 1)
        self.view = self.view_of(self.topic)
        self._numbers = iter(range(100))

    @property
    def folder(self) -> Path:
        return self.storage / "logs" / f"{self.topic.name}-0"

    def view_of(self, *topics: Topic, version: int = 1) -> ClusterView:
        return ClusterView(
            cluster_id="roles",
            controller_epoch=1,
            version=version,
            brokers=(),
            topics={topic.name: topic for topic in topics},
            logs={0: None},
            offsets={},
        )

    def host(self, fail: Callable[[], None] | None = None) -> RoleHost:
        """Return a host with a process's own connection to ZooKeeper."""
        number = next(self._numbers)
        settings = ClusterSettings(
            config=MusterConfig.from_properties({}),
            storage=str(self.storage),
            cluster_id="roles",
            zookeeper=self._hosts,
            host=None,
            gateway_ports=None,
            metrics_ports=None,
            metrics_port=0,
        )

        async def listen(server: Server, name: str, epoch: int) -> Started:
            path = self.storage / f"{name}-{number}.sock"
            endpoint = await server.start(node_id="here", host="127.0.0.1", path=path)
            return Started(pid=number, node_id="here", endpoint=endpoint, epoch=epoch)

        return RoleHost({"log": LogOpener(settings, SECRET, f"host-{number}")}, listen, fail)

    async def epoch(self) -> int:
        return (await asyncio.to_thread(take_actor_epoch, self._zk, ROLE)).epoch

    async def serve(self, host: RoleHost, predecessor: RoleHost | None = None) -> Channel:
        """Serve the role on the host from now on; return a connection to the host."""
        handle = None if predecessor is None else Handle(predecessor)
        started = await host.serve(ROLE, await self.epoch(), self.view, handle)
        assert started.endpoint is not None
        return await connect(started.endpoint, "here", on_updates=None, on_lost=lambda: None)

    async def produce(self, channel: Channel) -> ErrorCode:
        return await produce(channel, self.topic, 0, b"x")


class Handle:
    """Like Ray's handle of the actor that a host is in."""

    def __init__(self, host: RoleHost) -> None:
        self._host = host
        self.hand_over = self

    def remote(self, role: str) -> Awaitable[None]:
        return self._host.hand_over(role)


@pytest.fixture
def world(zk: ZooKeeperClient, zk_hosts: str) -> Iterator[World]:
    """In a short path, for the Unix sockets in it."""
    storage = Path(tempfile.mkdtemp(prefix="muster-", dir="/tmp"))
    yield World(storage, zk, zk_hosts)
    shutil.rmtree(storage)


def run(steps: Awaitable[None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(WAIT_S):
            await steps

    asyncio.run(bounded())


def test_a_role_is_handed_over_and_back(world: World) -> None:
    async def steps() -> None:
        actor, standby = world.host(), world.host()
        assert await world.produce(await world.serve(actor)) is ErrorCode.none
        assert await world.produce(await world.serve(standby, actor)) is ErrorCode.none
        assert (actor.started, list(standby.started)) == ({}, [ROLE])
        assert await world.produce(await world.serve(actor, standby)) is ErrorCode.none
        assert (list(actor.started), standby.started) == ([ROLE], {})
        await actor.stop()
        await standby.stop()

    run(steps())


def test_what_waits_at_a_hand_over_is_answered(world: World) -> None:
    """Every Produce is durable or refused with an error after which it may be sent again: none is lost on the way."""

    async def steps() -> None:
        actor, standby = world.host(), world.host()
        channel = await world.serve(actor)
        assert await world.produce(channel) is ErrorCode.none
        sent = [asyncio.ensure_future(world.produce(channel)) for _ in range(50)]
        await asyncio.sleep(0)
        await world.serve(standby, actor)
        assert set(await asyncio.gather(*sent)) <= {ErrorCode.none, ErrorCode.not_leader_or_follower}
        await actor.stop()
        await standby.stop()

    run(steps())


def test_a_superseded_role_ends_and_its_process_does_not(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A standby that was cut off ends so: no one requests a hand-over from it."""
    monkeypatch.setattr(role, "_SUPERSEDED_S", 0.1)

    async def steps() -> None:
        old, new = world.host(), world.host()
        to_old = await world.serve(old)
        assert await world.produce(to_old) is ErrorCode.none
        (started,) = old.started.values()
        to_new = await world.serve(new)
        assert await world.produce(to_new) is ErrorCode.none
        await old.until_over(ROLE, started.epoch)
        await old.hand_over(ROLE)  # returns once it has stopped
        assert old.started == {}
        with pytest.raises(ChannelLost):
            await world.produce(to_old)
        assert await world.produce(to_new) is ErrorCode.none
        await old.stop()
        await new.stop()

    run(steps())


def test_a_superseded_actor_ends_its_process(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(role, "_SUPERSEDED_S", 0.1)

    async def steps() -> None:
        ended = asyncio.Event()
        old, new = world.host(ended.set), world.host()
        await world.serve(old)
        await world.serve(new)
        await ended.wait()
        await old.stop()
        await new.stop()

    run(steps())


def test_an_actor_that_hands_over_does_not_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(role, "_SUPERSEDED_S", 0.0)
    failed: list[Any] = []

    async def steps() -> None:
        old, new = world.host(lambda: failed.append("it")), world.host()
        await world.serve(old)
        await old.hand_over(ROLE)
        await world.serve(new)
        await new.stop()
        await old.stop()

    run(steps())
    assert failed == []


def test_a_superseded_copy_acknowledges_nothing(world: World) -> None:
    """Nor does it take the log back: it gets no leader epoch any more."""

    async def steps() -> None:
        old, new = world.host(), world.host()
        to_old = await world.serve(old)
        assert await world.produce(to_old) is ErrorCode.none
        to_new = await world.serve(new)
        assert await world.produce(to_new) is ErrorCode.none
        for _ in range(3):
            assert await world.produce(to_old) is ErrorCode.not_leader_or_follower
        assert await world.produce(to_new) is ErrorCode.none
        await old.stop()
        await new.stop()

    run(steps())


def test_an_epoch_that_has_a_successor_does_not_serve(world: World) -> None:
    async def steps() -> None:
        host = world.host()
        late = await world.epoch()
        await world.epoch()
        with pytest.raises(Superseded, match=f"epoch {late} of "):
            await host.serve(ROLE, late, world.view)
        assert host.started == {}
        await host.stop()

    run(steps())


def test_topics_are_deleted_where_the_role_is_served(world: World) -> None:
    async def steps() -> None:
        actor, standby = world.host(), world.host()
        await world.produce(await world.serve(actor))
        await world.produce(await world.serve(standby, actor))
        assert world.folder.is_dir()
        standby.follow(world.view_of(version=2))
        while world.folder.exists():  # noqa: ASYNC110 - a thread removes it
            await asyncio.sleep(0.01)
        await actor.stop()
        await standby.stop()

    run(steps())


def test_configs_of_the_newest_view_apply(world: World) -> None:
    async def steps() -> None:
        host = world.host()
        smaller = replace(world.topic, config={"max.message.bytes": "1"})
        host.follow(world.view_of(smaller, version=2))
        assert await world.produce(await world.serve(host)) is ErrorCode.message_too_large
        await host.stop()

    run(steps())
