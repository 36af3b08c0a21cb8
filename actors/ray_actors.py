"""The Ray actors, as thin as they can be: they make the parts, connect them, and start and stop them."""

from __future__ import annotations

import asyncio
import logging
import os
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import ray

from actors.admin import Started
from actors.config import group_config, log_config, offsets_log_config
from actors.follow import ViewFollower
from actors.log.partition import PartitionLog
from actors.log.service import LogService
from actors.log_server import LogServer
from actors.mapping_writer import MappingWriter
from actors.offsets import OffsetsPartition
from actors.rebalance_history import RebalanceHistory
from actors.reconciler import Reconciler
from actors.runtime import log_to_file, now_ms, socket_path
from actors.settings import ClusterSettings
from actors.storage import check_shared
from actors.tables.rebalances import RebalanceStore
from actors.wire.server import Server
from placement.epochs import next_epoch
from placement.registration import Registration
from placement.view import OFFSETS_TOPIC, ClusterView, Topic
from placement.zookeeper import ZooKeeperClient, connect

log = logging.getLogger(__name__)

_ZOOKEEPER_S = 15.0


def _is_loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or (host is not None and ip_address(host).is_loopback)
    except ValueError:
        return False


class _Actor:
    """What all of them share. ``start`` is called whenever the process is new, and perhaps more than once."""

    def __init__(self, settings: ClusterSettings, secret: bytes, name: str) -> None:
        self.settings = settings
        self.secret = secret
        self.name = name
        self._started: asyncio.Future[Started] | None = None
        log_to_file(Path(settings.storage), name)

    async def start(self) -> Started:
        """Come up; the same answer however often it is asked."""
        if self._started is None or (self._started.done() and self._started.exception()):
            self._started = asyncio.ensure_future(self._start_checked())
        return await asyncio.shield(self._started)

    async def _start_checked(self) -> Started:
        await asyncio.to_thread(check_shared, Path(self.settings.storage), self.settings.cluster_id)
        return await self._start()

    async def _start(self) -> Started:
        raise NotImplementedError

    async def park(self, pid: int) -> None:
        """Returns only when this is not the process that was started: else Ray tells the caller of its death."""
        if pid == os.getpid():
            await asyncio.Event().wait()

    def _node(self) -> tuple[str, str]:
        address = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
        return ray.get_runtime_context().get_node_id(), str(address)

    async def _listen(self, server: Server) -> Started:
        """Listen for gateways; on loopback only where the gateways do (a Ray of one node)."""
        node_id, host = self._node()
        if _is_loopback(self.settings.host):
            host = "127.0.0.1"
        path = socket_path(self.settings.cluster_id, self.name)
        endpoint = await server.start(node_id=node_id, host=host, path=path)
        return Started(pid=os.getpid(), node_id=node_id, endpoint=endpoint)

    async def _zookeeper(self) -> ZooKeeperClient:
        return await asyncio.to_thread(connect, self.settings.zookeeper, timeout_s=_ZOOKEEPER_S)


class LogActor(_Actor):
    """``log-<i>``: the topic partitions that rendezvous hashing gives it."""

    def __init__(self, settings: ClusterSettings, secret: bytes, index: int) -> None:
        super().__init__(settings, secret, f"log-{index}")
        self._index = index
        self._tasks: set[asyncio.Task[None]] = set()

    async def _start(self) -> Started:
        self._zk = await self._zookeeper()
        self._follower = ViewFollower(self.settings)
        self._view = await self._follower.first()
        self._service = LogService(
            storage=Path(self.settings.storage),
            config=log_config(self.settings.config),
            topics=lambda: self._view,
            index=self._index,
            next_epoch=self._next_epoch,
        )
        self._service.start_upkeep()
        self._follower.follow(self._on_view)
        self._server = Server(LogServer(self._service), self.secret)
        return await self._listen(self._server)

    def _on_view(self, view: ClusterView) -> None:
        self._view = view
        task = asyncio.get_running_loop().create_task(self._service.view_changed(view))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _next_epoch(self, topic: str, partition: int) -> int:
        return await asyncio.to_thread(next_epoch, self._zk, topic, partition, self.name)

    async def stop(self) -> None:
        """Close the logs; nothing that was acknowledged waits for this."""
        if self._started is None:
            return
        self._follower.stop()
        await self._server.stop()
        await self._service.close()
        await asyncio.to_thread(self._zk.shut)


class OffsetsActor(_Actor):
    """``offsets-<p>``: one partition of ``__consumer_offsets`` and the groups that hash to it."""

    def __init__(self, settings: ClusterSettings, secret: bytes, partition: int) -> None:
        super().__init__(settings, secret, f"offsets-{partition}")
        self._partition = partition

    async def _start(self) -> Started:
        zk = await self._zookeeper()
        epoch = await asyncio.to_thread(next_epoch, zk, OFFSETS_TOPIC, self._partition, self.name)
        await asyncio.to_thread(zk.shut)
        self._follower = ViewFollower(self.settings)
        view = await self._follower.first()
        self._writer = MappingWriter(self.settings.zookeeper)
        topic = view.topics[OFFSETS_TOPIC]
        partition_log = await asyncio.to_thread(self._open, topic, epoch)
        self._core = OffsetsPartition(
            partition=self._partition,
            epoch=epoch,
            config=group_config(self.settings.config),
            partition_log=partition_log,
            sink=self._writer,
            topic_id=topic.topic_id,
        )
        self._history = RebalanceHistory(
            self._core,
            RebalanceStore(Path(self.settings.storage) / "metrics", self._partition, now_ms=now_ms),
            flush_ms=self.settings.config.metrics_rebalances_flush_ms,
            now_ms=now_ms,
        )
        records = await asyncio.to_thread(self._core.load)
        self._core.activate()
        self._history.start()
        self._core.follow(view)
        self._follower.follow(self._core.follow)
        self._writer.put(self._core.registrations())
        log.info("epoch %d, %d records replayed", epoch, records)
        self._server = Server(self._core, self.secret)
        return await self._listen(self._server)

    def _open(self, topic: Topic, epoch: int) -> PartitionLog:
        folder = Path(self.settings.storage) / "logs" / f"{OFFSETS_TOPIC}-{self._partition}"
        config = offsets_log_config(self.settings.config)
        return PartitionLog.open(folder, topic_id=topic.topic_id, epoch=epoch, config=config, now_ms=now_ms)

    async def registrations(self) -> tuple[Registration, ...]:
        """Who consumes for which group; for the reconciler."""
        await self.start()
        return self._core.registrations()

    async def stop(self) -> None:
        """Answer what waits, write what is pending, close the log. No registration is removed."""
        if self._started is None:
            return
        self._follower.stop()
        await self._core.stop()
        await self._history.close()
        await self._server.stop()
        await asyncio.to_thread(self._writer.close, 2.0)


class ReconcilerActor(_Actor):
    """``reconciler``: compares what Active coordinators hold with what ZooKeeper holds, and repairs."""

    def __init__(self, settings: ClusterSettings, secret: bytes) -> None:
        super().__init__(settings, secret, "reconciler")

    async def _start(self) -> Started:
        self._follower = ViewFollower(self.settings)
        self._view = await self._follower.first()
        self._follower.follow(self._on_view)
        interval_ms = self.settings.config.reconciler_interval_ms
        self._reconciler = Reconciler(self.settings.zookeeper, interval_ms, self._registrations)
        self._task = asyncio.get_running_loop().create_task(self._reconciler.run())
        return Started(pid=os.getpid(), node_id=self._node()[0])

    def _on_view(self, view: ClusterView) -> None:
        self._view = view

    async def _registrations(self) -> dict[int, tuple[Registration, ...]]:
        """Of every offsets partition that is Active and answers; the others are not trusted."""
        active = [partition for partition, endpoint in self._view.offsets.items() if endpoint is not None]
        answers = await asyncio.gather(*(self._ask(partition) for partition in active), return_exceptions=True)
        return {
            partition: answer
            for partition, answer in zip(active, answers, strict=True)
            if not isinstance(answer, BaseException)
        }

    async def _ask(self, partition: int) -> tuple[Registration, ...]:
        handle = await asyncio.to_thread(ray.get_actor, f"offsets-{partition}", self.settings.namespace)
        async with asyncio.timeout(5):
            registrations: tuple[Registration, ...] = await handle.registrations.remote()
        return registrations

    async def status(self) -> dict[str, Any]:
        """Rounds, repairs by kind, divergence."""
        await self.start()
        status: dict[str, Any] = self._reconciler.status()
        return status

    async def stop(self) -> None:
        if self._started is None:
            return
        self._follower.stop()
        self._task.cancel()
        await asyncio.to_thread(self._reconciler.close)
