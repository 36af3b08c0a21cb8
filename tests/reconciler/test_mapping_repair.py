"""Hazards for the mapping, with a real ZooKeeper: late writers, lost sessions, too many writes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from muster.actors.offsets.held import Known, news, version_of
from muster.actors.offsets.mapping_writer import MappingWriter
from muster.actors.reconciler.reconciler import MappingUnknown, Reconciler
from muster.placement.mapping.nodes import decode_registration, encode_registration, kop_path, registration_path
from muster.placement.mapping.registration import Registration, Withdrawal
from muster.placement.mapping.writes import MappingNodes
from muster.placement.zookeeper.client import ZooKeeperClient
from tests.placement.strategies import OFFSETS_PARTITIONS, partition_of, registration
from tests.reconciler.test_reconciler import (
    Held,
    eventually,
    everything,
    expected,
    offsets_topic,
    running,
    same,
    tree,
    wipe,
)
from tests.zookeeper_sessions import end_sessions

__all__ = ["offsets_topic"]

BILLING = registration("billing")
FLUSH_S = 20


def leaving(one: Registration, sequence: int) -> Withdrawal:
    return Withdrawal(
        group=one.group,
        member_id=one.member_id,
        offsets_partition=one.offsets_partition,
        epoch=one.epoch,
        sequence=sequence,
    )


class PausedWriter:
    """A coordinator's writer that sleeps between its read and its next write, as in a long GC pause."""

    def __init__(self, hosts: str) -> None:
        self.writer = MappingWriter(hosts)
        self._armed = threading.Event()
        self.asleep, self.awake = threading.Event(), threading.Event()
        self.writer._nodes = MappingNodes(self.writer._zk, timeout_s=FLUSH_S, before_write=self._pause)

    def pause(self) -> None:
        self._armed.set()

    def _pause(self, _: int) -> None:
        if self._armed.is_set():
            self._armed.clear()
            self.asleep.set()
            assert self.awake.wait(FLUSH_S)


@pytest.mark.parametrize("between", ["overwritten", "created again"])
@pytest.mark.parametrize("late", ["removal", "change"])
def test_a_paused_coordinator_that_wakes_up_late_hits_nothing_newer(
    zk: ZooKeeperClient, zk_hosts: str, between: str, late: str
) -> None:
    """F3: it decided to delete, slept, and the client registered with another coordinator in between."""
    paused, successor = PausedWriter(zk_hosts), MappingWriter(zk_hosts)
    paused.writer.put([BILLING])
    assert paused.writer.flush(FLUSH_S)
    paused.pause()
    again = registration("billing", sequence=7, generation=2)
    paused.writer.put([leaving(BILLING, 7)] if late == "removal" else [again])
    assert paused.asleep.wait(FLUSH_S)
    newer = registration("billing", epoch=2, sequence=0)
    if between == "created again":
        zk.delete(registration_path(BILLING))
    successor.put([newer])
    assert successor.flush(FLUSH_S)
    paused.awake.set()
    assert paused.writer.flush(FLUSH_S)
    data, stat = zk.get(registration_path(newer))
    assert decode_registration(registration_path(newer), data) == newer
    assert stat.version == (0 if between == "created again" else 1)
    paused.writer.close(5)
    successor.close(5)


@pytest.mark.usefixtures("offsets_topic")
def test_nothing_is_removed_on_shutdown_disconnect_or_failover(zk: ZooKeeperClient, zk_hosts: str) -> None:
    held = everything()
    writer = MappingWriter(zk_hosts)
    writer.put([one for some in held.values() for one in some])
    assert writer.flush(FLUSH_S)
    server = zk_hosts.partition("/")[0]

    async def scenario() -> None:
        async with running(zk_hosts, held) as reconciler:
            await eventually(lambda: same(zk, expected(held)), "the mapping is there")
            sessions = (reconciler._zk.client_id[0], writer._zk.client_id[0])
            assert await asyncio.to_thread(end_sessions, server, sessions) == len(sessions)
            await eventually(lambda: _full_reads(reconciler, 2), "the mirror is read again")
            held.clear()  # every coordinator is loading, elsewhere
            rounds = reconciler.status()["rounds"]
            await eventually(lambda: _rounds(reconciler, rounds + 5), "some more rounds")

    before = expected(held)
    asyncio.run(scenario())
    writer.close(5)
    assert tree(zk) == before


async def _full_reads(reconciler: Reconciler, count: int) -> bool:
    return bool(reconciler.status()["full_reads"] >= count)


async def _rounds(reconciler: Reconciler, count: int) -> bool:
    return bool(reconciler.status()["rounds"] >= count)


def many(members: int) -> Held:
    """All of one group, each with its own address."""
    some = tuple(registration("billing", f"m-{each}", host=f"10.1.{each >> 8}.{each & 255}") for each in range(members))
    return {partition: some if partition == partition_of("billing") else () for partition in range(OFFSETS_PARTITIONS)}


def reconciler_of(hosts: str, held: Held, **options: Any) -> Reconciler:
    async def registrations() -> Held:
        return dict(held)

    return Reconciler(hosts, 1000, registrations, **options)


@pytest.mark.usefixtures("offsets_topic")
def test_a_session_that_ends_in_mid_repair_costs_nothing(zk: ZooKeeperClient, zk_hosts: str) -> None:
    held = many(150)

    async def scenario() -> None:
        async with running(zk_hosts, held, max_writes_per_second=400) as reconciler:
            await eventually(lambda: _created(reconciler, 100), "the repair has begun")
            session = reconciler._zk.client_id[0]
            assert await asyncio.to_thread(end_sessions, zk_hosts.partition("/")[0], [session]) == 1
            assert not await same(zk, expected(held))
            await eventually(lambda: same(zk, expected(held)), "it continues with another session")

    asyncio.run(scenario())


async def _created(reconciler: Reconciler, count: int) -> bool:
    return bool(sum(reconciler._counts._repairs.values()) >= count) or bool(reconciler._rate_limiter._free_at_s)


@pytest.mark.usefixtures("offsets_topic")
def test_writes_are_no_more_than_the_limit(zk: ZooKeeperClient, zk_hosts: str) -> None:
    """By the times at which ZooKeeper created the nodes, including those of hosts and clients."""
    held, limit = many(50), 100

    async def scenario() -> None:
        async with running(zk_hosts, held, max_writes_per_second=limit):
            await eventually(lambda: same(zk, expected(held)), "the mapping is there")

    asyncio.run(scenario())
    created_ms = sorted(zk.get(path)[1].created * 1000 for path in (*expected(held), *folders(held)))
    batch = 2 * 10 + 10  # changes of a tenth of a second, and their parents
    assert len(created_ms) == 4 * 50
    assert created_ms[-1] - created_ms[0] >= (len(created_ms) - 2 * batch) / limit * 1000


def folders(held: Held) -> set[str]:
    clients = {registration_path(one).rpartition("/")[0] for some in held.values() for one in some}
    return clients | {client.rpartition("/")[0] for client in clients}


@pytest.mark.usefixtures("offsets_topic")
def test_a_dry_run_reports_and_writes_nothing_until_a_repair_is_requested(zk: ZooKeeperClient, zk_hosts: str) -> None:
    held = everything()
    ghost = registration("billing", "ghost", host="10.9.9.9")
    zk.create(registration_path(ghost), encode_registration(ghost), makepath=True)

    async def scenario() -> None:
        async with running(zk_hosts, held, dry_run=True) as reconciler:
            await eventually(lambda: _rounds(reconciler, 5), "some rounds")
            assert await asyncio.to_thread(tree, zk) == {registration_path(ghost): encode_registration(ghost)}
            status = reconciler.status()
            assert status["repairs"] == {}
            assert status["differences"]["stale_registration"] == 1
            assert status["differences"]["missing_registration"] == len(expected(held)) - len(
                {kop_path(one.host, one.client_id) for some in held.values() for one in some}
            )
            assert status["divergent_for_ms"] > 0
            found = await reconciler.compare()
            assert {one.path for one in found.divergences} >= {registration_path(ghost)} | expected(held).keys()
            repaired = await reconciler.repair()
            assert ("remove", registration_path(ghost)) in repaired.done
            assert not repaired.left.divergences
            assert await same(zk, expected(held))

    asyncio.run(scenario())


@pytest.mark.usefixtures("offsets_topic")
def test_what_is_left_alone_is_counted(zk: ZooKeeperClient, zk_hosts: str) -> None:
    held = everything()

    async def scenario() -> None:
        async with running(zk_hosts, held) as reconciler:
            await eventually(lambda: same(zk, expected(held)), "the mapping is there")
            await eventually(lambda: _sees(reconciler, expected(held)), "the reconciler has heard of it")
            lost = held.pop(partition_of("billing"))
            found = await reconciler.compare()
            assert {one.path for one in found.left_alone} == expected({0: lost}).keys()
            assert {one.offsets_partition for one in found.left_alone} == {partition_of("billing")}
            await eventually(lambda: _left_alone(reconciler, len(expected({0: lost}))), "it is counted")

    asyncio.run(scenario())


async def _sees(reconciler: Reconciler, nodes: Mapping[str, bytes]) -> bool:
    return nodes.keys() <= (await reconciler.nodes()).keys()


async def _left_alone(reconciler: Reconciler, count: int) -> bool:
    return bool(reconciler.status()["left_alone"] == {"not_active": count})


@pytest.mark.usefixtures("offsets_topic")
def test_deleting_everything_wakes_the_reconciler(zk: ZooKeeperClient, zk_hosts: str) -> None:
    """Its next round would be an hour away."""
    held = everything()

    async def scenario() -> None:
        async with running(zk_hosts, held, interval_ms=3_600_000):
            await eventually(lambda: same(zk, expected(held)), "the mapping is there")
            await asyncio.sleep(1.5)  # the next round is at least a second after the last one
            await asyncio.to_thread(wipe, zk)
            await eventually(lambda: same(zk, expected(held)), "the mapping is restored")

    asyncio.run(scenario())


def test_without_zookeeper_nothing_can_be_said() -> None:
    async def scenario() -> None:
        reconciler = reconciler_of("127.0.0.1:1", {})
        for call in (reconciler.nodes, reconciler.compare, reconciler.repair):
            with pytest.raises(MappingUnknown, match="ZooKeeper is unavailable"):
                await call()
        await asyncio.to_thread(reconciler.close)

    asyncio.run(scenario())


def test_a_coordinator_is_queried_only_for_news() -> None:
    first = (registration("billing", "a", sequence=1), registration("billing", "b", sequence=2))
    known = Known()
    held = known.take(0, news(first, None))
    assert news(first, known.versions()[0]) is None
    assert known.take(0, None) is held
    gone, moved = first[1:], (first[1], registration("billing", "a", sequence=3))
    replaced = (first[0], registration("billing", "c", sequence=4))
    for other in (gone, first[:1], moved, replaced, (), (registration("billing", "a", epoch=2, sequence=0), first[1])):
        assert version_of(other) != version_of(first)
        assert news(other, known.versions()[0]) == other
