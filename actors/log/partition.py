"""The log of one partition: append with group commit, read what is durable, one writer at a time.

**Group commit.** An append is checked, gets its offsets and joins a queue at once, in the order of the calls. One
committer per log takes the whole queue, writes it with one call, makes it durable with one ``fdatasync`` in a
thread and then answers all of it; what is appended meanwhile forms the next commit. The high watermark is the end
of what is durable: readers see nothing beyond it, and nothing is acknowledged before it is below it.

**One writer.** Two copies of an actor can run at once, one of them paused or cut off without knowing it. Whoever
opens the log with leader epoch E does, in this order:

1. takes the claim of E and removes all lower ones (``actors.log.directory.Claim``);
2. scans the segments up to the first batch that is not whole; the log's end L is now known;
3. makes what was scanned durable and creates the empty segment ``L.E.log``.

A writer acknowledges only after (a) its bytes are durable and then (b) its claim is still there. Therefore:

* nothing acknowledged is lost: if (b) of an older writer succeeded, its bytes were written before step 1 removed
  its claim, and step 2 sees them;
* nothing that an older writer adds later is kept: it is never acknowledged, because (b) fails, and never read,
  because its offsets are at or beyond L, and a segment is read and recovered only up to the offset at which the
  next one of a newer epoch begins. That holds for the file that it had open, where it can only write behind the
  bytes that were scanned, and for new files, whose names carry its older epoch (``recovery.lay_out``). No two
  epochs ever write to one file;
* claims only move up, so an opener that was paused between two of the steps cannot take the log back.

**Failure of the disk.** A failed write or ``fdatasync`` fails every append that is not yet durable. What the file
holds behind the durable end is not trusted: after a failed ``fdatasync`` the kernel may have dropped the pages and
forgotten the error. The file is cut to the durable end if that works, and the next append begins a new segment
there, which ends the old one at that offset whether it could be cut or not. Reading goes on.

All methods but :meth:`PartitionLog.open` and :meth:`PartitionLog.replay` are for the event loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from actors.log import directory as directories
from actors.log import recovery
from actors.log.batch import (
    BatchHeader,
    check_client_batch,
    read_header,
    stamp,
    stamp_log_append_time,
)
from actors.log.config import LOG_APPEND_TIME, LogConfig
from actors.log.directory import Claim
from actors.log.disk import DISK, Disk
from actors.log.errors import LogError, MessageTooLarge, NotLeader, OffsetOutOfRange, RecordListTooLarge, StorageError
from actors.log.producers import ProducerEntry, WrittenBatch
from actors.log.records import build_batch, read_records
from actors.log.segment import Segment, SegmentName

log = logging.getLogger(__name__)

NO_TIMESTAMP = -1
MAX_UNWRITTEN_BYTES = 64 << 20
"""With more than this in the queue, appends that do not ask for durability wait for it all the same."""

_COMMITTERS = ThreadPoolExecutor(max_workers=8, thread_name_prefix="log-commit")


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendResult:
    base_offset: int
    log_append_time_ms: int
    """-1 with message.timestamp.type=CreateTime."""
    log_start_offset: int
    duplicate: bool = False
    """The batch had been appended before; the offset is that of the first time."""


class ReplayedRecord(NamedTuple):
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    attributes: int
    """Of the record's batch."""


@dataclass(slots=True, eq=False)
class _Write:
    batch: bytearray
    header: BatchHeader
    before: ProducerEntry | None
    """What was known of the producer before this batch."""
    done: asyncio.Future[LogError | None]


class Append:
    """An append that has its place in the log but is perhaps not durable yet."""

    __slots__ = ("_done", "result")

    def __init__(self, result: AppendResult, done: asyncio.Future[LogError | None] | None) -> None:
        self.result = result
        self._done = done

    async def durable(self) -> AppendResult:
        """The result, once acknowledged. NotLeader or StorageError if it never will be."""
        if self._done is not None:
            await _acknowledged(self._done)
        return self.result


async def _acknowledged(done: asyncio.Future[LogError | None]) -> None:
    error = await asyncio.shield(done)
    if error is not None:
        raise error.again()


class PartitionLog:
    """See the module. ``epoch`` is the leader epoch; offsets and times are Kafka's, times in ms since 1970."""

    def __init__(
        self,
        directory: Path,
        topic_id: UUID,
        claim: Claim,
        recovered: recovery.Recovered,
        epoch: int,
        config: LogConfig,
        now_ms: Callable[[], int],
        disk: Disk,
    ) -> None:
        """Use :meth:`open`."""
        self.directory = directory
        self.topic_id = topic_id
        self.epoch = epoch
        self.config = config
        """May be replaced at any time; what has been written stays as it is."""
        self._claim = claim
        self._segments = recovered.segments
        self._producers = recovered.producers
        self._now_ms = now_ms
        self._disk = disk
        self._high_watermark = self._end_offset = self._segments[-1].next_offset
        self._queue: list[_Write] = []
        self._unacknowledged: dict[int, _Write] = {}  # by base offset, in order
        self._unwritten_bytes = 0
        self._begin_segment = False
        self._committer: asyncio.Task[None] | None = None
        self._over: LogError | None = None
        self._watchers: set[Callable[[], None]] = set()

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        topic_id: UUID,
        epoch: int,
        config: LogConfig,
        now_ms: Callable[[], int],
        disk: Disk = DISK,
    ) -> PartitionLog:
        """Take over the directory, made if needed, and recover what it holds. Blocks.

        ``epoch`` is one that no other activation of this partition has: FencedEpoch if the directory saw it or a
        higher one. A directory of another topic id is set aside. StorageError for everything else.
        """
        try:
            directories.prepare(directory, topic_id, epoch)
            claim = Claim.take(directory, epoch)
            recovered = recovery.recover(directory, epoch, config.index_interval_bytes, disk)
        except OSError as error:
            raise StorageError(f"{directory} cannot be opened: {error}") from error
        return cls(directory, topic_id, claim, recovered, epoch, config, now_ms, disk)

    @property
    def log_start_offset(self) -> int:
        return self._segments[0].base_offset

    @property
    def high_watermark(self) -> int:
        """The end of what is durable and can be read."""
        return self._high_watermark

    @property
    def log_end_offset(self) -> int:
        """The offset that the next append gets."""
        return self._end_offset

    @property
    def is_over(self) -> bool:
        """Closed, deleted or fenced: every further call raises NotLeader."""
        return self._over is not None

    async def append(self, records: bytes, *, acks_durable: bool = True) -> AppendResult:
        """Append the one batch of a Produce request and wait until it is durable.

        Without ``acks_durable`` (acks=0) it returns when the batch has its place. LogError: see
        :meth:`enqueue` and :meth:`Append.durable`.
        """
        return await self.finish(self.enqueue(records), acks_durable=acks_durable)

    async def finish(self, append: Append, *, acks_durable: bool) -> AppendResult:
        """Wait for an enqueued append as :meth:`append` does."""
        if acks_durable or self._unwritten_bytes > MAX_UNWRITTEN_BYTES:
            return await append.durable()
        return append.result

    def enqueue(self, records: bytes) -> Append:
        """Check a client's batch and give it its place; the order of the calls is the order in the log.

        LogError if it may not be written: those of ``batch.check_client_batch`` and ``ProducerStates.check``.
        """
        self._check_leader()
        header = check_client_batch(records, self.config.max_message_bytes)
        self._check_segment_holds(header)
        duplicate = self._producers.check(header)
        if duplicate is not None:
            return self._again(duplicate)
        batch = bytearray(records)
        timestamp_ms = NO_TIMESTAMP
        if self.config.message_timestamp_type == LOG_APPEND_TIME:
            timestamp_ms = self._now_ms()
            stamp_log_append_time(batch, timestamp_ms)
        stamp(batch, self._end_offset, self.epoch)
        write = self._push(batch)
        return Append(self._result(write.header.base_offset, timestamp_ms), write.done)

    async def append_records(self, records: Sequence[tuple[bytes | None, bytes | None]], timestamp_ms: int) -> int:
        """Append pairs of key and value as one batch, all or nothing; its base offset, once durable.

        With no records: the log's end, once everything that was appended before is durable. NotLeader,
        StorageError, MessageTooLarge.
        """
        self._check_leader()
        if not records:
            end = self._end_offset
            if self._unacknowledged:
                await _acknowledged(next(reversed(self._unacknowledged.values())).done)
            return end
        batch = build_batch(records, timestamp_ms, self._end_offset, self.epoch)
        if len(batch) > self.config.max_message_bytes:
            raise MessageTooLarge(f"{len(records)} records of {len(batch)} bytes in one batch")
        self._check_segment_holds(read_header(batch))
        write = self._push(batch)
        await _acknowledged(write.done)
        return write.header.base_offset

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool) -> bytes:
        """Whole batches below the high watermark, from the one that holds the offset on.

        At most ``max_bytes``; with ``at_least_one`` the first batch comes even if it is larger. Empty at the
        high watermark. OffsetOutOfRange, NotLeader, StorageError.
        """
        self._check_offset(offset)
        parts: list[bytes] = []
        try:
            for segment in self._segments[self._segment_index(offset) :]:
                if max_bytes <= 0 and not at_least_one:
                    break
                start = segment.locate(offset)
                parts.append(segment.read(start, max_bytes, at_least_one=at_least_one))
                if start + len(parts[-1]) < segment.size_bytes:
                    break
                max_bytes -= len(parts[-1])
                at_least_one = at_least_one and not parts[-1]
        except OSError as error:
            raise StorageError(f"{self.directory.name}: offset {offset} cannot be read: {error}") from error
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def bytes_available(self, offset: int) -> int:
        """How many bytes a read without limit would give. OffsetOutOfRange, NotLeader, StorageError."""
        self._check_offset(offset)
        if offset >= self._high_watermark:
            return 0
        index = self._segment_index(offset)
        try:
            first = self._segments[index].size_bytes - self._segments[index].locate(offset)
        except OSError as error:
            raise StorageError(f"{self.directory.name}: offset {offset} cannot be read: {error}") from error
        return first + sum(segment.size_bytes for segment in self._segments[index + 1 :])

    @contextmanager
    def watching(self, callback: Callable[[], None]) -> Iterator[None]:
        """Within, ``callback`` runs whenever the high watermark has grown or the log is over."""
        self._watchers.add(callback)
        try:
            yield
        finally:
            self._watchers.discard(callback)

    def epoch_at(self, offset: int) -> int:
        """The leader epoch under which the record at that offset was written; the log's own at its end."""
        return self._segments[self._segment_index(offset)].epoch

    def offset_for_time(self, timestamp_ms: int) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record with that timestamp or a later one; None if there is none.

        NotLeader, StorageError, CorruptMessage.
        """
        self._check_leader()
        try:
            for segment in self._segments:
                for header, batch in segment.batches_since(timestamp_ms):
                    for record in read_records(batch, header):
                        if record.timestamp_ms >= timestamp_ms:
                            return record.offset, record.timestamp_ms
        except OSError as error:
            raise StorageError(f"{self.directory.name}: {error}") from error
        return None

    def offset_of_max_timestamp(self) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record with the largest timestamp; None in an empty log. As above."""
        self._check_leader()
        filled = [segment for segment in self._segments if segment.size_bytes]
        if not filled:
            return None
        try:
            header, batch = max(filled, key=lambda segment: segment.max_timestamp_ms).batch_with_max_timestamp()
        except OSError as error:
            raise StorageError(f"{self.directory.name}: {error}") from error
        latest = max(read_records(batch, header), key=lambda record: record.timestamp_ms)
        return latest.offset, latest.timestamp_ms

    def replay(self) -> Iterator[ReplayedRecord]:
        """All records up to the high watermark, in order. Blocks. StorageError, CorruptMessage.

        For the coordinator that loads before it serves: nothing is appended meanwhile.
        """
        try:
            for segment in list(self._segments):
                for header, batch in segment.batches():
                    for record in read_records(batch, header):
                        yield ReplayedRecord(*record[:4], header.attributes)
        except OSError as error:
            raise StorageError(f"{self.directory.name} cannot be replayed: {error}") from error

    async def close(self) -> None:
        """Let what has been appended become durable, then close the files. May be called again."""
        if self._over is None:
            self._end(NotLeader(f"{self.directory.name} is closed"))
        if self._committer is not None:
            await asyncio.wait([self._committer])
        for segment in self._segments:
            segment.close()

    async def delete(self) -> None:
        """Close, and remove the directory if it is still this topic's. StorageError."""
        await self.close()
        try:
            await asyncio.get_running_loop().run_in_executor(None, directories.remove, self.directory, self.topic_id)
        except OSError as error:
            raise StorageError(f"{self.directory} cannot be removed: {error}") from error

    def _check_leader(self) -> None:
        if self._over is not None:
            raise self._over.again()

    def _check_offset(self, offset: int) -> None:
        self._check_leader()
        if not self.log_start_offset <= offset <= self._end_offset:
            raise OffsetOutOfRange(
                f"{self.directory.name}: offset {offset} is not in {self.log_start_offset} to {self._end_offset}"
            )

    def _check_segment_holds(self, header: BatchHeader) -> None:
        if header.size_bytes > self.config.segment_bytes:
            raise RecordListTooLarge(
                f"a record batch of {header.size_bytes} bytes, segment.bytes is {self.config.segment_bytes}"
            )

    def _segment_index(self, offset: int) -> int:
        return max(bisect_right(self._segments, offset, key=lambda segment: segment.base_offset) - 1, 0)

    def _result(self, base_offset: int, timestamp_ms: int, *, duplicate: bool = False) -> AppendResult:
        return AppendResult(
            base_offset=base_offset,
            log_append_time_ms=timestamp_ms,
            log_start_offset=self.log_start_offset,
            duplicate=duplicate,
        )

    def _again(self, first: WrittenBatch) -> Append:
        has_append_time = self.config.message_timestamp_type == LOG_APPEND_TIME
        result = self._result(
            first.base_offset, first.timestamp_ms if has_append_time else NO_TIMESTAMP, duplicate=True
        )
        write = self._unacknowledged.get(first.base_offset)
        return Append(result, write.done if write is not None else None)

    def _push(self, batch: bytearray) -> _Write:
        header = read_header(batch)
        loop = asyncio.get_running_loop()
        write = _Write(batch, header, self._producers.update(header), loop.create_future())
        self._queue.append(write)
        self._unacknowledged[header.base_offset] = write
        self._unwritten_bytes += len(batch)
        self._end_offset = header.next_offset
        if self._committer is None:
            self._committer = loop.create_task(self._commit_queue())
        return write

    async def _commit_queue(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._queue:
                writes, begin_segment = self._take()
                batches = [write.batch for write in writes]
                base_offset = writes[0].header.base_offset if begin_segment else None
                try:
                    segment = await loop.run_in_executor(_COMMITTERS, self._commit, batches, base_offset)
                except NotLeader as error:
                    self._end(error)
                    self._fail_all(error)
                except Exception as error:
                    if not isinstance(error, OSError):
                        log.exception("%s: commit failed", self.directory)
                    self._fail_all(self._storage_error(error))
                else:
                    self._acknowledge(segment, writes)
        finally:
            self._committer = None

    def _take(self) -> tuple[list[_Write], bool]:
        """What goes into one segment, and whether that is a new one. At least one write."""
        used = self._segments[-1].size_bytes
        first_bytes = len(self._queue[0].batch)
        begin_segment = self._begin_segment or (used > 0 and used + first_bytes > self.config.segment_bytes)
        room = self.config.segment_bytes - (0 if begin_segment else used) - first_bytes
        count = 1
        for write in self._queue[1:]:
            room -= len(write.batch)
            if room < 0:
                break
            count += 1
        taken, self._queue = self._queue[:count], self._queue[count:]
        return taken, begin_segment

    def _commit(self, batches: list[bytearray], base_offset: int | None) -> Segment:
        """Write, make durable, and only then look whether we are still the leader. In a thread.

        With a ``base_offset`` into a new segment. Returns the segment; its index does not know the batches yet.
        """
        active = segment = self._segments[-1]
        if base_offset is not None:
            name = SegmentName(self.epoch, base_offset)
            segment = Segment.create(self.directory, name, self.config.index_interval_bytes, self._disk)
        try:
            self._disk.write(segment.fd, b"".join(batches), segment.size_bytes)
            self._disk.sync(segment.fd)
            self._claim.check()
        except BaseException:
            with suppress(OSError):
                self._disk.truncate(segment.fd, segment.size_bytes)
            if segment is not active:
                segment.close()
            raise
        return segment

    def _acknowledge(self, segment: Segment, writes: list[_Write]) -> None:
        if segment is not self._segments[-1]:
            if self._segments[-1].size_bytes == 0:
                self._segments.pop().close()
            self._segments.append(segment)
            self._begin_segment = False
        for write in writes:
            segment.add(write.header)
        self._high_watermark = segment.next_offset
        for write in writes:
            self._settle(write, None)
        self._wake()

    def _fail_all(self, error: LogError) -> None:
        """Nothing that is not acknowledged has happened."""
        failed = list(self._unacknowledged.values())
        self._queue.clear()
        for write in reversed(failed):
            self._producers.restore(write.header.producer_id, write.before)
        self._end_offset = self._high_watermark
        self._begin_segment = True
        for write in failed:
            self._settle(write, error)

    def _settle(self, write: _Write, error: LogError | None) -> None:
        del self._unacknowledged[write.header.base_offset]
        self._unwritten_bytes -= len(write.batch)
        if not write.done.done():
            write.done.set_result(error)

    def _storage_error(self, error: Exception) -> StorageError:
        log.error("%s: appends from offset %d on failed: %s", self.directory, self._high_watermark, error)
        failure = StorageError(f"{self.directory.name}: {error}")
        failure.__cause__ = error
        return failure

    def _end(self, reason: LogError) -> None:
        self._over = reason
        self._wake()

    def _wake(self) -> None:
        for callback in tuple(self._watchers):
            callback()
