"""The log of one partition: append with group commit, read what is durable, one writer at a time.

An append is checked, gets its offsets and joins the queue of ``muster.actors.log.commit`` at once, in the order of the
calls. Readers see what is below the high watermark, and nothing is acknowledged before it is there.

**One writer.** Two copies of an actor can run at once, one of them paused or cut off without knowing it. Whoever
opens the log with leader epoch E does, in this order:

1. takes the claim of E and removes all lower ones (``muster.actors.log.files.directory.Claim``);
2. finds the highest manifest and loads what it lists, and the open part of its epoch, up to the first batch that is
   not whole; makes that durable; the log's end L is now known;
3. writes the manifest of E: the segments that hold something, each with the offset at which it ends, and L;
4. creates its own first segment at L;
5. looks whether its claim is still there; only then it serves, and tidies up what the manifest does not list.

A writer acknowledges only after (a) its bytes are durable and then (b) its claim is still there. Therefore:

* nothing acknowledged is lost: if (b) of an older writer succeeded, its bytes were written before step 1 removed
  its claim, and step 2 sees them;
* nothing that an older writer adds later is kept: it is never acknowledged, because (b) fails, and never read. In a
  file that it has open it can only write behind the bytes that were scanned, and those end where the manifest says;
  files that it creates are not in the manifest. No two epochs write to one file, and no byte is written twice;
* claims only move up, and manifests and segments are ordered by epoch, so an opener that was paused between any two
  of the steps is as harmless as a writer: what it makes late is lower than the manifest that counts;
* what is removed or cut in step 5 nobody can count on: the claim was there after the manifest was durable, so every
  later opener begins with this manifest or with one that came from it.

**Taking away.** Retention, DeleteRecords and the cleaner remove closed segments, replace them and move the log start.
All of it goes through ``muster.actors.log.upkeep.segment_replacement``: new files are made whole and durable under
names that mean nothing yet; then the epoch's own manifest is replaced, atomically and durably; then the claim is
looked at; only if it holds, memory follows and files are removed, and only then DeleteRecords is answered. Appends
and reads go on meanwhile. Therefore:

* if the claim held after the manifest was durable, every later opener begins with this manifest or one that came from
  it (it takes its claim before it reads the manifest), so nobody will ever look for what is removed;
* if it did not hold, nothing is removed. The newer leader read the manifest before or after it was replaced: both
  describe the same acknowledged records, all files of both are in place, and what is in neither it tidies up;
* if replacing failed, nobody knows which of the two is on the disk: the same holds, and files of both stay until a
  later change has come to its end;
* a manifest is a whole: it lists all closed segments, those of its own epoch too, and says from which serial on
  segments of its epoch count that it does not list. An opener lists the directory before it reads the manifest: what of
  these it does not see was made after it took its claim, so nothing in it was ever acknowledged;
* a cleaned segment has a name of its own kind, which counts only where a manifest lists it. It ends at the offset at
  which what it replaces ended, and holds the last batch of that, if only as a header: a cleaned log ends where it did;
* one change at a time, each decided when its turn comes, from what memory holds then.

All methods but :meth:`PartitionLog.open` and :meth:`PartitionLog.replay` are for the event loop's thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from muster.actors.log.commit import Committer, Done, Write, acknowledged
from muster.actors.log.config import LOG_APPEND_TIME, LogConfig
from muster.actors.log.errors import (
    MessageTooLarge,
    NotLeader,
    OffsetOutOfRange,
    PolicyViolation,
    RecordListTooLarge,
    StorageError,
)
from muster.actors.log.files import directory as directories
from muster.actors.log.files import recovery
from muster.actors.log.files.directory import Claim
from muster.actors.log.files.disk import DISK, Disk
from muster.actors.log.format.batch import BatchHeader, check_client_batch, read_header, stamp, stamp_log_append_time
from muster.actors.log.format.recompression import recompressed
from muster.actors.log.format.records import build_batch
from muster.actors.log.producers import WrittenBatch
from muster.actors.log.reading import LogReader
from muster.actors.log.upkeep import retention
from muster.actors.log.upkeep.cleaner import Cleaner, CleanResult
from muster.actors.log.upkeep.compaction import check_keys
from muster.actors.log.upkeep.segment_replacement import SegmentReplacer

HIGH_WATERMARK = -1
"""Instead of an offset, in DeleteRecords."""
NO_TIMESTAMP = -1
MAX_UNWRITTEN_BYTES = 64 << 20
"""With more than this in the queue, appends that do not ask for durability wait for it all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendResult:
    base_offset: int
    log_append_time_ms: int
    """-1 with message.timestamp.type=CreateTime."""
    log_start_offset: int
    duplicate: bool = False
    """The batch had been appended before; the offset is that of the first time."""


class Append:
    """An append that has its place in the log but is perhaps not durable yet."""

    __slots__ = ("_done", "result")

    def __init__(self, result: AppendResult, done: Done | None) -> None:
        self.result = result
        self._done = done

    async def durable(self) -> AppendResult:
        """The result, once acknowledged. NotLeader or StorageError if it never will be."""
        if self._done is not None:
            await acknowledged(self._done)
        return self.result


class PartitionLog(LogReader):
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
        self._now_ms = now_ms
        self._watchers: set[Callable[[], None]] = set()
        self._writer = Committer(
            directory, epoch, claim, recovered.segments, recovered.producers, config, disk, self._wake
        )
        if recovered.refusal is not None:
            self._writer.keeper.refuse(recovered.refusal)
        self._replacer = SegmentReplacer(directory, epoch, claim, self._writer, recovered, disk, self._wake)
        self._cleaner = Cleaner(directory, epoch, self._writer, self._replacer, now_ms, disk)

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
            recovered = recovery.recover(directory, epoch, claim, config.index_interval_bytes, disk)
        except OSError as error:
            raise StorageError(f"{directory} cannot be opened: {error}") from error
        return cls(directory, topic_id, claim, recovered, epoch, config, now_ms, disk)

    @property
    def config(self) -> LogConfig:
        """May be replaced at any time; what has been written stays as it is."""
        return self._writer.config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._writer.config = config

    @property
    def commit_s(self) -> float:
        """For how long the disk has been at the commit that runs, in seconds; 0 if none runs."""
        return self._writer.commit_s

    async def append(self, records: bytes, *, acks_durable: bool = True) -> AppendResult:
        """Append the one batch of a Produce request and wait until it is durable.

        Without ``acks_durable`` (acks=0) it returns when the batch has its place. LogError: see
        :meth:`enqueue` and :meth:`Append.durable`.
        """
        return await self.finish(self.enqueue(records), acks_durable=acks_durable)

    async def finish(self, append: Append, *, acks_durable: bool) -> AppendResult:
        """Wait for an enqueued append as :meth:`append` does."""
        if acks_durable or self._writer.unwritten_bytes > MAX_UNWRITTEN_BYTES:
            return await append.durable()
        return append.result

    def enqueue(self, records: bytes) -> Append:
        """Check a client's batch and give it its place; the order of the calls is the order in the log.

        LogError if it may not be written: those of ``batch.check_client_batch`` and ``ProducerStates.check``.
        """
        self._check_leader()
        header = check_client_batch(records, self.config.max_message_bytes)
        if self.config.compacts:
            check_keys(records, header)
        duplicate = self._writer.producers.check(header)
        if duplicate is not None:
            return self._again(duplicate)
        batch = self._in_own_codec(records, header)
        timestamp_ms, now_ms = NO_TIMESTAMP, self._now_ms()
        if self.config.message_timestamp_type == LOG_APPEND_TIME:
            timestamp_ms = now_ms
            stamp_log_append_time(batch, timestamp_ms)
        stamp(batch, self._writer.end_offset, self.epoch)
        write = self._writer.push(batch, now_ms if timestamp_ms == NO_TIMESTAMP else None)
        return Append(self._result(write.header.base_offset, timestamp_ms), write.done)

    async def append_records(self, records: Sequence[tuple[bytes | None, bytes | None]], timestamp_ms: int) -> int:
        """Append pairs of key and value as one batch, all or nothing; its base offset, once durable.

        With no records: the log's end, once everything that was appended before is durable. NotLeader,
        StorageError, MessageTooLarge.
        """
        self._check_leader()
        if not records:
            end = self._writer.end_offset
            last = self._writer.last_unacknowledged()
            if last is not None:
                await acknowledged(last)
            return end
        append = self.enqueue_records(records, timestamp_ms)
        await acknowledged(append.done)
        return append.header.base_offset

    def enqueue_records(self, records: Sequence[tuple[bytes | None, bytes | None]], timestamp_ms: int) -> Write:
        """As :meth:`append_records`, for at least one record, without waiting for it."""
        self._check_leader()
        batch = build_batch(records, timestamp_ms, self._writer.end_offset, self.epoch, self.config.own_codec)
        if len(batch) > self.config.max_batch_bytes:  # what is random already, a codec makes a little larger
            batch = build_batch(records, timestamp_ms, self._writer.end_offset, self.epoch)
        if len(batch) > self.config.max_message_bytes:
            raise MessageTooLarge(f"{len(records)} records of {len(batch)} bytes in one batch")
        self._check_segment_holds(read_header(batch))
        return self._writer.push(batch, None)

    async def delete_records(self, before_offset: int) -> int:
        """Move the log start to that offset, -1: the high watermark, for good; the log start, never lower than before.

        OffsetOutOfRange, PolicyViolation if records only go by compaction (as Kafka's
        Partition.deleteRecordsOnLeader), NotLeader, StorageError.
        """
        self._check_leader()
        if not self.config.deletes:
            raise PolicyViolation(f"{self.directory.name}: cleanup.policy is {self.config.cleanup_policy}")
        high_watermark = self._writer.high_watermark
        start = high_watermark if before_offset == HIGH_WATERMARK else before_offset
        if not 0 <= start <= high_watermark:
            raise OffsetOutOfRange(f"{self.directory.name}: offset {start} is not in 0 to {high_watermark}")
        await self._replacer.apply(lambda: retention.deletion(self._writer.segments, self.log_start_offset, start))
        return self.log_start_offset

    async def apply_retention(self) -> int:
        """Remove closed segments that are too old or too many, by the configuration; how many. NotLeader, StorageError.

        The last segment is closed first if it is too old. Producers that write no more are forgotten.
        """
        self._check_leader()
        now_ms = self._now_ms()
        settled = self._writer.segments[-1].base_offset
        self._writer.producers.expire(now_ms - self.config.producer_id_expiration_ms, settled)
        with self._errors("nothing is removed"):
            if retention.is_roll_due(self._writer, now_ms):
                await self._writer.roll()
            change = await self._replacer.apply(lambda: retention.expiry(self._writer.segments, self.config, now_ms))
        return len(change.removed) if change is not None else 0

    async def clean(self) -> CleanResult | None:
        """Compact what can be compacted, if it is time; None if it is not. One run at a time. As Kafka's log cleaner.

        NotLeader, StorageError, CorruptMessage.
        """
        self._check_leader()
        with self._errors("it cannot be cleaned"):
            return await self._cleaner.run()

    @contextmanager
    def watching(self, callback: Callable[[], None]) -> Iterator[None]:
        """Within, ``callback`` runs whenever the high watermark has grown or the log is over."""
        self._watchers.add(callback)
        try:
            yield
        finally:
            self._watchers.discard(callback)

    def watch(self, callback: Callable[[], None]) -> None:
        """Have ``callback`` run whenever high watermark, log start or segments are others, or the log is over.

        For as long as the log is there; it may not raise.
        """
        self._watchers.add(callback)

    async def close(self) -> None:
        """Let what has been appended become durable, then close the files. May be called again."""
        if self._writer.over is None:
            self._writer.end(NotLeader(f"{self.directory.name} is closed"))
        await self._cleaner.stop()
        await self._replacer.settled()
        await self._writer.close()

    async def delete(self) -> None:
        """Close, and remove the directory if it is still this topic's. StorageError."""
        await self.close()
        try:
            await asyncio.get_running_loop().run_in_executor(None, directories.remove, self.directory, self.topic_id)
        except OSError as error:
            raise StorageError(f"{self.directory} cannot be removed: {error}") from error

    def _in_own_codec(self, records: bytes, header: BatchHeader) -> bytearray:
        """The client's batch as compression.type wants it, if it is not too large then."""
        codec = self.config.codec
        if codec is None or codec == header.codec:
            self._check_segment_holds(header)
            return bytearray(records)
        batch = recompressed(records, header, codec)
        if len(batch) > self.config.max_message_bytes:
            raise MessageTooLarge(f"with compression.type={self.config.compression_type} a batch of {len(batch)} bytes")
        self._check_segment_holds(read_header(batch))
        return batch

    def _check_segment_holds(self, header: BatchHeader) -> None:
        if header.size_bytes > self.config.segment_bytes:
            raise RecordListTooLarge(
                f"a record batch of {header.size_bytes} bytes, segment.bytes is {self.config.segment_bytes}"
            )

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
        return Append(result, self._writer.unacknowledged(first.base_offset))

    def _wake(self) -> None:
        for callback in tuple(self._watchers):
            callback()
