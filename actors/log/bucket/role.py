"""The logs of one role, and its write-ahead log: :mod:`muster.actors.log.bucket`."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import UUID

from muster.actors.log.bucket.copies import COPY_DISK, Copy, folder_of, forget_after_boot, rebuilt
from muster.actors.log.bucket.manifest import FOLDER, ManifestObject, place_of
from muster.actors.log.bucket.storage import MAX_SEGMENT_BYTES, BucketStorage
from muster.actors.log.config import LogConfig
from muster.actors.log.errors import LogError, NotLeader, StorageError
from muster.actors.log.files import directory as directories
from muster.actors.log.files import recovery
from muster.actors.log.files.disk import Disk
from muster.actors.log.files.segment import Segment
from muster.actors.log.partition import PartitionLog
from muster.actors.log.wal.objects import Entry
from muster.actors.log.wal.opening import Recovered, open_wal
from muster.actors.log.wal.writer import Wal
from muster.actors.object_storage.store import NoSuchObject, ObjectStorageError, ObjectStore

log = logging.getLogger(__name__)

MAX_WAL_BYTES = 64 << 20
"""Beyond that, partitions get new segments, so that the oldest part of the write-ahead log is not needed any more."""
_MAX_QUEUED_BYTES = 32 << 20
_CLOSE_S = 4.0
"""Less than a successor waits for its predecessor to resign."""
_MAX_WAIT_S = 10.0
"""After an object has been on its way for so long, further batches are refused: what waits already goes on waiting."""

TopicIdPartition = tuple[UUID, int]


class RoleLogs:
    """For the event loop's thread. Use :meth:`open`."""

    def __init__(
        self,
        store: ObjectStore,
        folder: Path,
        wal: Wal,
        recovered: Recovered,
        *,
        disk: Disk,
        is_of_one: bool,
        max_wal_bytes: int,
    ) -> None:
        self.store = store
        self.wal = wal
        self._disk = disk
        self._is_of_one = is_of_one
        self._closing: asyncio.TimerHandle | None = None
        self._watching: asyncio.Task[None] | None = None
        self._folder = folder
        self._max_wal_bytes = max_wal_bytes
        self._recovered = recovered
        """For partitions that are not open yet."""
        self._recovered_from = wal.first_needed
        self._open: dict[TopicIdPartition, tuple[PartitionLog, BucketStorage]] = {}
        recovered_bytes = sum(entry.size_bytes for entries in recovered.values() for entry in entries)
        self._sizes = deque([(wal.first_needed, recovered_bytes)])
        """Bytes by the number of their object, or less, ascending."""
        self._bytes = recovered_bytes
        self._roll_at_bytes = max_wal_bytes
        self._shortening: asyncio.Task[None] | None = None
        self._is_due = False

    @classmethod
    async def open(
        cls,
        store: ObjectStore,
        role: str,
        epoch: int,
        folder: Path,
        *,
        flush_interval_ms: int = 0,
        disk: Disk = COPY_DISK,
        is_of_one: bool = False,
        max_wal_bytes: int = MAX_WAL_BYTES,
    ) -> RoleLogs:
        """Take over the role, with an epoch that no call had before. Waits while the bucket is away.

        ``folder``: for the copies of this node, on that disk. ``is_of_one``: the role has one log, and is closed with
        it. Raises FencedEpoch if this or a newer epoch has the role; StorageError or OSError.
        """
        await asyncio.to_thread(forget_after_boot, folder)
        wal, recovered = await open_wal(store, role, epoch, flush_interval_ms=flush_interval_ms)
        return cls(store, folder, wal, recovered, disk=disk, is_of_one=is_of_one, max_wal_bytes=max_wal_bytes)

    def watch(self, failed: Callable[[], None]) -> None:
        """Call ``failed`` if the write-ahead log ends by itself: it is fenced, or damaged."""

        async def watch() -> None:
            await self.wal.ended.wait()
            failed()

        self._watching = asyncio.get_running_loop().create_task(watch())

    def recovered(self) -> list[TopicIdPartition]:
        """Return the partitions that are not open yet and have batches in the write-ahead log, which they hold back."""
        return [*self._recovered]

    async def is_stored(self, topic: str, partition: int, topic_id: UUID) -> bool:
        """Whether there is anything of that partition. Raises StorageError if that is unknown."""
        try:
            await self.store.read(f"{FOLDER}{place_of(topic, partition, topic_id)}")
        except NoSuchObject:
            return False
        except ObjectStorageError as error:
            raise StorageError(str(error)) from error
        return True

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
        """Open a partition with a leader epoch that no call had before. Waits while the bucket is away.

        Raises NotLeader if this process had the partition open before, or is fenced; StorageError.
        """
        key = topic_id, partition
        if key in self._open:
            raise NotLeader(f"{topic}-{partition} was open before, under this epoch of its role")
        place = place_of(topic, partition, topic_id)
        manifest = await ManifestObject.take(self.store, place, epoch, self.wal.writer.hex(), self._check)
        storage = BucketStorage(self, place, topic_id, partition, manifest, self._recovered_from)
        directory = self._folder / directories.name_of(topic, partition)
        copy = Copy(self.store, place, directory, topic_id, epoch, MAX_SEGMENT_BYTES)
        try:
            tail = rebuilt(manifest.content, self._recovered.get(key, ()))
            await copy.make(manifest.content, tail)
            found = await asyncio.to_thread(
                recovery.recover,
                *(directory, epoch, storage, copy.next_serial, config.index_interval_bytes, self._disk),
            )
        except (OSError, StorageError) as error:
            raise StorageError(f"{place} cannot be opened: {error}") from error
        opened = PartitionLog(directory, topic_id, storage, found, epoch, config, now_ms, self._disk)
        storage.uploaded = opened.publish_soon
        self._begin(storage, found.segments[:-1])
        self._recovered.pop(key, None)
        self._open[key] = opened, storage
        return opened

    def _begin(self, storage: BucketStorage, recovered: Sequence[Segment]) -> None:
        storage.recovered(recovered)

    def _check(self) -> None:
        if self.wal.over is not None:
            raise self.wal.over.again()

    async def delete(self, topic: str, partition: int, topic_id: UUID) -> None:
        """Delete what is stored of a partition of a topic that was deleted; its log is closed.

        Raises StorageError: then some of it is still there.
        """
        self._recovered.pop((topic_id, partition), None)
        if (opened := self._open.pop((topic_id, partition), None)) is not None:
            opened[1].cancel()
            await opened[1].settled()
        place = place_of(topic, partition, topic_id)
        try:
            names = [listed.name async for listed in self.store.list(folder_of(place))]
            await self.store.delete([*names, f"{FOLDER}{place}"])
            await asyncio.to_thread(directories.remove, self._folder / directories.name_of(topic, partition), topic_id)
        except (ObjectStorageError, OSError) as error:
            raise StorageError(f"{place} cannot be removed: {error}") from error
        finally:
            self.published()

    def admit(self) -> None:
        """Raise StorageError if nothing more can be taken now: object storage does not keep up, or is away."""
        if self.wal.queued_bytes > _MAX_QUEUED_BYTES:
            raise StorageError(f"{self.wal.queued_bytes >> 20} MiB wait for object storage already")
        if (waiting_s := self.wal.waiting_s) > _MAX_WAIT_S:
            raise StorageError(f"object storage has not taken a write for {waiting_s:.0f} s")

    def append(self, entry: Entry) -> asyncio.Future[int]:
        number = self.wal.next_number
        if self._sizes and self._sizes[-1][0] == number:
            self._sizes[-1] = number, self._sizes[-1][1] + entry.size_bytes
        else:
            self._sizes.append((number, entry.size_bytes))
        self._bytes += entry.size_bytes
        if self._bytes >= self._roll_at_bytes:
            self.published()
        return self.wal.append([entry])

    def published(self) -> None:
        """Collect, soon, what is not needed of the write-ahead log any more."""
        self._is_due = True
        if self._shortening is None and self.wal.over is None:
            self._shortening = asyncio.get_running_loop().create_task(self._shorten())
            self._shortening.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._shortening = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the write-ahead log is not shortened", exc_info=error)

    async def _shorten(self) -> None:
        while self._is_due and self.wal.over is None:
            self._is_due = False
            with suppress(LogError):
                await self._roll_oldest()
                await self.wal.collect(self._needed())
            while self._sizes and self._sizes[0][0] < self.wal.first_needed:
                self._bytes -= self._sizes.popleft()[1]
            self._roll_at_bytes = max(self._max_wal_bytes, self._bytes + self._max_wal_bytes // 8)

    def _needed(self) -> int:
        """Return the number of the first object that has anything that no manifest covers."""
        found = [self.wal.next_number]
        if self._recovered:
            found.append(self._recovered_from)
        found += [needed for _, storage in self._open.values() if (needed := storage.needed) is not None]
        return min(found)

    async def _roll_oldest(self) -> None:
        """Close the segments that hold back the older half of a write-ahead log that is too long."""
        if self._bytes < self._max_wal_bytes:
            return
        surplus = self._bytes - self._max_wal_bytes // 2
        until = self.wal.next_number
        for number, size_bytes in self._sizes:
            surplus -= size_bytes
            if surplus <= 0:
                until = number
                break
        for opened, storage in [*self._open.values()]:
            if not opened.is_over and storage.holds(opened.active_segment, until):
                with suppress(LogError):
                    await opened.roll()

    def log_closing(self) -> None:
        if self._is_of_one and self._closing is None:
            self.close_soon()

    async def log_closed(self) -> None:
        if self._is_of_one:
            await self.close()

    def close_soon(self) -> None:
        """Abandon it unless it is closed within some seconds: while object storage is away, logs wait for it."""
        if self._watching is not None:
            self._watching.cancel()
        self._closing = asyncio.get_running_loop().call_later(_CLOSE_S, self.abandon)

    def abandon(self) -> None:
        """End without waiting: what has not been acknowledged fails, and may be durable or not."""
        self.wal.abandon()

    async def close(self) -> None:
        """End. Close all logs before; waits for what they still have on its way. May be called again."""
        await self.wal.close()
        if self._closing is not None:
            self._closing.cancel()
        if self._shortening is not None:
            self._shortening.cancel()
            await asyncio.wait([self._shortening])
        for _, storage in self._open.values():
            storage.cancel()
            await storage.settled()
