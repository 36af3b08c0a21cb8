"""The reconciler with a real ZooKeeper; the coordinators' responses are a dict."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from muster.actors.reconciler.reconciler import Reconciler
from muster.actors.runtime.zookeeper import EmbeddedZooKeeper
from muster.placement.layout import CLIENT_GROUP_ID
from muster.placement.mapping.nodes import encode_registration, kop_path, registration_path
from muster.placement.mapping.registration import Registration
from muster.placement.mapping.writes import Outcome
from muster.placement.topics import TopicRegistry
from muster.placement.view import OFFSETS_TOPIC
from muster.placement.zookeeper.client import ZooKeeperClient, ZooKeeperUnreachable, connect
from tests.placement.strategies import GROUPS, OFFSETS_PARTITIONS, partition_of, registration

INTERVAL_MS = 50
WITHIN_S = 60

Held = dict[int, tuple[Registration, ...]]


def everything() -> Held:
    """Two members of every group, each group on its own host."""
    held: Held = dict.fromkeys(range(OFFSETS_PARTITIONS), ())
    for number, group in enumerate(GROUPS):
        members = tuple(registration(group, member, host=f"10.0.0.{number}") for member in ("m-1", "m-2"))
        held[partition_of(group)] += members
    return held


def tree(zk: ZooKeeperClient) -> dict[str, bytes]:
    """All nodes with content."""
    nodes = {}

    def walk(path: str) -> None:
        data, stat = zk.get(path)
        if path.count("/") == 4 or "-" in path.rpartition("/")[2]:
            nodes[path] = data
        for child in zk.get_children(path) if stat.numChildren else ():
            walk(f"{path}/{child}")

    if zk.exists(CLIENT_GROUP_ID):
        for child in zk.get_children(CLIENT_GROUP_ID):
            walk(f"{CLIENT_GROUP_ID}/{child}")
    return nodes


def expected(held: Mapping[int, tuple[Registration, ...]]) -> dict[str, bytes]:
    everyone = [one for some in held.values() for one in some]
    flat = {kop_path(one.host, one.client_id): one.group.encode() for one in everyone}
    return flat | {registration_path(one): encode_registration(one) for one in everyone}


def wipe(zk: ZooKeeperClient) -> None:
    """Delete everything under the root and the root at once; the reconciler may have recreated it since."""

    def below(path: str) -> list[str]:
        return [found for child in zk.get_children(path) for found in (*below(f"{path}/{child}"), f"{path}/{child}")]

    zk.commit([("delete", path) for path in (*below(CLIENT_GROUP_ID), CLIENT_GROUP_ID)])


async def eventually(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    began = asyncio.get_running_loop().time()
    while not await condition():
        assert asyncio.get_running_loop().time() < began + WITHIN_S, f"not within {WITHIN_S} s: {what}"
        await asyncio.sleep(0.02)


async def same(zk: ZooKeeperClient, wanted: dict[str, bytes]) -> bool:
    def look() -> bool:
        try:
            return tree(zk) == wanted
        except Exception:  # a node that was removed between listing and reading
            return False

    return await asyncio.to_thread(look)


@contextlib.asynccontextmanager
async def running(
    hosts: str, held: Held, *, interval_ms: int = INTERVAL_MS, **options: Any
) -> AsyncIterator[Reconciler]:
    async def registrations() -> Mapping[int, tuple[Registration, ...]]:
        return dict(held)

    reconciler = Reconciler(hosts, interval_ms, registrations, **options)
    task = asyncio.create_task(reconciler.run())
    try:
        yield reconciler
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.fixture
def offsets_topic(zk: ZooKeeperClient) -> None:
    TopicRegistry(zk).create(OFFSETS_TOPIC, OFFSETS_PARTITIONS, internal=True)


@pytest.mark.usefixtures("offsets_topic")
def test_everything_that_was_deleted_is_restored(zk: ZooKeeperClient, zk_hosts: str) -> None:
    async def scenario() -> dict[str, Any]:
        held = everything()
        async with running(zk_hosts, held) as reconciler:
            await eventually(lambda: same(zk, expected(held)), "the mapping is there")
            await eventually(lambda: _settled(reconciler), "nothing is left to repair")
            await asyncio.to_thread(wipe, zk)
            await eventually(lambda: same(zk, expected(held)), "the mapping is restored")
            return reconciler.status()

    status = asyncio.run(scenario())
    assert status["repairs"]["create_registration"] >= 4 * len(GROUPS)
    assert status["repairs"]["create_kop"] >= 2 * len(GROUPS)
    assert status["full_reads"] == 1


@pytest.mark.usefixtures("offsets_topic")
def test_wrong_nodes_are_corrected_and_stray_nodes_are_removed(zk: ZooKeeperClient, zk_hosts: str) -> None:
    async def scenario() -> dict[str, Any]:
        held = everything()
        async with running(zk_hosts, held) as reconciler:
            await eventually(lambda: same(zk, expected(held)), "the mapping is there")
            ghost = registration("billing", "ghost", host="10.9.9.9")
            paths = [registration_path(one) for one in held[partition_of("billing")]]
            await asyncio.to_thread(zk.set, paths[0], b"wrong")
            await asyncio.to_thread(zk.create, registration_path(ghost), encode_registration(ghost), makepath=True)
            await asyncio.to_thread(zk.create, kop_path("10.9.9.9", "x"), b"billing")
            await eventually(lambda: same(zk, expected(held)), "the mapping is as it should be")
            gone = f"{CLIENT_GROUP_ID}/10.9.9.9"
            await eventually(lambda: asyncio.to_thread(lambda: not zk.exists(gone)), "the empty nodes are gone")
            await eventually(lambda: _settled(reconciler), "there is nothing left to repair")
            return reconciler.status()

    status = asyncio.run(scenario())
    assert status["repairs"]["remove_registration"] == 1
    assert status["repairs"]["remove_kop"] == 1
    assert status["divergent_for_ms"] is None


async def _settled(reconciler: Reconciler) -> bool:
    return reconciler.status()["divergent_for_ms"] is None


@pytest.mark.usefixtures("offsets_topic")
def test_what_belongs_to_a_partition_that_is_not_active_is_left_alone(zk: ZooKeeperClient, zk_hosts: str) -> None:
    async def scenario() -> None:
        held = everything()
        away = partition_of("billing")
        async with running(zk_hosts, held) as reconciler:
            await eventually(lambda: same(zk, expected(held)), "the mapping is there")
            lost = held.pop(away)
            marked = registration_path(lost[0])
            await asyncio.to_thread(zk.set, marked, b"not ours to judge")
            removed = registration_path(lost[1])
            await asyncio.to_thread(zk.delete, removed)
            other = next(path for path, data in expected(held).items() if data == b"dashboard")
            await asyncio.to_thread(zk.delete, other)
            left = expected(held) | expected({away: lost}) | {marked: b"not ours to judge"}
            del left[removed]
            await eventually(lambda: same(zk, left), "what is of Active partitions is repaired")
            rounds = reconciler.status()["rounds"]
            await eventually(lambda: _rounds(reconciler, rounds + 5), "some more rounds")
            assert await same(zk, left)
            held[away] = lost
            await eventually(lambda: same(zk, expected(held)), "it is Active again: all is repaired")

    asyncio.run(scenario())


async def _rounds(reconciler: Reconciler, count: int) -> bool:
    return bool(reconciler.status()["rounds"] >= count)


async def _agrees(reconciler: Reconciler) -> bool:
    """Return whether the last round found no difference."""
    status = reconciler.status()
    return status["rounds"] > 0 and not status["differences"]


@pytest.mark.usefixtures("offsets_topic")
def test_a_steady_state_reads_nothing(zk: ZooKeeperClient, zk_hosts: str) -> None:
    async def scenario() -> None:
        held = everything()
        async with running(zk_hosts, held) as reconciler:
            await eventually(lambda: same(zk, expected(held)), "the mapping is there")
            await eventually(lambda: _agrees(reconciler), "the reconciler has read what it wrote")
            before = reconciler.status()
            await eventually(lambda: _rounds(reconciler, before["rounds"] + 5), "some more rounds")
            after = reconciler.status()
            assert (after["full_reads"], after["node_reads"]) == (before["full_reads"], before["node_reads"])

    asyncio.run(scenario())


def test_the_reconciler_outlives_zookeeper_and_a_failing_response(tmp_path: Path) -> None:
    async def scenario() -> None:
        held = everything()
        server = await asyncio.to_thread(EmbeddedZooKeeper.start, tmp_path)
        client = await asyncio.to_thread(connect, server.hosts, timeout_s=10)
        async with running(server.hosts, held) as reconciler:
            await eventually(lambda: _trouble(reconciler, "__consumer_offsets"), "there is no offsets topic yet")
            TopicRegistry(client).create(OFFSETS_TOPIC, OFFSETS_PARTITIONS, internal=True)
            await eventually(lambda: same(client, expected(held)), "the mapping is there")
            good = dict(held)
            held["not a partition"] = 7  # type: ignore[index,assignment]
            await eventually(lambda: _trouble(reconciler, "TypeError"), "a bad response is reported")
            await asyncio.to_thread(server.stop)
            held.clear()
            held.update(good)
            held[partition_of("billing")] += (registration("billing", "m-3", host="10.0.0.9"),)
            await eventually(lambda: _trouble(reconciler, "ZooKeeper is unavailable"), "the outage is reported")
            server = await asyncio.to_thread(EmbeddedZooKeeper.start, tmp_path, server.port)
            await eventually(lambda: same(client, expected(held)), "it continues by itself")
            await eventually(lambda: _untroubled(reconciler), "the round that wrote it ends")
            client.shut()
        await asyncio.to_thread(server.stop)

    asyncio.run(scenario())


@pytest.mark.usefixtures("offsets_topic")
def test_what_differs_is_reported_although_it_could_not_be_written(
    zk_hosts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> dict[str, Any]:
        held = everything()

        async def registrations() -> Mapping[int, tuple[Registration, ...]]:
            return held

        reconciler = Reconciler(zk_hosts, INTERVAL_MS, registrations)

        def away(nodes: Iterable[tuple[str, bytes]], **_: Any) -> dict[str, Outcome]:
            next(iter(nodes))
            raise ZooKeeperUnreachable("away")

        monkeypatch.setattr(reconciler._nodes, "create", away)
        try:
            while True:  # until its copy is complete
                try:
                    await reconciler.round()
                except ZooKeeperUnreachable:
                    return reconciler.status()
        finally:
            await asyncio.to_thread(reconciler.close)

    differences = asyncio.run(scenario())["differences"]
    assert differences == {"missing_registration": 2 * len(GROUPS), "missing_kop": len(GROUPS)}


async def _untroubled(reconciler: Reconciler) -> bool:
    return reconciler.status()["trouble"] is None


async def _trouble(reconciler: Reconciler, text: str) -> bool:
    return text in (reconciler.status()["trouble"] or "")
