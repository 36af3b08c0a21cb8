"""ACLs as the controller changes them, also during an outage of ZooKeeper, with a real server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from muster.actors.controller.acls import AclsAdmin
from muster.actors.runtime.zookeeper import EmbeddedZooKeeper
from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.security.acl_registry import MAX_NODE_BYTES, AclRegistry
from muster.placement.security.acls import AclFilter, AclPatternType
from muster.placement.zookeeper.client import ZooKeeperClient, connect
from tests.gateway.authorization.acls import acl

WAIT_S = 60
TIMED_OUT = int(ErrorCode.request_timed_out)
ALICE, BOB, GROUP = acl("ALLOW READ TOPIC t"), acl("ALLOW READ TOPIC t", "User:bob"), acl("ALLOW ALL GROUP g*")


def test_each_acl_is_deleted_once(zk: ZooKeeperClient) -> None:
    published: list[int] = []

    async def run() -> None:
        admin = AclsAdmin(AclRegistry(zk), lambda: published.append(len(admin.acls)))
        assert [outcome.error for outcome in await admin.create([ALICE, GROUP, BOB, ALICE])] == [0] * 4
        assert list(admin.acls) == sorted([ALICE, BOB, GROUP])
        await admin.create([BOB])
        deleted = await admin.delete(
            [AclFilter(name="t"), AclFilter(pattern_type=AclPatternType.MATCH, name="t"), AclFilter(principal="x")]
        )
        assert [[outcome.acl for outcome in some] for some in deleted] == [[ALICE, BOB], [], []]
        assert list(admin.acls) == [GROUP]

    asyncio.run(run())
    assert published == [3, 1]
    successor = AclsAdmin(AclRegistry(zk), lambda: None)
    successor.load()
    assert list(successor.acls) == [GROUP]


def test_a_pattern_with_too_many_acls(zk: ZooKeeperClient) -> None:
    async def run() -> None:
        admin = AclsAdmin(AclRegistry(zk), lambda: None)
        await admin.create([ALICE])
        many = [
            acl("ALLOW READ TOPIC t", f"User:{number}-{'x' * 30_000}") for number in range(MAX_NODE_BYTES // 30_000 + 1)
        ]
        first, *_, last = await admin.create([*many, GROUP])
        assert (first.error, last.error) == (int(ErrorCode.invalid_request), 0)
        assert set(admin.acls) == {ALICE, GROUP}

    asyncio.run(run())


def test_an_outage_fails_changes_in_time_and_everything_is_read_again_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.placement.zookeeper.client._LONG_AWAY_S", 1.0)
    monkeypatch.setattr("muster.placement.security.acl_registry._BATCH", 1)

    async def run(server: EmbeddedZooKeeper) -> None:
        zk = connect(server.hosts, timeout_s=10)
        published = asyncio.Event()
        admin = AclsAdmin(AclRegistry(zk), published.set)
        await admin.create([ALICE])
        published.clear()
        server.stop()
        async with asyncio.timeout(WAIT_S):
            first, second, third = await admin.create([BOB, GROUP, ALICE])
        assert [first.error, second.error, third.error] == [TIMED_OUT] * 3
        assert "not known" in str(first.message)
        assert "not begun" in str(second.message)
        assert third.message == first.message
        async with asyncio.timeout(WAIT_S):
            assert [outcome.error for (outcome,) in await admin.delete([AclFilter()])] == [TIMED_OUT]
        assert list(admin.acls) == [ALICE]
        assert not published.is_set()
        with EmbeddedZooKeeper.start(server.data_dir, server.port):
            async with asyncio.timeout(WAIT_S):
                await published.wait()
                await admin.create([GROUP])
            assert set(admin.acls) == {ALICE, GROUP}
            zk.shut()

    with EmbeddedZooKeeper.start(tmp_path) as server:
        asyncio.run(run(server))
