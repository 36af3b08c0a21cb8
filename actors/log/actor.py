"""The Ray actor ``log-<i>``: a thin shell around :class:`LogService`."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from muster.actors.config import in_force, log_config
from muster.actors.log.cumulative_size import CumulativeSizes, TopicPartition
from muster.actors.log.history import LogHistory
from muster.actors.log.server import LogServer
from muster.actors.log.service import LogService
from muster.actors.runtime.actor import Actor
from muster.actors.runtime.follow import ViewFollower
from muster.actors.runtime.process import wall_ms
from muster.actors.runtime.settings import ClusterSettings
from muster.actors.runtime.started import Started
from muster.actors.wire.server import Server
from muster.placement.epochs import next_epoch, take_actor_epoch, when_superseded
from muster.placement.view import ClusterView


class LogActor(Actor):
    """``log-<i>``: serves the topic partitions that :meth:`ClusterView.log_of` assigns to it."""

    watches_controller = True

    def __init__(self, settings: ClusterSettings, secret: bytes, index: int) -> None:
        super().__init__(settings, secret, f"log-{index}")
        self._index = index
        self._tasks: set[asyncio.Task[None]] = set()

    async def _start(self) -> Started:
        self._zk = await self._zookeeper()
        self._epoch = await asyncio.to_thread(take_actor_epoch, self._zk, self.name)
        self._follower = ViewFollower(self.settings, self.name)
        self._view = await self._follower.first()
        config, storage = self.settings.config, Path(self.settings.storage)
        self._history = LogHistory(
            storage,
            self._index,
            flush_ms=config.metrics_end_offsets_flush_ms,
            topics=lambda: self._view,
            now_ms=wall_ms,
        )
        self._service = LogService(
            storage=storage,
            config=log_config(in_force(config, self._view.configs)),
            topics=lambda: self._view,
            index=self._index,
            next_epoch=self._next_epoch,
            on_open=self._history.opened,
        )
        self._service.start_upkeep()
        self._history.start()
        self._follower.follow(self._on_view)
        self._server = Server(LogServer(self._service), self.secret)
        await asyncio.to_thread(when_superseded, self._zk, self._epoch, lambda: os._exit(1))
        return await self._listen(self._server, self.name)

    def _on_view(self, view: ClusterView) -> None:
        self._view = view
        self._service.configure(log_config(in_force(self.settings.config, view.configs)))
        task = asyncio.get_running_loop().create_task(self._service.view_changed(view))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _next_epoch(self, topic: str, partition: int) -> int:
        return await asyncio.to_thread(next_epoch, self._zk, topic, partition, self.name, holder=self._epoch)

    async def audit_cumulative_sizes(
        self, queries: list[tuple[TopicPartition, tuple[int, ...]]]
    ) -> dict[TopicPartition, CumulativeSizes]:
        """Cumulative sizes of partitions: see :meth:`LogService.cumulative_sizes`."""
        return await self._service.cumulative_sizes(queries)

    async def stop(self) -> None:
        """Close the logs. Everything acknowledged is durable already."""
        if self._started is None:
            return
        self._follower.stop()
        await self._server.stop()
        await self._service.close()
        await self._history.close()
        await asyncio.to_thread(self._zk.shut)
