"""The topic partitions of one ``log-<i>`` that are served: their logs, their listener, their history."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from muster.actors.config import in_force, log_config
from muster.actors.log.bucket.copies import ClientsCopyDisk
from muster.actors.log.bucket.opening import open_role
from muster.actors.log.bucket.role import RoleLogs
from muster.actors.log.history import LogHistory
from muster.actors.log.listener import LogServer
from muster.actors.log.open_logs import SharedDirectory
from muster.actors.log.partitions import Partitions
from muster.actors.runtime.channels import own_channels
from muster.actors.runtime.process import wall_ms
from muster.actors.runtime.settings import ClusterSettings
from muster.actors.wire.internal.listener import Server
from muster.placement.epochs import ActorEpoch, actor_epoch, next_epoch, when_superseded
from muster.placement.view import ClusterView
from muster.placement.zookeeper.client import ZooKeeperClient, ZooKeeperUnreachable, connect

log = logging.getLogger(__name__)

_ZOOKEEPER_S = 15.0
_SUPERSEDED_S = 2.0
"""How long a successor may take to request the hand-over, after which this process stops serving by itself."""


class ServedLogs:
    """The role ``log-<i>`` under one actor epoch: a :class:`muster.actors.serving.host.Served`.

    Each partition is opened on first use, with a leader epoch that is taken only while the actor epoch is the newest.
    """

    def __init__(
        self,
        settings: ClusterSettings,
        secret: bytes,
        owner: str,
        index: int,
        epoch: ActorEpoch,
        view: ClusterView,
        zk: ZooKeeperClient,
        failed: Callable[[], None],
        in_bucket: RoleLogs | None = None,
    ) -> None:
        """``owner`` is the actor whose process this is. ``in_bucket``: the logs of a cluster on a bucket."""
        self._config = config = settings.config
        self._name, self._owner, self._epoch = f"log-{index}", owner, epoch
        self._zk = zk
        self._view = view
        self._failed = failed
        self._in_bucket = in_bucket
        self._loop = asyncio.get_running_loop()
        self._superseded: asyncio.TimerHandle | None = None
        self._has_begun = self._is_over = False
        self._tasks: set[asyncio.Task[None]] = set()
        storage = Path(settings.storage)
        self._history = LogHistory(
            storage,
            index,
            flush_ms=config.metrics_end_offsets_flush_ms,
            topics=lambda: self._view,
            now_ms=wall_ms,
        )
        self._channels = own_channels(settings, view)
        self.partitions = Partitions(
            storage=in_bucket or SharedDirectory(storage / "logs"),
            config=log_config(in_force(config, view.configs)),
            topics=lambda: self._view,
            index=index,
            next_epoch=self._next_epoch,
            on_open=self._history.opened,
            verifier=self._channels,
        )
        self.server = Server(LogServer(self.partitions), secret)

    async def _next_epoch(self, topic: str, partition: int) -> int:
        return await asyncio.to_thread(next_epoch, self._zk, topic, partition, self._owner, holder=self._epoch)

    def follow(self, view: ClusterView) -> None:
        self._view = view
        self._channels.follow(view)
        self.partitions.configure(log_config(in_force(self._config, view.configs)))
        self._spawn(self._follow(view))

    async def _follow(self, view: ClusterView) -> None:
        await self.partitions.view_changed(view)
        if self._has_begun:  # the view before may not have had a topic of them yet
            await self._open_recovered()

    def begin(self) -> None:
        self.partitions.start_upkeep()
        self._history.start()
        if self._in_bucket is not None:
            self._in_bucket.watch(self._failed)
            self._spawn(self._open_recovered())
        self._has_begun = True
        self._spawn(asyncio.to_thread(when_superseded, self._zk, self._epoch, self._on_superseded))

    async def _open_recovered(self) -> None:
        """Open what holds back the write-ahead log, used or not."""
        if self._in_bucket is not None and not self._is_over:
            await self.partitions.open_all(self._in_bucket.recovered())

    def _on_superseded(self) -> None:
        """On a thread of the ZooKeeper client."""
        self._loop.call_soon_threadsafe(self._await_hand_over)

    def _await_hand_over(self) -> None:
        if not self._is_over and self._superseded is None:
            self._superseded = self._loop.call_later(_SUPERSEDED_S, self._end_superseded)

    def _end_superseded(self) -> None:
        log.warning("%s: epoch %d has a successor that did not request a hand-over", self._name, self._epoch.epoch)
        self._failed()

    async def resign(self) -> None:
        """Stop serving: waiting requests get NOT_LEADER_OR_FOLLOWER, unless they are durable."""
        self._is_over = True
        if self._superseded is not None:
            self._superseded.cancel()
        if self._in_bucket is not None:
            self._in_bucket.close_soon()
        await self.partitions.close()
        if self._in_bucket is not None:
            await self._in_bucket.close()
        self._channels.close()

    async def finish(self) -> None:
        await self._history.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class LogOpener:
    """Opens roles ``log-<i>``: a :class:`muster.actors.serving.host.Opener`."""

    def __init__(self, settings: ClusterSettings, secret: bytes, owner: str) -> None:
        """``owner`` is the actor whose process this is."""
        self._settings = settings
        self._secret = secret
        self._owner = owner
        self._connecting: asyncio.Future[ZooKeeperClient] | None = None

    async def prepare(self) -> None:
        """Connect to ZooKeeper."""
        await self._zookeeper()

    async def _zookeeper(self) -> ZooKeeperClient:
        if self._connecting is None or (self._connecting.done() and self._connecting.exception()):
            self._connecting = asyncio.ensure_future(self._connected())
        return await asyncio.shield(self._connecting)

    async def _connected(self) -> ZooKeeperClient:
        """Connect; wait while ZooKeeper is unavailable: a new process would have to do so, too."""
        while True:
            try:
                hosts, access = self._settings.zookeeper, self._settings.zookeeper_access
                return await asyncio.to_thread(connect, hosts, access, timeout_s=_ZOOKEEPER_S)
            except ZooKeeperUnreachable as error:
                log.warning("%s waits to serve: %s", self._owner, error)

    async def open(self, number: int, epoch: int, view: ClusterView, failed: Callable[[], None]) -> ServedLogs:
        """Open no partition yet. On a bucket: its write-ahead log; waits while the bucket is away.

        Raises Superseded if the actor epoch is not the newest any more; ZooKeeperUnreachable.
        """
        zk = await self._zookeeper()
        held = await asyncio.to_thread(actor_epoch, zk, f"log-{number}", epoch)
        in_bucket = await open_role(
            self._settings.location,
            f"log-{number}",
            epoch,
            Path(self._settings.storage),
            flush_interval_ms=self._settings.config.storage_object_flush_interval_ms,
            disk=ClientsCopyDisk(),
        )
        return ServedLogs(self._settings, self._secret, self._owner, number, held, view, zk, failed, in_bucket)

    async def close(self) -> None:
        """Disconnect from ZooKeeper."""
        if self._connecting is not None and self._connecting.done() and not self._connecting.exception():
            await asyncio.to_thread(self._connecting.result().shut)
