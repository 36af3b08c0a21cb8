"""The open logs of one log actor. Each is opened on first use."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeVar
from uuid import UUID

from muster.actors.log.committer import RETRY_AFTER_S
from muster.actors.log.config import LogConfig
from muster.actors.log.errors import LogError, NotLeader, StorageError
from muster.actors.log.files import directory as directories
from muster.actors.log.files.room import SharedDisk
from muster.actors.log.partition import PartitionLog
from muster.actors.log.trouble import Trouble
from muster.actors.wire.internal.leader_epochs import LeaderEpoch
from muster.actors.wire.limited_log import LimitedLog
from muster.placement.view import Topic
from muster.placement.zookeeper.client import ZooKeeperUnreachable

log = logging.getLogger(__name__)

T = TypeVar("T")
TopicIdPartition = tuple[UUID, int]
"""Topic id and partition."""
OnOpen = Callable[[str, int, PartitionLog], None]
"""Called with the topic, partition and log of each newly opened log, before the log is used. Must not raise."""


class LogStorage(Protocol):
    """Where the logs of a role are."""

    async def open_log(
        self,
        topic: str,
        partition: int,
        *,
        topic_id: UUID,
        epoch: int,
        config: LogConfig,
        now_ms: Callable[[], int],
    ) -> PartitionLog:
        """Open a log with a leader epoch that no call had before. Raises LogError."""

    async def is_stored(self, topic: str, partition: int, topic_id: UUID) -> bool:
        """Whether there is anything of that partition. Raises StorageError if that is unknown."""

    async def delete(self, topic: str, partition: int, topic_id: UUID) -> None:
        """Delete what is there of a partition whose log is closed. Raises StorageError."""


class SharedDirectory:
    """Logs in a directory that all hosts share."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._disk = SharedDisk()

    async def open_log(
        self,
        topic: str,
        partition: int,
        *,
        topic_id: UUID,
        epoch: int,
        config: LogConfig,
        now_ms: Callable[[], int],
    ) -> PartitionLog:
        return await asyncio.to_thread(
            PartitionLog.open,
            self._folder / directories.name_of(topic, partition),
            topic_id=topic_id,
            epoch=epoch,
            config=config,
            now_ms=now_ms,
            disk=self._disk,
        )

    async def is_stored(self, topic: str, partition: int, topic_id: UUID) -> bool:
        del topic_id
        return (self._folder / directories.name_of(topic, partition)).is_dir()

    async def delete(self, topic: str, partition: int, topic_id: UUID) -> None:
        path = self._folder / directories.name_of(topic, partition)
        try:
            await asyncio.to_thread(directories.remove, path, topic_id)
        except OSError as error:
            raise StorageError(f"{path} cannot be removed: {error}") from error


class _Partition:
    """``log`` once it is open; until then, the actions that wait for it, in order."""

    __slots__ = ("log", "opening", "waiting")

    def __init__(self) -> None:
        self.log: PartitionLog | None = None
        self.opening: asyncio.Task[None] | None = None
        self.waiting: list[Callable[[PartitionLog | LogError], None]] = []


class _Failed:
    """A partition that could not be opened because of the disk. Opening is not retried immediately."""

    __slots__ = ("error", "retry_at_s", "trouble")

    def __init__(self, name: str) -> None:
        self.error: StorageError | None = None
        self.retry_at_s = 0.0
        self.trouble = Trouble(f"{name} cannot be opened")

    def failed(self, error: StorageError) -> None:
        self.error = error
        self.retry_at_s = asyncio.get_running_loop().time() + RETRY_AFTER_S
        self.trouble.failed(error.__cause__ or error)


class OpenLogs:
    """Opens, keeps and closes logs under ``<storage>/logs``."""

    def __init__(
        self,
        storage: LogStorage,
        config: LogConfig,
        next_epoch: Callable[[str, int], Awaitable[int]],
        now_ms: Callable[[], int],
        on_open: OnOpen = lambda *_: None,
    ) -> None:
        self._storage = storage
        self.config = config
        """The configuration of topics without overrides. :meth:`reconfigure` applies a change."""
        self._topics: dict[UUID, Topic] = {}
        """Topics in the newest view."""
        self._next_epoch = next_epoch
        self._now_ms = now_ms
        self._on_open = on_open
        self._partitions: dict[TopicIdPartition, _Partition] = {}
        self._failed: dict[TopicIdPartition, _Failed] = {}
        self._limited_log = LimitedLog(log)
        self._is_closed = False

    def use(self, topic: Topic, partition: int, action: Callable[[PartitionLog], T]) -> asyncio.Future[T]:
        """Call ``action`` with the log: now if it is open, else once it is open, in the order of the calls.

        The future gets the action's result, or what the action or the opening raised.
        """
        outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def run(found: PartitionLog | LogError) -> None:
            if outcome.done():
                return
            try:
                if isinstance(found, LogError):
                    raise found.again()
                outcome.set_result(action(found))
            except Exception as error:  # other actions wait behind this one
                outcome.set_exception(error)
                outcome.exception()  # keeps asyncio from reporting it if the caller was cancelled meanwhile

        failed = self._failed.get((topic.topic_id, partition))
        if failed is not None and failed.error is not None and asyncio.get_running_loop().time() < failed.retry_at_s:
            run(failed.error)
            return outcome
        entry = self._entry(topic, partition)
        if entry is None:
            run(NotLeader("the log actor is closing"))
        elif entry.log is not None:
            run(entry.log)
        else:
            entry.waiting.append(run)
        return outcome

    def open_log(self, topic: Topic, partition: int) -> PartitionLog | None:
        """Return the log if it is open and usable."""
        entry = self._partitions.get((topic.topic_id, partition))
        return entry.log if entry is not None and entry.log is not None and not entry.log.is_over else None

    def _entry(self, topic: Topic, partition: int) -> _Partition | None:
        if self._is_closed:
            return None
        key = (topic.topic_id, partition)
        entry = self._partitions.get(key)
        if entry is None or (entry.log is not None and entry.log.is_over):
            lost = entry.log if entry is not None else None
            entry = self._partitions[key] = _Partition()
            entry.opening = asyncio.get_running_loop().create_task(self._open(entry, topic, partition, lost))
        return entry

    async def _open(self, entry: _Partition, topic: Topic, partition: int, lost: PartitionLog | None) -> None:
        name = f"{topic.name}-{partition}"
        found: PartitionLog | LogError = NotLeader(f"{topic.name}-{partition} was not opened")
        try:
            if lost is not None:
                await lost.close()
            found = entry.log = await self._activate(topic, partition)
            entry.log.config = self._config_of(topic)  # it may have changed meanwhile
            self._on_open(topic.name, partition, found)
            if (failed := self._failed.pop((topic.topic_id, partition), None)) is not None:
                failed.trouble.over()
        except StorageError as error:
            self._failed.setdefault((topic.topic_id, partition), _Failed(f"{topic.name}-{partition}")).failed(error)
            found = error
        except LogError as error:
            if not isinstance(error.__cause__, ZooKeeperUnreachable):  # an outage of ZooKeeper has its own lines
                self._limited_log.warning("refused", name, "%s cannot be opened: %s", name, error)
            found = error
        except Exception as error:
            self._limited_log.exception(error, "failed", name, "%s cannot be opened", name)
            found = NotLeader(f"{topic.name}-{partition} cannot be opened: {error!r}")
        finally:
            if entry.log is None and self._partitions.get((topic.topic_id, partition)) is entry:
                del self._partitions[topic.topic_id, partition]
            for run in entry.waiting:
                run(found)
            entry.waiting.clear()

    async def _activate(self, topic: Topic, partition: int) -> PartitionLog:
        try:
            epoch = await self._next_epoch(topic.name, partition)
        except Exception as error:
            raise NotLeader(f"no leader epoch to be had: {error!r}") from error
        return await self._storage.open_log(
            topic.name,
            partition,
            topic_id=topic.topic_id,
            epoch=epoch,
            config=self._config_of(topic),
            now_ms=self._now_ms,
        )

    def _config_of(self, topic: Topic) -> LogConfig:
        newest, config = self._topics.get(topic.topic_id, topic), self.config
        for name, text in newest.config.items():
            try:
                config = config.override({name: text})
            except ValueError as error:  # the others apply: without its retention.ms a topic would lose records
                self._limited_log.warning(
                    "config", topic.name, "%s of topic %s is left out: %s", name, topic.name, error
                )
        return config

    async def open_stored(self, topic: Topic, partition: int) -> None:
        """Open the log if there is anything of it. On failure it is left for the next call."""
        entry = self._partitions.get((topic.topic_id, partition))
        if entry is None or entry.log is None:
            with suppress(LogError):
                if await self._storage.is_stored(topic.name, partition, topic.topic_id):
                    await self.use(topic, partition, lambda log: log)

    def open_logs(self) -> list[PartitionLog]:
        """Return the logs that are open now."""
        return [entry.log for entry in self._partitions.values() if entry.log is not None and not entry.log.is_over]

    def leader_epochs(self) -> list[LeaderEpoch]:
        """Return the leader epochs of the logs that are open now."""
        return [
            LeaderEpoch(topic_id, partition, entry.log.epoch)
            for (topic_id, partition), entry in self._partitions.items()
            if entry.log is not None and not entry.log.is_over
        ]

    def reconfigure(self, topics: Iterable[Topic]) -> None:
        """Apply the configurations of these topics, which are all topics that exist."""
        self._topics = {topic.topic_id: topic for topic in topics}
        configs: dict[UUID, LogConfig] = {}
        for (topic_id, _), entry in self._partitions.items():
            if entry.log is not None and (topic := self._topics.get(topic_id)) is not None:
                if topic_id not in configs:
                    configs[topic_id] = self._config_of(topic)
                entry.log.config = configs[topic_id]

    async def delete(self, topic: Topic, partition: int) -> None:
        """Close the partition if it is open, and remove its directory if it exists. Failures are logged."""
        try:
            self._failed.pop((topic.topic_id, partition), None)
            await self._close(self._partitions.pop((topic.topic_id, partition), None))
            await self._storage.delete(topic.name, partition, topic.topic_id)
        except StorageError as error:
            log.error("%s", error)

    async def close(self) -> None:
        """Make everything appended durable, and close all logs. Every later use gets NotLeader."""
        self._is_closed = True
        partitions = list(self._partitions.values())
        self._partitions.clear()
        await asyncio.gather(*(self._close(entry) for entry in partitions))
        self._limited_log.flush()

    @staticmethod
    async def _close(entry: _Partition | None) -> None:
        if entry is None:
            return
        if entry.opening is not None:
            await asyncio.wait([entry.opening])
        if entry.log is not None:
            await entry.log.close()
