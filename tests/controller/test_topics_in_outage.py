"""Topics during and after an outage of ZooKeeper: the controller's part without Ray, with a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.actors.config import MusterConfig
from muster.actors.config.altering import Alteration, Change, Operation
from muster.actors.config.resources import ResourceType
from muster.actors.controller.admin import NewTopic
from muster.actors.controller.topics import TopicsAdmin
from muster.actors.runtime.zookeeper import EmbeddedZooKeeper
from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.configs import ConfigRegistry
from muster.placement.topics import TopicRegistry
from muster.placement.zookeeper.client import connect

WAIT_S = 60
RETENTION = Alteration(ResourceType.TOPIC, "before", (Change("retention.ms", Operation.SET, "7"),))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedZooKeeper]:
    """Yield a server of the test's own, which it may stop."""
    with EmbeddedZooKeeper.start(tmp_path) as running:
        yield running


def test_a_change_during_an_outage_is_refused_in_time_and_done_soon_after(
    server: EmbeddedZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.placement.zookeeper.client._LONG_AWAY_S", 1.0)
    zk = connect(server.hosts, timeout_s=10)

    async def run() -> None:
        published = asyncio.Event()
        admin = TopicsAdmin(TopicRegistry(zk), ConfigRegistry(zk), MusterConfig.from_properties({}), published.set)
        await asyncio.to_thread(admin.load)
        assert [outcome.error for outcome in await admin.create([NewTopic("before", 1, 1, {})], False)] == [0]
        published.clear()
        server.stop()
        async with asyncio.timeout(WAIT_S):
            first, second = await admin.create([NewTopic("first", 1, 1, {}), NewTopic("second", 1, 1, {})], False)
            crowd = await asyncio.gather(*(admin.delete(["before"]) for _ in range(5)))
            altered = [await admin.alter_configs([RETENTION], validate_only) for validate_only in (False, True)]
        assert {first.error, second.error} == {int(ErrorCode.request_timed_out)}
        assert (first.message, second.message) == (
            "ZooKeeper is unavailable; whether this was done is not known.",
            "ZooKeeper is unavailable; this was not begun.",
        )
        assert {outcome.error for (outcome,) in (*crowd, *altered)} == {int(ErrorCode.request_timed_out)}
        assert "before" in admin.topics
        assert not published.is_set()
        with EmbeddedZooKeeper.start(server.data_dir, server.port):
            async with asyncio.timeout(WAIT_S):
                await published.wait()
                made = await admin.create([NewTopic("after", 2, 1, {})], False)
            assert [outcome.error for outcome in made] == [0]
            assert {"before", "after"} <= admin.topics.keys()
            assert [outcome.error for outcome in await admin.alter_configs([RETENTION], False)] == [0]
            assert admin.topics["before"].config == {"retention.ms": "7"}
            zk.shut()

    asyncio.run(run())
