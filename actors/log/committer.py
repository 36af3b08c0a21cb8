"""The write side of a partition's log: a queue, one commit at a time, all or nothing.

**Group commit.** A write gets its place in the queue immediately. One task per log takes the whole queue, writes it
with one call, makes it durable with one ``fdatasync`` in a thread, checks that its claim still holds, and then
completes all of these writes; writes that are pushed meanwhile form the next commit. The high watermark is the end of
what is durable and acknowledged.

**Without fdatasync.** With flush.messages above 1 it comes later (``muster.actors.log.upkeep.flushing``). A commit then
is a copy into the page cache, and is made on the event loop: the way to a thread and back was half of the processor
time of a Produce. Only if the kernel is slow, as when it makes writers wait for the disk, threads do it for a while.

**Write-ahead.** With object storage a batch goes into the write-ahead log of its role as soon as it has its place, and
comes to its turn here once it is durable there. The commit is such a copy, then. One that fails is made again, in a new
segment: what is durable does not fail.

**Disk failures.** A failed write or ``fdatasync`` fails every write that is not yet acknowledged. The content of the
file behind the durable end is not trusted: after a failed ``fdatasync`` the kernel may have dropped the pages and
forgotten the error. It is not cut or overwritten either: a newer leader that this process does not know of yet may
have scanned it and rely on it. The next write begins a new segment at the durable end, which ends the old segment at
that offset.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from muster.actors.log.config import LogConfig
from muster.actors.log.errors import LogError, NotLeader, StorageError
from muster.actors.log.files.append_times import AppendTimes
from muster.actors.log.files.disk import Disk
from muster.actors.log.files.segment import Segment, SegmentName
from muster.actors.log.format.batch import (
    CONTROL,
    HAS_LOG_APPEND_TIME,
    NO_PRODUCER,
    NO_TIMESTAMP,
    BatchHeader,
    read_header,
)
from muster.actors.log.format.control import EndOfTransaction
from muster.actors.log.producers import ProducerEntry, ProducerStates
from muster.actors.log.storage import PartitionStorage
from muster.actors.log.transactions.aborted import AbortedTransaction
from muster.actors.log.trouble import Trouble
from muster.actors.log.upkeep.flushing import Flushing
from muster.actors.log.upkeep.hold import HOLD
from muster.actors.log.upkeep.keeping import Keeper

log = logging.getLogger(__name__)

Done = asyncio.Future[LogError | None]
"""None once durable and acknowledged, or the reason why it never will be."""

_SLOW_S = 0.015
_SLOW_FOR_S, _MAX_SLOW_FOR_S = 0.25, 10.0
"""After a commit on the event loop that took as long as that and waited, threads commit for so long; for twice as long,
up to the latter, if one is slow again soon. Less may be a wait for another thread of Python, which has 5 ms."""

RETRY_AFTER_S = 1.0
"""For this long after a disk failure, writes fail without trying the disk."""

_THREADS = ThreadPoolExecutor(max_workers=8, thread_name_prefix="log-commit")


def _waits() -> int:
    """Return how often this thread has waited, for the disk or for another: not how often others had the processor."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


async def acknowledged(done: Done) -> None:
    """Wait for a write. Raises NotLeader or StorageError if it failed. Any number of callers; each may be cancelled."""
    error = await asyncio.shield(done)
    if error is not None:
        raise error.again()


@dataclass(slots=True, eq=False)
class Write:
    batch: bytearray
    header: BatchHeader
    before: ProducerEntry | None
    """The producer's state before this batch."""
    aborted: AbortedTransaction | None
    """The transaction that it aborts."""
    done: Done
    appended_ms: int | None
    """Stored beside the segment; None if the batch itself holds the time."""
    ahead: asyncio.Future[int] | None = None
    """Done once it is in the write-ahead log; None without one."""

    @property
    def may_commit(self) -> bool:
        return self.ahead is None or (self.ahead.done() and self.ahead.exception() is None)


class Committer:
    """For the event loop's thread. Calls ``changed`` when the high watermark has grown or the log is over."""

    def __init__(
        self,
        directory: Path,
        epoch: int,
        storage: PartitionStorage,
        segments: list[Segment],
        producers: ProducerStates,
        config: LogConfig,
        disk: Disk,
        changed: Callable[[], None],
    ) -> None:
        self.config = storage.limited(config)
        self.segments = segments
        """Ascending, at least one; the last is written to. They hold acknowledged batches only."""
        self.producers = producers
        self.high_watermark = segments[-1].next_offset
        self.end_offset = self.high_watermark
        """The offset that the next write gets."""
        self.append_times = AppendTimes(disk, _THREADS)
        self.began_ms: int | None = None
        """When the last segment got its first batch; None if it is empty."""
        self.last_append_ms: int | None = None
        """When the last acknowledged batch was appended; None before this writer's first one, or if unknown."""
        self.over: LogError | None = None
        """Why the log can no longer be written or read: closed, deleted or fenced."""
        self._directory = directory
        self._epoch = epoch
        self._storage = storage
        self._disk = disk
        self._changed = changed
        self._first_timestamp_ms = NO_TIMESTAMP
        """First timestamp of the last segment."""
        self._rolling: asyncio.Future[None] | None = None
        self._queue: list[Write] = []
        self._unacknowledged: dict[int, Write] = {}  # by base offset, in order
        self._failure: StorageError | None = None
        self._retry_at_s = 0.0
        self._serial = segments[-1].name.serial
        self._abandoned: list[Path] = []
        self._task: asyncio.Task[None] | None = None
        self._commit_began_s: float | None = None
        self._is_local = disk.is_local(segments[-1].fd)
        self._slow_until_s, self._slow_for_s = 0.0, _SLOW_FOR_S
        self._trouble = Trouble(f"{directory}: appends")
        self._room_trouble = Trouble(f"{directory}: room for appends")
        self._flushing = Flushing(self._wake)
        self.keeper = Keeper(directory, epoch, storage, disk, _THREADS, lambda: self.segments)

    @property
    def commit_s(self) -> float:
        """How long the current commit has been waiting for the disk, in seconds; 0 if no commit is running.

        The committing thread sets it, so a slow event loop is not mistaken for a slow disk.
        """
        began_s = self._commit_began_s
        return 0.0 if began_s is None else time.monotonic() - began_s

    def push(self, batch: bytearray, appended_ms: int | None, end: EndOfTransaction | None = None) -> Write:
        """Queue a batch stamped with ``end_offset``. ``end``: what a control batch says.

        StorageError shortly after a disk failure.
        """
        header = read_header(batch)
        loop = asyncio.get_running_loop()
        self.admit()
        before = self.producers.update(header, end) if header.producer_id != NO_PRODUCER else None
        aborted = self.producers.aborted(header, before) if end is not None and not end.commit else None
        ahead = self._storage.append(header, batch, appended_ms)
        write = Write(batch, header, before, aborted, loop.create_future(), appended_ms, ahead)
        self._queue.append(write)
        self._unacknowledged[header.base_offset] = write
        self.end_offset = header.base_offset + header.last_offset_delta + 1
        if self._task is None:
            self._task = loop.create_task(self._run())
        return write

    def admit(self) -> None:
        """Raise StorageError if nothing more can be appended now."""
        if self.keeper.refusal is not None:
            raise self.keeper.refusal.again()
        if self._failure is not None and asyncio.get_running_loop().time() < self._retry_at_s:
            raise self._failure.again()
        if self._storage.is_write_ahead:
            try:
                self._disk.check_room(self._directory)
            except OSError as error:
                self._room_trouble.failed(error)
                raise StorageError(f"{self._directory.name}: {error}") from error
            self._room_trouble.over()
        self._storage.admit()

    async def roll(self) -> None:
        """Begin a new segment unless the last one is empty. Raises NotLeader or StorageError if that fails."""
        if self.over is not None:
            raise self.over.again()
        if self._rolling is None:
            self._rolling = asyncio.get_running_loop().create_future()
            self._wake()
        await asyncio.shield(self._rolling)
        if self._failure is not None:
            raise self._failure.again()
        if self.over is not None:
            raise self.over.again()

    def _wake(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def unacknowledged(self, base_offset: int) -> Done | None:
        """Return the outcome of the batch at that offset, if still pending."""
        write = self._unacknowledged.get(base_offset)
        return write.done if write is not None else None

    def last_unacknowledged(self) -> Done | None:
        """Return the outcome of everything pushed so far, if still pending."""
        return next(reversed(self._unacknowledged.values())).done if self._unacknowledged else None

    def end(self, reason: LogError) -> None:
        """Refuse every later operation with this reason."""
        self.over = reason
        self._changed()

    async def drain(self) -> None:
        """Wait until the queue is empty."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def close(self) -> None:
        """Wait until the queue is empty, and close the files."""
        if self._flushing.is_behind:
            self._flushing.is_due = True
            self._wake()
        self._flushing.stop()
        await self.drain()
        await self.keeper.close(self.segments[-1], self.producers.entries())
        for segment in self.segments:
            segment.close()
        await self.append_times.close()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._queue or self._rolling is not None or self._flushing.is_due:
                if HOLD.is_on:
                    await HOLD.over()
                elif self._queue and (ahead := self._queue[0].ahead) is not None and not ahead.done():
                    await asyncio.wait([ahead])
                else:
                    await self._commit_next(loop)
        finally:
            self._task = None

    async def _commit_next(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._queue and (ahead := self._queue[0].ahead) is not None and (error := ahead.exception()) is not None:
            assert isinstance(error, LogError), "a write-ahead log fails with nothing else"
            self.end(error)
            self._fail_all(error)
        rolling, self._rolling = self._rolling, None
        writes, begin_segment = self._take(rolling is not None)
        is_synced = not self._storage.is_write_ahead and self._flushing.wants_sync(writes, self.config)
        is_here = not (is_synced or begin_segment) and self._is_local and time.monotonic() >= self._slow_until_s
        if not is_here:  # one that is made here is over before a hold can begin
            HOLD.commit_begins()
        try:
            if is_here:
                segment = self._commit_here(writes)
            else:
                segment = await loop.run_in_executor(_THREADS, self._commit, writes, begin_segment, is_synced)
        except NotLeader as error:
            self._flushing.synced()
            self.end(error)
            self._fail_all(error)
        except Exception as error:
            if not isinstance(error, OSError):
                log.exception("%s: commit failed", self._directory)
            self._flushing.synced()  # the kernel may have dropped what failed
            self._retry_at_s = loop.time() + RETRY_AFTER_S
            self._failure = self._storage_error(error)
            if self._storage.is_write_ahead and self.over is None:
                self._queue[:0] = writes
                await asyncio.sleep(RETRY_AFTER_S)
            else:
                self._fail_all(self._failure)
        else:
            self._acknowledge(segment, writes)
        finally:
            if not is_here:
                HOLD.commit_ended()
            if rolling is not None:
                rolling.set_result(None)

    def _take(self, roll: bool) -> tuple[list[Write], bool]:
        """Take the writes that go into one segment; also return whether it is a new one.

        At least one write unless rolling.
        """
        used = self.segments[-1].size_bytes
        if not self._queue:
            return [], roll and used > 0
        first_bytes = len(self._queue[0].batch)
        is_full = roll or used + first_bytes > self.config.segment_bytes or self._is_old(self._queue[0])
        begin_segment = self._failure is not None or (used > 0 and is_full)
        if len(self._queue) == 1:
            taken, self._queue = self._queue, []
            return taken, begin_segment
        room = self.config.segment_bytes - (0 if begin_segment else used) - first_bytes
        count = 1
        for write in self._queue[1:]:
            room -= len(write.batch)
            if room < 0 or not write.may_commit:
                break
            count += 1
        taken, self._queue = self._queue[:count], self._queue[count:]
        return taken, begin_segment

    def _is_old(self, write: Write) -> bool:
        """By timestamps, as Kafka rolls: the records of a segment then lie within one ``segment.ms``."""
        first_ms = self._first_timestamp_ms
        if first_ms == NO_TIMESTAMP:
            return False
        return write.header.max_timestamp_ms - first_ms > self.config.roll_ms(self.segments[-1].path)

    def _commit_here(self, writes: list[Write]) -> Segment:
        """Commit on the event loop: it neither syncs nor creates a file, and the kernel has not been slow lately."""
        began_s, waits = time.monotonic(), _waits()
        try:
            return self._commit(writes, False, False)
        finally:
            ended_s = time.monotonic()
            if ended_s - began_s >= _SLOW_S and _waits() != waits:
                is_again = ended_s - self._slow_until_s < self._slow_for_s
                self._slow_for_s = min(2 * self._slow_for_s, _MAX_SLOW_FOR_S) if is_again else _SLOW_FOR_S
                self._slow_until_s = ended_s + self._slow_for_s

    def _commit(self, writes: list[Write], begin_segment: bool, is_synced: bool) -> Segment:
        """:meth:`_write_durably`; a writer that is no longer the leader gets NotLeader instead of the disk's error."""
        self._commit_began_s = time.monotonic()
        try:
            return self._write_durably(writes, begin_segment, is_synced)
        except OSError:
            with suppress(OSError):
                self._storage.check()
            raise
        finally:
            self._commit_began_s = None

    def _write_durably(self, writes: list[Write], begin_segment: bool, is_synced: bool) -> Segment:
        """Write, make durable, and only then check that this process is still the leader.

        Returns the segment; its index does not contain the batches yet. ``is_synced``: see flush.messages.
        """
        if writes and not self._storage.is_write_ahead:
            self._disk.check_room(self._directory)
        if begin_segment and self._flushing.is_behind:
            self._disk.sync(self.segments[-1].fd)
            self._flushing.synced()
        segment = self._new_segment() if begin_segment else self.segments[-1]
        try:
            if len(writes) == 1:
                self._disk.write(segment.fd, writes[0].batch, segment.size_bytes)
            elif writes:
                self._disk.write(segment.fd, b"".join([write.batch for write in writes]), segment.size_bytes)
            if is_synced:
                self._disk.sync(segment.fd)
            self._storage.check()
        except BaseException:
            if begin_segment:
                segment.close()
                self._abandoned.append(segment.path)
            raise
        if is_synced:
            self._flushing.synced()
            self.keeper.committed(segment, [write.header for write in writes])
        elif not self._storage.is_write_ahead:
            self._flushing.written(writes)
        if self._abandoned:
            self._remove_abandoned()
        return segment

    def _new_segment(self) -> Segment:
        self._serial += 1
        name = SegmentName(self._epoch, self._serial, self.high_watermark)
        return Segment.create(self._directory, name, self.config.index_interval_bytes, self._disk)

    def _remove_abandoned(self) -> None:
        """Remove abandoned segments.

        A newer one is in place and the claim held after that, so no later opener reads these.
        """
        while self._abandoned:
            with suppress(OSError):
                self._abandoned.pop().unlink()

    def _acknowledge(self, segment: Segment, writes: list[Write]) -> None:
        if segment is not self.segments[-1]:
            if self.segments[-1].size_bytes == 0:
                empty = self.segments.pop()
                empty.close()
                self._abandoned.append(empty.path)
            else:
                self._close(self.segments[-1])
            self.segments.append(segment)
            self.keeper.watch(segment)
            self._failure = None
            self._trouble.over()
            self.began_ms, self._first_timestamp_ms = None, NO_TIMESTAMP
        self._storage.acknowledged(segment, len(writes))
        if writes and self.began_ms is None:
            first = writes[0]
            self._first_timestamp_ms = first.header.max_timestamp_ms
            self.began_ms = first.appended_ms if first.appended_ms is not None else self._first_timestamp_ms
        for write in writes:
            header = write.header
            segment.add(header)
            if header.attributes & CONTROL:
                self.producers.ended(write.before)
            if write.aborted is not None:
                segment.aborted.add(write.aborted)
            if write.appended_ms is not None:
                self.append_times.add(segment.path, header.base_offset, write.appended_ms)
        if writes:
            last = writes[-1]
            has_own_time = last.header.attributes & HAS_LOG_APPEND_TIME
            self.last_append_ms = last.header.max_timestamp_ms if has_own_time else last.appended_ms
        self.high_watermark = segment.next_offset
        self._flushing.arm(self.config)
        for write in writes:
            self._settle(write, None)
        self._changed()

    def _close(self, segment: Segment) -> None:
        kept = self.keeper.closed(segment, self._acknowledged_producers())
        if self._storage.is_write_ahead:
            kept.add_done_callback(lambda _: self._storage.closed(segment, self.append_times))

    def _acknowledged_producers(self) -> dict[int, ProducerEntry]:
        """Return the producers' states as of the acknowledged batches."""
        known = ProducerStates()
        known.restore_all(self.producers.entries())
        for write in reversed(self._unacknowledged.values()):
            known.restore(write.header.producer_id, write.before)
        return known.entries()

    def _fail_all(self, error: LogError) -> None:
        """Undo everything that is not acknowledged, and fail it."""
        failed = list(self._unacknowledged.values())
        self._queue.clear()
        for write in reversed(failed):
            self.producers.restore(write.header.producer_id, write.before)
        self.producers.restored()
        self.end_offset = self.high_watermark
        for write in failed:
            self._settle(write, error)

    def _settle(self, write: Write, error: LogError | None) -> None:
        del self._unacknowledged[write.header.base_offset]
        if not write.done.done():
            write.done.set_result(error)

    def _storage_error(self, error: Exception) -> StorageError:
        self._trouble.failed(error)
        failure = StorageError(f"{self._directory.name}: {error}")
        failure.__cause__ = error
        return failure
