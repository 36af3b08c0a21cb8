"""``python -m benchmarks mapping``: how soon the client-to-group mapping is repaired, and what it costs while correct.

A real ZooKeeper in a process of its own and the reconciler in this one; no Ray. The coordinators' responses are fixed.

* *repair*: every node is deleted, including the root. Time runs from the moment when the reconciler's copy has the
  last deletion until ZooKeeper has acknowledged every node again (another client then reads them all).
* *sweep*: rounds in which there is nothing to do. CPU is that of this whole process, including kazoo's threads.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import click
from kazoo.exceptions import NoNodeError

from benchmarks.cluster import machine
from benchmarks.report import Figures, output, output_options
from muster.actors.reconciler.reconciler import Held, Reconciler
from muster.actors.runtime.zookeeper import EmbeddedZooKeeper
from muster.placement.hashing import partition_for
from muster.placement.layout import CLIENT_GROUP_ID
from muster.placement.mapping.nodes import encode_registration, kop_data, kop_path, registration_path
from muster.placement.mapping.registration import Kind, Registration
from muster.placement.topics import TopicRegistry
from muster.placement.view import OFFSETS_TOPIC
from muster.placement.zookeeper.client import ZooKeeperClient, connect
from muster.placement.zookeeper.connection import Connection, Handler

REPAIR_LIMIT_S, SWEEP_LIMIT_S = 10.0, 1.0
_OFFSETS_PARTITIONS = 50
_GROUP_SIZE = 10
_CLIENTS_PER_HOST = 50
_INTERVAL_MS = 3_600_000
_RUNS, _ROUNDS = 3, 5
_DELETED_TOGETHER, _READ_TOGETHER = 1000, 500
_PATIENCE_S = 120


@click.command()
@click.option("--members", default=30_000, show_default=True, help="Whose mapping is deleted and repaired.")
@click.option("--registrations", default=100_000, show_default=True, help="In the mapping that is swept.")
@click.option("--plain-kazoo", is_flag=True, help="With a request for each read, and kazoo's connection, to compare.")
@output_options
def main(members: int, registrations: int, plain_kazoo: bool, json_file: Path | None, as_markdown: bool) -> None:
    """Measure repair and sweep. Exit code 1 if a figure is above its limit."""
    if plain_kazoo:
        _use_plain_kazoo()
    about, figures = machine(), Figures()
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        for part, count, measure in (("repair", members, _repair), ("sweep", registrations, _sweep)):
            click.echo(f"bench: {part}", err=True)
            with EmbeddedZooKeeper.start(Path(name) / part) as server:
                zk = connect(server.hosts, timeout_s=30)
                TopicRegistry(zk).create(OFFSETS_TOPIC, _OFFSETS_PARTITIONS, internal=True)
                asyncio.run(measure(server.hosts, zk, count, figures))
                zk.shut()
    output(figures, about, json_file, as_markdown)
    sys.exit(0 if figures.met else 1)


def _use_plain_kazoo() -> None:
    """Take away what makes many reads and many events cheap."""
    del Connection._read_socket, Connection._read, Handler.select

    def read_many(zk: ZooKeeperClient, paths: Iterable[str], **_: float) -> dict[str, Any]:
        return _each(zk.get_async, paths)

    def children_of_many(zk: ZooKeeperClient, paths: Iterable[str], **_: float) -> dict[str, Any]:
        return _each(zk.get_children_async, paths)

    def _each(read: Callable[[str], Any], paths: Iterable[str]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        rest = iter(paths)
        while some := list(islice(rest, _READ_TOGETHER)):
            for path, result in [(path, read(path)) for path in some]:
                with suppress(NoNodeError):
                    found[path] = result.get(timeout=_PATIENCE_S)
        return found

    for method in (read_many, children_of_many):
        setattr(ZooKeeperClient, method.__name__, method)


class _Coordinators:
    """Contents of Active coordinators: groups of ten members, each client with its own id (the most nodes)."""

    def __init__(self, count: int) -> None:
        held: dict[int, list[Registration]] = {partition: [] for partition in range(_OFFSETS_PARTITIONS)}
        for number in range(count):
            group = f"group-{number // _GROUP_SIZE}"
            partition = partition_for(group, _OFFSETS_PARTITIONS)
            held[partition].append(_registration(number, group, partition, len(held[partition])))
        self.held: Held = {partition: tuple(some) for partition, some in held.items()}

    async def __call__(self) -> Held:
        return dict(self.held)

    def restate(self) -> None:
        """Change one member at every coordinator, and send all its registrations again."""
        self.held = {partition: (_restated(some[0]), *map(_copied, some[1:])) for partition, some in self.held.items()}

    def everyone(self) -> list[Registration]:
        return [one for some in self.held.values() for one in some]

    def nodes(self) -> dict[str, bytes]:
        """Return the nodes that ZooKeeper should hold, without those of hosts and clients."""
        groups: dict[str, set[str]] = {}
        for one in self.everyone():
            groups.setdefault(kop_path(one.host, one.client_id), set()).add(one.group)
        flat = {path: kop_data(next(iter(some))) for path, some in groups.items() if len(some) == 1}
        return flat | {registration_path(one): encode_registration(one) for one in self.everyone()}


def _registration(number: int, group: str, partition: int, sequence: int) -> Registration:
    host = number // _CLIENTS_PER_HOST
    return Registration(
        group=group,
        member_id=f"consumer-{number}-5f0c1a52-98e5-4a2f-8a43-0d6dd6b7{number % 10_000:04d}",
        kind=Kind.MEMBER,
        client_id=f"consumer-{group}-{number % _GROUP_SIZE}",
        host=f"10.{host >> 16 & 255}.{host >> 8 & 255}.{host & 255}",
        generation=7,
        partitions=frozenset(("orders", number % _GROUP_SIZE * 4 + each) for each in range(4)),
        offsets_partition=partition,
        epoch=3,
        sequence=sequence + 1,
        principal="User:ANONYMOUS",
    )


def _copied(one: Registration) -> Registration:
    """Return a copy, as if received from another process."""
    return one._replace()


def _restated(one: Registration) -> Registration:
    return one._replace(generation=one.generation + 1, sequence=one.sequence + 100_000)


async def _repair(hosts: str, zk: ZooKeeperClient, members: int, figures: Figures) -> None:
    part = f"repair of {members:,} members"
    coordinators = _Coordinators(members)
    wanted = coordinators.nodes()
    reconciler = Reconciler(hosts, _INTERVAL_MS, coordinators)
    try:
        await _settle(reconciler)
        nodes = len(await reconciler.nodes())
        took_s, used_s = [], []
        for _ in range(_RUNS):
            await asyncio.to_thread(_delete_everything, zk)
            await _until(reconciler, lambda held: not held)
            began_s, began_cpu_s = time.perf_counter(), time.process_time()
            await reconciler.round()
            took_s.append(time.perf_counter() - began_s)
            used_s.append(time.process_time() - began_cpu_s)
            assert await asyncio.to_thread(_data, zk, wanted) == wanted
            await _settle(reconciler)
    finally:
        await asyncio.to_thread(reconciler.close)
    figures.add(part, f"all {nodes:,} nodes deleted, until the last one is back", statistics.median(took_s), "s")
    figures.add(part, f"the worst of {_RUNS}", max(took_s), "s", REPAIR_LIMIT_S)
    figures.add(part, "the same, processor time", statistics.median(used_s), "s")


async def _sweep(hosts: str, zk: ZooKeeperClient, registrations: int, figures: Figures) -> None:
    part = f"sweep of {registrations:,} registrations"
    coordinators = _Coordinators(registrations)
    reconciler = Reconciler(hosts, _INTERVAL_MS, coordinators)
    try:
        began_s = time.perf_counter()
        await _settle(reconciler)
        figures.add(part, "until all nodes are there for the first time", time.perf_counter() - began_s, "s")
        figures.add(part, "nodes in ZooKeeper", len(await reconciler.nodes()), "")
        reads = reconciler.status()["node_reads"]
        used_s = [await _round_cpu_s(reconciler) for _ in range(_ROUNDS)]
        figures.add(part, "a round without news, processor time, the worst", max(used_s), "s", SWEEP_LIMIT_S)
        figures.add(part, "single nodes read in these rounds", reconciler.status()["node_reads"] - reads, "", 0)
        coordinators.restate()
        news_s = await _round_cpu_s(reconciler)
        figures.add(part, "a round with news of every coordinator, processor time", news_s, "s", SWEEP_LIMIT_S)
    finally:
        await asyncio.to_thread(reconciler.close)
    figures.add(part, "a first look at everything, processor time", await _first_look_s(hosts, coordinators), "s")


async def _first_look_s(hosts: str, coordinators: _Coordinators) -> float:
    """Return the time of a reconciler that has just started, including the read."""
    reconciler = Reconciler(hosts, _INTERVAL_MS, coordinators)
    began_s = time.process_time()
    try:
        await _settle(reconciler)
        return time.process_time() - began_s
    finally:
        await asyncio.to_thread(reconciler.close)


async def _round_cpu_s(reconciler: Reconciler) -> float:
    began_s = time.process_time()
    await reconciler.round()
    return time.process_time() - began_s


async def _settle(reconciler: Reconciler) -> None:
    """Run rounds until nothing differs and the reconciler's copy is complete."""
    deadline_s = time.monotonic() + _PATIENCE_S
    while (todo := await reconciler.round()) is None or not todo.empty:
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"not settled within {_PATIENCE_S} s: {reconciler.status()}")
        await asyncio.sleep(0.05)


async def _until(reconciler: Reconciler, condition: Callable[[dict[str, bytes]], bool]) -> None:
    deadline_s = time.monotonic() + _PATIENCE_S
    while not condition(await reconciler.nodes()):
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"not seen within {_PATIENCE_S} s")
        await asyncio.sleep(0.01)


def _delete_everything(zk: ZooKeeperClient) -> None:
    levels: list[list[str]] = [[CLIENT_GROUP_ID]]
    while levels[-1]:
        names = zk.children_of_many(levels[-1])
        levels.append([f"{parent}/{name}" for parent, children in names.items() for name in children])
    for level in reversed(levels):
        for start in range(0, len(level), _DELETED_TOGETHER):
            zk.commit([("delete", path) for path in level[start : start + _DELETED_TOGETHER]])


def _data(zk: ZooKeeperClient, paths: Iterable[str]) -> dict[str, bytes]:
    return {path: data for path, (data, _) in zk.read_many(paths).items()}


if __name__ == "__main__":
    main()
