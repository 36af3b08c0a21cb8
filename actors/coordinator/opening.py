"""Opens partitions of coordinators: the log, then the coordinator that it holds."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from muster.actors.coordinator.shell import CoordinatorShell
from muster.actors.log.bucket.opening import open_role
from muster.actors.log.config import LogConfig
from muster.actors.log.files.directory import name_of
from muster.actors.log.partition import PartitionLog
from muster.actors.runtime.process import now_ms
from muster.actors.runtime.settings import ClusterSettings
from muster.actors.serving.host import Served
from muster.placement.view import COORDINATORS, ClusterView

log = logging.getLogger(__name__)


class ServedCoordinator(Served, Protocol):
    """A partition of a coordinator that is served under one leader epoch."""

    @property
    def core(self) -> CoordinatorShell[Any]:
        """The shell of the partition."""

    def activate(self) -> None:
        """Serve requests from now on. Called once the log is replayed."""


S = TypeVar("S", bound=ServedCoordinator)


class CoordinatorOpener(ABC, Generic[S]):
    """Opens roles ``offsets-<p>`` or ``transactions-<p>``: a :class:`muster.actors.serving.host.Opener`."""

    topic: ClassVar[str]

    def __init__(self, settings: ClusterSettings, secret: bytes) -> None:
        self._settings = settings
        self._secret = secret

    @abstractmethod
    def _log_config(self, view: ClusterView) -> LogConfig:
        """Return the configuration of the partitions' logs by that view."""

    @abstractmethod
    def _served(
        self, partition: int, epoch: int, view: ClusterView, partition_log: PartitionLog, failed: Callable[[], None]
    ) -> S:
        """Return the object that serves the partition, once it is loaded."""

    async def prepare(self) -> None:
        """There is nothing to prepare."""

    async def close(self) -> None:
        """There is nothing to undo."""

    async def open(self, number: int, epoch: int, view: ClusterView, failed: Callable[[], None]) -> S:
        """Open the log of that partition with the leader epoch, and replay it."""
        partition_log = await self._open_log(number, epoch, view, failed)
        served = self._served(number, epoch, view, partition_log, failed)
        try:
            records = await asyncio.to_thread(served.core.load)
            served.activate()
        except BaseException:
            await served.resign()
            await served.finish()
            raise
        log.info("%s-%d: %d records replayed", COORDINATORS[self.topic], number, records)
        return served

    async def _open_log(
        self, partition: int, epoch: int, view: ClusterView, failed: Callable[[], None]
    ) -> PartitionLog:
        topic_id, config = view.topics[self.topic].topic_id, self._log_config(view)
        storage = Path(self._settings.storage)
        role = await open_role(
            self._settings.location,
            f"{COORDINATORS[self.topic]}-{partition}",
            epoch,
            storage,
            flush_interval_ms=self._settings.config.storage_object_flush_interval_ms,
            is_of_one=True,
        )
        if role is None:
            folder = storage / "logs" / name_of(self.topic, partition)
            return await asyncio.to_thread(
                PartitionLog.open, folder, topic_id=topic_id, epoch=epoch, config=config, now_ms=now_ms
            )
        try:
            opened = await role.open_log(
                self.topic, partition, topic_id=topic_id, epoch=epoch, config=config, now_ms=now_ms
            )
        except BaseException:
            role.abandon()
            raise
        role.watch(failed)
        return opened
