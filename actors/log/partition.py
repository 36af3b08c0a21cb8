"""The log of one partition: group commit, reads of durable records only, and one writer at a time.

An append is checked, gets its offsets and joins the queue of ``muster.actors.log.committer`` immediately, in call
order. Readers see records below the high watermark. No record is acknowledged before it is below the high watermark.

**One writer.** Two copies of an actor can run at once, one of them paused or cut off without knowing it. To open
the log with leader epoch E, a writer does the following, in this order:

1. takes the claim of E and removes all lower claims (``muster.actors.log.files.directory.Claim``);
2. finds the highest manifest, loads the segments that it lists and the open part of its epoch, up to the first
   incomplete batch, and makes that durable; the log's end L is now known;
3. writes the manifest of E: the segments that are not empty, each with the offset at which it ends, and L;
4. creates its own first segment at L;
5. checks that its claim is still there. Only then does it serve, and remove what the manifest does not list.

A writer acknowledges only after (a) its bytes are durable and then (b) its claim is still there. Therefore:

* no acknowledged record is lost: if (b) of an older writer succeeded, its bytes were written before step 1 removed
  its claim, and step 2 sees them;
* nothing that an older writer adds later is kept: it is never acknowledged, because (b) fails, and never read. In a
  file that it has open, an older writer can only write behind the bytes that were scanned, and those end where the
  manifest says; files that it creates are not in the manifest. No two epochs write to the same file, and no byte is
  written twice;
* claims only increase, and manifests and segments are ordered by epoch. An opener that was paused between any two
  steps is therefore as harmless as a writer: whatever it creates late is lower than the manifest that counts;
* nothing that step 5 removes or cuts can be in use: the claim was there after the manifest was durable, so every
  later opener begins with this manifest or with one derived from it.

**Removal.** Retention, DeleteRecords and the cleaner remove closed segments, replace them and move the log start.
All of it goes through ``muster.actors.log.upkeep.segment_replacement``. First, new files are completed and made
durable under names that do not count yet. Then the epoch's own manifest is replaced, atomically and durably. Then the
claim is checked. Only if it holds are memory updated and files removed, and only then is DeleteRecords answered.
Appends and reads continue meanwhile. Therefore:

* if the claim held after the manifest was durable, every later opener begins with this manifest or one derived from
  it (an opener takes its claim before it reads the manifest), so no process will ever look for what is removed;
* if the claim did not hold, nothing is removed. The newer leader read the manifest before or after it was replaced:
  both versions describe the same acknowledged records, all files of both are in place, and the newer leader removes
  what is in neither;
* if the replacement failed, it is unknown which of the two manifests is on the disk: the same holds, and the files of
  both stay until a later change completes;
* a manifest is complete: it lists all closed segments, including those of its own epoch, and the serial from which
  unlisted segments of its epoch count. An opener lists the directory before it reads the manifest: any such segment
  that it does not see was created after it took its claim, so nothing in that segment was ever acknowledged;
* a cleaned segment has a name of a separate kind, which counts only where a manifest lists it. It ends at the same
  offset as the segments that it replaces, and holds their last batch, if only as a header: cleaning does not change
  where a log ends;
* changes are made one at a time, and each is decided when its turn comes, from the state in memory at that moment.

Call all methods on the event loop's thread, except :meth:`PartitionLog.open`, :meth:`PartitionLog.replay` and
:meth:`PartitionLog.check`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from muster.actors.log.committer import Committer, Done, Write, acknowledged
from muster.actors.log.config import LOG_APPEND_TIME, MAX_TIMESTAMP_MS, LogConfig
from muster.actors.log.errors import (
    MessageTooLarge,
    NotLeader,
    OffsetOutOfRange,
    OutOfOrderSequence,
    PolicyViolation,
    RecordListTooLarge,
    StorageError,
)
from muster.actors.log.files import directory as directories
from muster.actors.log.files import recovery
from muster.actors.log.files.directory import Claim
from muster.actors.log.files.disk import DISK, Disk
from muster.actors.log.files.segment import SegmentName, first_serial
from muster.actors.log.format.batch import (
    NO_PRODUCER,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    read_header,
    stamp,
    stamp_log_append_time,
    stamp_max_timestamp,
)
from muster.actors.log.format.client_batch import Checked, ClientBatch, Rules
from muster.actors.log.format.control import EndOfTransaction, control_batch
from muster.actors.log.format.recompression import recompressed
from muster.actors.log.format.records import NOT_A_PRODUCER, BatchProducer, build_batch
from muster.actors.log.producers import ProducerEntry, WrittenBatch
from muster.actors.log.reader import LogReader
from muster.actors.log.storage import DirectoryStorage, PartitionStorage
from muster.actors.log.transactions.decisions import Decisions
from muster.actors.log.transactions.guards import VerificationGuard
from muster.actors.log.upkeep import retention
from muster.actors.log.upkeep.cleaner import Cleaner, CleanResult
from muster.actors.log.upkeep.segment_replacement import THREADS, Change, SegmentReplacer
from muster.actors.wire.internal.markers import Marker
from muster.actors.wire.kafka.framing import Buffer

HIGH_WATERMARK = -1
"""In DeleteRecords, in place of an offset."""


class AppendResult(NamedTuple):
    base_offset: int
    log_append_time_ms: int
    """-1 with message.timestamp.type=CreateTime."""
    log_start_offset: int
    duplicate: bool = False
    """The batch had been appended before; ``base_offset`` is the original one."""


class Append:
    """An append that has its place in the log but may not be durable yet."""

    __slots__ = ("done", "result")

    def __init__(self, result: AppendResult, done: Done | None) -> None:
        self.result = result
        self.done = done
        """None if the batch is durable already."""

    async def durable(self) -> AppendResult:
        """Return the result, once acknowledged. Raises NotLeader or StorageError if the append failed."""
        if self.done is not None:
            await acknowledged(self.done)
        return self.result


class PartitionLog(LogReader):
    """See the module. ``epoch`` is the leader epoch; offsets and times are Kafka's, times in ms since 1970."""

    def __init__(
        self,
        directory: Path,
        topic_id: UUID,
        storage: PartitionStorage,
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
        self._storage = storage
        self._name = directory.name
        self._now_ms = now_ms
        self._watchers: set[Callable[[], None]] = set()
        self._decisions = Decisions()
        self._future_times = retention.FutureTimes(directory.name)
        self._writer = Committer(
            directory, epoch, storage, recovered.segments, recovered.producers, config, disk, self._wake
        )
        if recovered.refusal is not None:
            self._writer.keeper.refuse(recovered.refusal)
        self._replacer = SegmentReplacer(directory, epoch, storage, self._writer, recovered, disk, self._wake)
        serial = first_serial(topic_id)
        self._cleaner = Cleaner(directory, epoch, serial, self._writer, self._replacer, now_ms, disk)

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
        """Take over the directory, creating it if needed, and recover its content. Blocks.

        No other activation of this partition may have the same ``epoch``: FencedEpoch if the directory has seen this or
        a higher one. A directory of another topic id is set aside. Raises StorageError for all other failures.
        """
        try:
            directories.prepare(directory, topic_id, epoch)
            claim = Claim.take(directory, epoch)
            storage = DirectoryStorage(directory, claim, disk, THREADS)
            serial = first_serial(topic_id)
            recovered = recovery.recover(directory, epoch, storage, serial, config.index_interval_bytes, disk)
        except OSError as error:
            raise StorageError(f"{directory} cannot be opened: {error}") from error
        return cls(directory, topic_id, storage, recovered, epoch, config, now_ms, disk)

    @property
    def config(self) -> LogConfig:
        """May be replaced at any time; what has already been written is not changed."""
        return self._writer.config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._writer.config = self._storage.limited(config)

    @property
    def commit_s(self) -> float:
        """How long the current commit has been waiting for the disk, in seconds; 0 if no commit is running."""
        return self._writer.commit_s

    async def append(self, records: bytes) -> AppendResult:
        """Append the one batch of a Produce request and wait until it is durable.

        Raises LogError: see :meth:`enqueue` and :meth:`Append.durable`.
        """
        return await self.enqueue(records).durable()

    def check(self, client_batch: ClientBatch) -> Checked:
        """Do the part of :meth:`enqueue_batch` that depends on nothing but the batch: :meth:`ClientBatch.check`.

        May be called in any thread.
        """
        return client_batch.check(self._rules(self.config, self._now_ms()))

    def enqueue(self, records: Buffer, guard: VerificationGuard | None = None) -> Append:
        """Like :meth:`enqueue_batch`, for the one batch of a Produce request."""
        return self.enqueue_batch(ClientBatch(records), guard)

    def enqueue_batch(self, client_batch: ClientBatch, guard: VerificationGuard | None = None) -> Append:
        """Check a client's batch and assign its offsets. The order of the calls is the order in the log.

        ``guard``: from :meth:`guard_for`, once the coordinator has confirmed the transaction. Raises LogError if the
        batch is refused: those of :meth:`check` and ``ProducerStates.check``.
        """
        writer, now_ms = self._writer, self._now_ms()
        if writer.over is not None:
            raise writer.over.again()
        config = writer.config
        header, max_timestamp_ms = client_batch.check(self._rules(config, now_ms))
        if header.producer_id != NO_PRODUCER:
            try:
                duplicate = writer.producers.check(header, guard)
            except OutOfOrderSequence:
                writer.admit()  # the batch before may have been refused, and librdkafka then takes another epoch
                raise
            if duplicate is not None:
                return self._again(duplicate)
        batch = self._stored(client_batch.records, header, config)
        timestamp_ms = NO_TIMESTAMP
        if config.message_timestamp_type == LOG_APPEND_TIME:
            timestamp_ms = now_ms
            stamp_log_append_time(batch, timestamp_ms)
        elif header.max_timestamp_ms != max_timestamp_ms:
            stamp_max_timestamp(batch, max_timestamp_ms)
        stamp(batch, writer.end_offset, self.epoch)
        write = writer.push(batch, now_ms if timestamp_ms == NO_TIMESTAMP else None)
        result = AppendResult(write.header.base_offset, timestamp_ms, self._replacer.log_start_offset)
        return Append(result, write.done)

    async def append_records(self, records: Sequence[tuple[bytes | None, bytes | None]], timestamp_ms: int) -> int:
        """Append key-value pairs as one batch, all or nothing. Returns its base offset, once durable.

        Without records: returns the log end offset, once everything appended before is durable. Raises NotLeader,
        StorageError or MessageTooLarge.
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

    def enqueue_records(
        self,
        records: Sequence[tuple[bytes | None, bytes | None]],
        timestamp_ms: int,
        *,
        producer: tuple[int, int] | None = None,
        guard: VerificationGuard | None = None,
    ) -> Write:
        """Like :meth:`append_records` for at least one record, but does not wait.

        ``producer``: the records are part of the transaction of that producer id and epoch, without a sequence. Then
        also InvalidTxnState without an open transaction or the current guard, and InvalidProducerEpoch.
        """
        self._check_leader()
        own = NOT_A_PRODUCER if producer is None else BatchProducer(*producer, TRANSACTIONAL)
        place = (self._writer.end_offset, self.epoch)
        config = self._writer.config
        try:
            batch = build_batch(records, timestamp_ms, *place, config.own_codec, own)
        except MessageTooLarge:  # to be compressed
            batch = None
        if batch is None or len(batch) > config.max_batch_bytes:  # a codec makes random data slightly larger
            batch = build_batch(records, timestamp_ms, *place, producer=own)
        if len(batch) > config.max_message_bytes:
            raise MessageTooLarge(f"{len(records)} records of {len(batch)} bytes in one batch")
        if len(batch) > self.config.segment_bytes:
            raise _no_segment_holds(len(batch), self.config)
        self._writer.producers.check(read_header(batch), guard)
        return self._writer.push(batch, None)

    def guard_for(
        self, producer_id: int, producer_epoch: int, base_sequence: int = NO_SEQUENCE, transaction_version: int = 0
    ) -> VerificationGuard | None:
        """Return the guard for the first batch of a transaction; None if the transaction is open and needs none.

        The guard counts once the coordinator has confirmed the transaction, and until a batch or a marker of the
        producer is appended. Raises InvalidProducerEpoch or NotLeader.
        """
        self._check_leader()
        producers = self._writer.producers
        if producers.in_transaction(producer_id, producer_epoch):
            return None
        producers.check_epoch(producer_id, producer_epoch)
        return producers.guards.take(producer_id, producer_epoch, base_sequence, transaction_version)

    def release(self, guard: VerificationGuard) -> None:
        """Release the guard: the coordinator has not confirmed the transaction."""
        self._writer.producers.guards.release(guard)

    def enqueue_marker(self, marker: Marker) -> Append:
        """End a producer's transaction. Its place in the log is that of the call.

        A decision that was executed before, or is older than one, is not appended again: it is a ``duplicate``. As in
        Kafka, a marker without an open transaction is appended: it may bring a newer epoch. So is a decision that a
        newer coordinator repeats: it fences the older one. Raises InvalidProducerEpoch, TransactionCoordinatorFenced,
        NotLeader or StorageError.
        """
        self._check_leader()
        executed = self._decisions.executed(marker)
        if executed is not None and not self._writer.producers.is_coordinator_newer(*marker[:3]):
            return Append(self._result(self._writer.end_offset, NO_TIMESTAMP, duplicate=True), executed)
        producer_id, producer_epoch, coordinator_epoch, commit, transaction_version, *_ = marker
        self._writer.producers.check_end(producer_id, producer_epoch, coordinator_epoch, transaction_version)
        end = EndOfTransaction(commit, coordinator_epoch)
        place = (self._writer.end_offset, self.epoch)
        now_ms = self._now_ms()
        write = self._writer.push(control_batch(producer_id, producer_epoch, end, now_ms, *place), now_ms, end)
        self._decisions.add(marker, write.done)
        return Append(self._result(write.header.base_offset, NO_TIMESTAMP), write.done)

    def producers(self) -> dict[int, ProducerEntry]:
        """Return the state of each producer that has written to the partition, by producer id. Raises NotLeader."""
        self._check_leader()
        return self._writer.producers.entries()

    async def delete_records(self, before_offset: int) -> int:
        """Move the log start to that offset (-1: the high watermark), for good. Returns the log start; it never falls.

        Raises OffsetOutOfRange, or PolicyViolation if records are only removed by compaction (as Kafka's
        Partition.deleteRecordsOnLeader), NotLeader, StorageError.
        """
        self._check_leader()
        if self.config.compacts and not self.config.deletes:
            raise PolicyViolation(f"{self.directory.name}: cleanup.policy is {self.config.cleanup_policy}")
        high_watermark = self._writer.high_watermark
        start = high_watermark if before_offset == HIGH_WATERMARK else before_offset
        if not 0 <= start <= high_watermark:
            raise OffsetOutOfRange(f"{self.directory.name}: offset {start} is not in 0 to {high_watermark}")
        await self._replacer.apply(lambda: retention.deletion(self._writer.segments, self.log_start_offset, start))
        return self.log_start_offset

    async def apply_retention(self) -> int:
        """Remove closed segments beyond the configured age or size. Returns how many. Raises NotLeader or StorageError.

        The last segment is closed first if it is too old. Inactive producers are forgotten.
        """
        self._check_leader()
        now_ms = self._now_ms()
        settled = self._writer.segments[-1].base_offset
        self._writer.producers.expire(now_ms - self.config.producer_id_expiration_ms, settled)
        self._decisions.keep(self._writer.producers.entries())
        with self._errors("nothing is removed"):
            if retention.is_roll_due(self._writer, now_ms):
                await self._writer.roll()
            self._future_times.look(self._writer.segments, self.config, now_ms)
            change = await self._replacer.apply(lambda: retention.expiry(self._writer.segments, self.config, now_ms))
        return len(change.removed) if change is not None else 0

    async def clean(self) -> CleanResult | None:
        """Compact if a run is due, else return None. One run at a time. As Kafka's log cleaner.

        Raises NotLeader, StorageError or CorruptMessage.
        """
        self._check_leader()
        with self._errors("it cannot be cleaned"):
            return await self._cleaner.run()

    @property
    def active_segment(self) -> SegmentName:
        """Name of the segment that is written to."""
        return self._writer.segments[-1].name

    async def roll(self) -> None:
        """Begin a new segment, unless the last one is empty. Raises NotLeader or StorageError."""
        await self._writer.roll()

    def publish_soon(self) -> asyncio.Future[Change | None]:
        """Write the manifest as the log is by then. A failure is left for the next change."""
        publishing = asyncio.ensure_future(self._replacer.apply(Change))
        publishing.add_done_callback(lambda done: done.cancelled() or done.exception())
        return publishing

    @contextmanager
    def watching(self, callback: Callable[[], None]) -> Iterator[None]:
        """Call ``callback`` within the context whenever the high watermark has grown or the log is over."""
        self.watch(callback)
        try:
            yield
        finally:
            self.unwatch(callback)

    def watch(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` whenever the high watermark, log start or segments have changed, or the log is over.

        It stays registered until :meth:`unwatch`, and must not raise.
        """
        self._watchers.add(callback)

    def unwatch(self, callback: Callable[[], None]) -> None:
        """Do not call it again, except for a change that is being reported."""
        self._watchers.discard(callback)

    async def close(self) -> None:
        """Wait until everything appended is durable, then close the files. May be called again."""
        if self._writer.over is None:
            self._writer.end(NotLeader(f"{self.directory.name} is closed"))
            self._storage.closing()
        await self._cleaner.stop()
        await self._replacer.settled()
        await self._writer.close()
        await self._storage.close()

    async def delete(self) -> None:
        """Close the log, and remove the directory if it still belongs to this topic. Raises StorageError."""
        await self.close()
        try:
            await asyncio.get_running_loop().run_in_executor(None, directories.remove, self.directory, self.topic_id)
        except OSError as error:
            raise StorageError(f"{self.directory} cannot be removed: {error}") from error

    def _rules(self, config: LogConfig, now_ms: int) -> Rules:
        """Return the current rules for batches of clients."""
        if config.message_timestamp_type == LOG_APPEND_TIME:
            return Rules(self._name, config.max_message_bytes, config.compacts)
        earliest_ms = now_ms - config.message_timestamp_before_max_ms
        latest_ms = min(now_ms + config.message_timestamp_after_max_ms, MAX_TIMESTAMP_MS)
        return Rules(self._name, config.max_message_bytes, config.compacts, earliest_ms, latest_ms)

    def _stored(self, records: Buffer, header: BatchHeader, config: LogConfig) -> bytearray:
        """Return a copy of the client's batch, in the codec of compression.type.

        Raises MessageTooLarge if that makes it too large, or RecordListTooLarge.
        """
        codec = config.codec
        if codec is None or codec == header.codec:
            batch = bytearray(records)
        else:
            batch = recompressed(records, header, codec, config.level)
            if len(batch) > config.max_message_bytes:
                raise MessageTooLarge(f"with compression.type={config.compression_type} a batch of {len(batch)} bytes")
        if len(batch) > config.segment_bytes:
            raise _no_segment_holds(len(batch), config)
        return batch

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


def _no_segment_holds(size_bytes: int, config: LogConfig) -> RecordListTooLarge:
    return RecordListTooLarge(f"a record batch of {size_bytes} bytes, segment.bytes is {config.segment_bytes}")
