"""The Muster under test: its counters, and the faults that the cases cause."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import psutil
from kazoo.exceptions import NoNodeError, NotEmptyError

from benchmarks.attribution.world import World
from benchmarks.cluster import Cluster
from muster.actors.runtime.zookeeper import EmbeddedZooKeeper
from muster.gateway.cli.ray import connection
from muster.gateway.cli.storage import directory as storage
from muster.placement.layout import CLIENT_GROUP_ID
from muster.placement.zookeeper.client import connect
from tests.attribution.scrape import scrape
from tests.attribution.truth import PENDING, Books

GATEWAYS, OFFSETS_PARTITIONS = 3, 2
"""Three gateways: in the seed incident, a partition moves to one that has heard of none of its clients."""
_SCRAPE_S = 20.0
_POLL_S = 0.5
_END_S = 30.0
_SETTLE_S = 60.0
_MARGIN_S = 3.0
"""Added to the wait for evidence: gateways give up pending attributions once a second."""


@dataclass
class Muster:
    """Made by :func:`running`."""

    cluster: Cluster
    zookeeper: EmbeddedZooKeeper
    world: World
    pending_s: float
    _ended: Books = field(default_factory=Books)
    """Final counters of the gateways that were ended."""

    async def books(self) -> Books:
        """Return the counts of all gateways since the start. Raises URLError."""
        all_books = Books()
        all_books.add(self._ended)
        for url in self.cluster.metrics:
            all_books.add(await asyncio.to_thread(scrape, url))
        return all_books

    async def settled_books(self, prefix: str) -> Books:
        """Return the counts once no attribution is pending in topics with that prefix. Raises URLError."""
        deadline_s = asyncio.get_running_loop().time() + self.pending_s + _MARGIN_S
        while True:
            books = (await self.books()).of(prefix)
            is_late = asyncio.get_running_loop().time() > deadline_s
            if is_late or not any(amount for (reason, _), amount in books.reasons.items() if reason == PENDING):
                return books
            await asyncio.sleep(_POLL_S)

    async def end_gateway(self, gateway: int, *, orderly: bool) -> None:
        """SIGKILL or SIGTERM a gateway and wait until it serves again. Its counters are read first.

        Nobody fetches meanwhile: what a standby counts in a gateway's place is in the tables, but its counters end
        with it.
        """
        name = f"gateway-{gateway}"
        pid = await _settled(name, None)
        async with self.world.gate.shut():
            self._ended.add(await asyncio.to_thread(scrape, self.cluster.metrics[gateway - 1]))
            self.world.kop_dies(gateway, orderly=orderly)
            process = psutil.Process(pid)
            process.send_signal(signal.SIGTERM if orderly else signal.SIGKILL)
            await asyncio.to_thread(process.wait, _END_S)
            await _settled(name, pid)

    async def kill_coordinator(self, offsets_partition: int) -> None:
        """SIGKILL the coordinator, and return when its own actor serves the partition again."""
        name = f"offsets-{offsets_partition}"
        pid = await _settled(name, None)
        os.kill(pid, signal.SIGKILL)
        await _settled(name, pid)

    async def delete_mappings(self) -> None:
        """Delete every znode below /client_group_id, including KoP's."""
        await asyncio.to_thread(_delete_mappings, self.zookeeper.hosts)
        self.world.kop_store.nodes.clear()

    @asynccontextmanager
    async def zookeeper_away(self) -> AsyncIterator[None]:
        await asyncio.to_thread(self.zookeeper.stop)
        self.world.kop_store.available = False
        try:
            yield
        finally:
            at = self.zookeeper
            self.zookeeper = await asyncio.to_thread(EmbeddedZooKeeper.start, at.data_dir, at.port)
            self.world.kop_store.available = True


@contextmanager
def running(folder: Path, pending_s: float) -> Iterator[Muster]:
    """Run a Muster with a ZooKeeper that the benchmark controls; this process joins its Ray."""
    properties = {
        "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
        "group.initial.rebalance.delay.ms": "1000",
        "attribution.pending.ms": str(round(pending_s * 1000)),
    }
    zookeeper = EmbeddedZooKeeper.start(folder / "zookeeper")
    muster = None
    try:
        with Cluster(folder, gateways=GATEWAYS, properties=properties, zookeeper=zookeeper.hosts) as cluster:
            state = storage.read_state(cluster.storage)
            assert state is not None
            connection.connect(state.ray_address, state.ray_token_path)
            muster = Muster(cluster, zookeeper, World(cluster.bootstrap), pending_s)
            try:
                yield muster
            except BaseException:
                click.echo("\n".join(cluster.complaints()[-20:]), err=True)
                raise
            finally:
                _disconnect()
    finally:
        (muster.zookeeper if muster is not None else zookeeper).stop()


async def _settled(name: str, before: int | None) -> int:
    """Wait until every standby and the actor live, the actor in a process that is not ``before``; return its pid."""
    async with asyncio.timeout(_SETTLE_S):
        while True:
            actors = {actor["name"]: actor for actor in await _actors()}
            standbys = [actor["state"] for key, actor in actors.items() if key.startswith("standby-")]
            actor = actors.get(name)
            itself = actor and actor["state"] == "alive" and not actor.get("stand_in") and actor["pid"] != before
            if actor and itself and set(standbys) <= {"alive"}:
                return int(actor["pid"])
            await asyncio.sleep(0.1)


async def _actors() -> list[dict[str, Any]]:
    from muster.gateway.cluster import ClusterError, cluster_status  # imports Ray, which then requires its token

    try:
        status = await asyncio.to_thread(cluster_status)
    except ClusterError:
        return []
    return list(status["actors"])


def _disconnect() -> None:
    """Disconnect from Ray, which otherwise ends this process when it ends."""
    import ray

    ray.shutdown()


def _delete_mappings(hosts: str) -> None:
    zk = connect(hosts, timeout_s=_SCRAPE_S)
    try:
        for name in zk.get_children(CLIENT_GROUP_ID):
            try:
                zk.delete(f"{CLIENT_GROUP_ID}/{name}", recursive=True)
            except (NoNodeError, NotEmptyError):
                continue  # the reconciler changes it at the same time
    finally:
        zk.shut()
