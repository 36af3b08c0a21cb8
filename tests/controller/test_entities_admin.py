"""Users during and after an outage of ZooKeeper: the controller's part without Ray, with a real server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from muster.actors.controller.entities import EntitiesAdmin
from muster.actors.runtime.zookeeper import EmbeddedZooKeeper
from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.security.entities import Entity, EntityAlteration
from muster.placement.security.entity_registry import EntityRegistry
from muster.placement.zookeeper.client import connect

WAIT_S = 60
ANN, BOB = (EntityAlteration(entity=Entity.of_user(name), set={"a": "1"}) for name in ("ann", "bob"))
NO_NAME = EntityAlteration(entity=Entity.of_user(""), set={"a": "1"})


def test_an_outage_fails_changes_in_time_and_everything_is_read_again_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.placement.zookeeper.client._LONG_AWAY_S", 1.0)

    async def run(server: EmbeddedZooKeeper) -> None:
        zk = connect(server.hosts, timeout_s=10)
        published = asyncio.Event()
        admin = EntitiesAdmin(EntityRegistry(zk), published.set, with_logins=True)
        await asyncio.to_thread(admin.load)
        outcomes = await admin.alter([ANN, NO_NAME])
        assert [outcome.error for outcome in outcomes] == [0, int(ErrorCode.invalid_request)]
        assert admin.entities == {ANN.entity: {"a": "1"}}
        assert published.is_set()
        published.clear()
        server.stop()
        async with asyncio.timeout(WAIT_S):
            first, second = await admin.alter([BOB, NO_NAME])
        assert {first.error, second.error} == {int(ErrorCode.request_timed_out)}
        assert "not known" in str(first.message)
        assert "not begun" in str(second.message)
        assert not published.is_set()
        with EmbeddedZooKeeper.start(server.data_dir, server.port):
            async with asyncio.timeout(WAIT_S):
                await published.wait()
                assert admin.entities[ANN.entity] == {"a": "1"}
                await admin.alter([BOB])
            assert admin.entities == {ANN.entity: {"a": "1"}, BOB.entity: {"a": "1"}}
            zk.shut()

    with EmbeddedZooKeeper.start(tmp_path) as server:
        asyncio.run(run(server))
