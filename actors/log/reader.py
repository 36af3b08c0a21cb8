"""The read side of a partition's log: what is durable, from the log start to the high watermark.

Offsets in between may be missing where the cleaner removed records. A lookup of such an offset uses the next record
that exists.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from muster.actors.log.committer import Committer
from muster.actors.log.errors import OffsetOutOfRange, StorageError
from muster.actors.log.files.segment import Segment
from muster.actors.log.format.batch import BatchHeader
from muster.actors.log.format.control import EndOfTransaction, read_control
from muster.actors.log.format.records import Record, read_records
from muster.actors.log.transactions.aborted import AbortedTransaction, overlapping
from muster.actors.log.upkeep.segment_replacement import SegmentReplacer


class Extent(NamedTuple):
    """Whole batches of a segment."""

    segment: Segment
    start: int
    end: int


class LogReader:
    """For the event loop's thread, except :meth:`replay`. Every method may raise NotLeader and StorageError."""

    directory: Path
    epoch: int
    _writer: Committer
    _replacer: SegmentReplacer

    @property
    def log_start_offset(self) -> int:
        """The first offset that is served; earlier records were deleted or have expired."""
        return self._replacer.log_start_offset

    @property
    def high_watermark(self) -> int:
        """The end of the durable, readable records."""
        return self._writer.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """The end of what READ_COMMITTED reads: no transaction that is open, or ends undurably, has records before."""
        return self.ends[2]

    @property
    def ends(self) -> tuple[int, int, int]:
        """The log start offset, high watermark and last stable offset."""
        writer, start = self._writer, self._replacer.log_start_offset
        high_watermark = writer.high_watermark
        first_unstable = writer.producers.first_unstable_offset
        if first_unstable is None or first_unstable >= high_watermark:
            return start, high_watermark, high_watermark
        return start, high_watermark, max(first_unstable, start)

    @property
    def log_end_offset(self) -> int:
        """The offset that the next append gets."""
        return self._writer.end_offset

    @property
    def last_append_ms(self) -> int | None:
        """Time of the last append since the log was opened, ms since 1970 by this node's clock; None without one."""
        return self._writer.last_append_ms

    @property
    def size_bytes(self) -> int:
        """Size of the segments, without their indexes."""
        return sum(segment.size_bytes for segment in self._writer.segments)

    @property
    def is_over(self) -> bool:
        """Whether the log is closed, deleted or fenced: every further call raises NotLeader."""
        return self._writer.over is not None

    @property
    def corrupt_segments(self) -> int:
        """The number of its segments that are set aside or missing."""
        return self._writer.keeper.corrupt_segments

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool, before: int | None = None) -> bytes:
        """Whole batches below the high watermark, starting with the one that holds the offset.

        At most ``max_bytes``; with ``at_least_one`` the first batch is returned even if it is larger. ``before``: only
        batches that end before that offset, such as the last stable one. Empty at the bound. Raises OffsetOutOfRange.
        """
        return self.read_extents(self.extents(offset, max_bytes, at_least_one=at_least_one, before=before))

    def read_extents(self, extents: Sequence[Extent]) -> bytes:
        """Return the whole batches, checked."""
        with self._errors("it cannot be read"):
            parts = [segment.read(start, end) for segment, start, end in extents]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def extents(self, offset: int, max_bytes: int, *, at_least_one: bool, before: int | None = None) -> list[Extent]:
        """Where the bytes that :meth:`read` returns are."""
        self._check_offset(offset)
        found: list[Extent] = []
        segments = self._writer.segments
        try:
            for index in range(self._segment_index(offset), len(segments)):
                segment = segments[index]
                if (max_bytes <= 0 and not at_least_one) or (segment.corrupt is not None and found):
                    break
                if before is not None and before <= segment.base_offset:
                    break
                start = segment.locate(offset)
                end = segment.cut(start, max_bytes, at_least_one=at_least_one)
                if before is not None and before < segment.next_offset:
                    end = min(end, segment.locate(before))
                if end > start:
                    found.append(Extent(segment, start, end))
                    at_least_one = False
                    max_bytes -= end - start
                if end < segment.size_bytes:
                    break
        except OSError as error:
            raise self._unreadable(offset, error) from error
        return found

    def is_end(self, offset: int) -> bool:
        """Whether there is nothing to read from that offset, which is the high watermark."""
        self._check_leader()
        writer = self._writer
        return offset == writer.high_watermark and writer.segments[-1].corrupt is None

    def bytes_available(self, offset: int, before: int | None = None) -> int:
        """Return the size of an unlimited read from that offset, up to ``before`` if given. Raises OffsetOutOfRange."""
        self._check_offset(offset)
        if offset >= self._writer.high_watermark:
            return 0
        try:
            available = self._bytes_behind(offset)
            if before is not None and before < self._writer.high_watermark:
                available -= self._bytes_behind(before)
        except OSError as error:
            raise self._unreadable(offset, error) from error
        return max(available, 0)

    def _bytes_behind(self, offset: int) -> int:
        """Size of the batches from the one on that holds the offset. Raises OSError."""
        index = self._segment_index(offset)
        first = self._writer.segments[index].size_bytes - self._writer.segments[index].locate(offset)
        return first + sum(segment.size_bytes for segment in self._writer.segments[index + 1 :])

    def aborted_transactions(self, start: int, extents: Sequence[Extent], before: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with records in a read from ``start`` that ended at ``before`` or earlier."""
        segments = self._writer.segments[self._segment_index(start) :]
        if not extents or not any(len(segment.aborted) for segment in segments):
            return []
        last = extents[-1]
        with self._errors("the end of what was read cannot be found"):
            behind = last.segment.offset_at(last.end)
        upper = min(behind if behind is not None else last.segment.next_offset, before)
        return list(overlapping((segment.aborted for segment in segments), start, upper))

    def bytes_before(self, offset: int) -> int:
        """Size of the batches whose last offset is before ``offset``, from the first batch on the disk.

        Offsets before the log start count as the log start, those behind the high watermark as the high watermark.
        """
        self._check_leader()
        offset = min(max(offset, self.log_start_offset), self._writer.high_watermark)
        index = self._segment_index(offset)
        with self._errors(f"offset {offset} cannot be looked up"):
            within = self._writer.segments[index].locate(offset)
        return within + sum(segment.size_bytes for segment in self._writer.segments[:index])

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch of the record at that offset; at the log's end, the log's own epoch."""
        with self._errors(f"offset {offset} cannot be read"):
            found = self._find(offset)
        return found[1].partition_leader_epoch if found is not None else self._writer.segments[-1].epoch

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest leader epoch with records up to ``epoch``, and the offset at which it ends.

        (-1, -1) for an epoch that the log has not seen yet, and for -1; the epoch itself, and where the log begins, if
        all records are newer (Kafka's ``LeaderEpochFileCache.endOffsetFor``). Where the cleaner has removed records
        the end may be larger than it was, never smaller: a client whose position is before it has lost nothing.
        """
        self._check_leader()
        if epoch == self.epoch:
            return epoch, self._writer.end_offset
        if not 0 <= epoch < self.epoch:
            return -1, -1
        with self._errors(f"epoch {epoch} cannot be looked up"):
            return self._end_of(epoch)

    def offset_for_time(self, timestamp_ms: int) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record with that timestamp or a later one; None without such a record.

        Raises CorruptMessage.
        """
        self._check_leader()
        with self._errors(f"timestamp {timestamp_ms} cannot be looked up"):
            for segment in self._writer.segments:
                for header, batch in segment.batches_since(timestamp_ms):
                    for record in self._records(header, batch):
                        if record.timestamp_ms >= timestamp_ms:
                            return record.offset, record.timestamp_ms
        return None

    def append_time_ms(self, offset: int) -> int | None:
        """When the record at that offset was appended, ms since 1970 by this node's clock.

        None if the time is unknown, or if there is no such record (yet). All records of a batch have its time.
        """
        return self.append_times_ms([offset])[0]

    def append_times_ms(self, offsets: Iterable[int]) -> list[int | None]:
        """Return :meth:`append_time_ms` of each of the offsets, which ascend. A batch is looked up once."""
        self._check_leader()
        times_ms: list[int | None] = []
        last_offset, found_ms = -1, None  # of the batch that was looked up last
        for offset in offsets:
            if not self.log_start_offset <= offset < self._writer.high_watermark:
                times_ms.append(None)
                continue
            if offset > last_offset:
                last_offset, found_ms = self._appended_ms(offset)
            times_ms.append(found_ms)
        return times_ms

    def _appended_ms(self, offset: int) -> tuple[int, int | None]:
        """Return the last offset of the batch that has the offset, and when it was appended."""
        with self._errors(f"offset {offset} cannot be read"):
            found = self._find(offset)
        if found is None:
            return offset, None
        segment, header = found
        if header.has_log_append_time:
            return header.last_offset, header.max_timestamp_ms
        return header.last_offset, self._writer.append_times.look_up(segment.path, header.base_offset)

    def offset_of_max_timestamp(self) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record with the largest timestamp; None in an empty log.

        Raises CorruptMessage.
        """
        self._check_leader()
        filled = [segment for segment in self._writer.segments if segment.size_bytes]
        latest: Record | None = None
        with self._errors("the largest timestamp cannot be looked up"):
            for segment in sorted(filled, key=lambda segment: -segment.max_timestamp_ms):
                if latest is not None and latest.timestamp_ms >= segment.max_timestamp_ms:
                    break
                found = self._latest(segment)
                if found is not None and (latest is None or found.timestamp_ms > latest.timestamp_ms):
                    latest = found
        return (latest.offset, latest.timestamp_ms) if latest is not None else None

    def replay(self) -> Iterator[Record]:
        """All records up to the high watermark, in order, without control records. Blocks. Raises CorruptMessage.

        For a coordinator that loads before it serves: nothing is appended meanwhile.
        """
        for _, records in self.replay_batches():
            if not isinstance(records, EndOfTransaction):
                yield from records

    def replay_batches(self) -> Iterator[tuple[BatchHeader, Iterator[Record] | EndOfTransaction]]:
        """Yield :meth:`replay`'s records by batch, each with its header, and known control batches in their place."""
        with self._errors("it cannot be replayed"):
            for segment in list(self._writer.segments):
                for header, batch in segment.batches(self._writer.config.load_buffer_bytes):
                    if not header.is_control:
                        yield header, self._records(header, batch)
                    elif header.base_offset >= self.log_start_offset and (end := read_control(batch, header)):
                        yield header, end

    def _end_of(self, epoch: int) -> tuple[int, int]:
        """Leader epochs grow along the log. Raises OSError."""
        segments = [segment for segment in self._writer.segments if segment.size_bytes]

        def is_newer(segment: Segment, offset: int) -> bool:
            header = segment.header_of(offset)
            return header is None or header.partition_leader_epoch > epoch

        count = bisect_left(segments, True, key=lambda segment: is_newer(segment, segment.base_offset))
        after = segments[count].header_of(segments[count].base_offset) if count < len(segments) else None
        end = after.base_offset if after is not None else self._writer.end_offset
        if not count:
            return epoch, end
        last = segments[count - 1]
        offsets = range(last.base_offset, last.next_offset)
        newer = last.base_offset + bisect_left(offsets, True, key=lambda offset: is_newer(last, offset))
        if newer < last.next_offset and (after := last.header_of(newer)) is not None:
            end = after.base_offset
        before = last.header_of(newer - 1)
        return (before.partition_leader_epoch if before is not None else epoch), end

    def _latest(self, segment: Segment) -> Record | None:
        """Return the first of the segment's records with the largest timestamp."""
        header, batch = segment.batch_with_max_timestamp()
        if header.record_count and header.base_offset >= self.log_start_offset:
            return max(read_records(batch, header), key=lambda record: record.timestamp_ms)
        everything = segment.batches(self._writer.config.load_buffer_bytes)
        records = (record for header, batch in everything for record in self._records(header, batch))
        return max(records, key=lambda record: record.timestamp_ms, default=None)

    def _records(self, header: BatchHeader, batch: bytes) -> Iterator[Record]:
        """Yield the records of a batch that were not deleted."""
        if header.last_offset < self.log_start_offset:
            return
        for record in read_records(batch, header):
            if record.offset >= self.log_start_offset:
                yield record

    def _find(self, offset: int) -> tuple[Segment, BatchHeader] | None:
        """Return the batch that holds the offset, or the next one that exists. Raises OSError."""
        for segment in self._writer.segments[self._segment_index(offset) :]:
            if (header := segment.header_of(offset)) is not None:
                return segment, header
        return None

    def _segment_index(self, offset: int) -> int:
        segments = self._writer.segments
        if offset >= segments[-1].name.base_offset:
            return len(segments) - 1
        return max(bisect_right(segments, offset, key=lambda segment: segment.name.base_offset) - 1, 0)

    def _check_leader(self) -> None:
        if self._writer.over is not None:
            raise self._writer.over.again()

    def _check_offset(self, offset: int) -> None:
        writer, start = self._writer, self._replacer.log_start_offset
        if writer.over is not None:
            raise writer.over.again()
        if not start <= offset <= writer.end_offset:
            if writer.keeper.refusal is not None:  # the end of the log is unknown
                raise writer.keeper.refusal.again()
            raise OffsetOutOfRange(f"{self.directory.name}: offset {offset} is not in {start} to {writer.end_offset}")

    def _unreadable(self, offset: int, error: OSError) -> StorageError:
        return StorageError(f"{self.directory.name}: offset {offset} cannot be read: {error}")

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(f"{self.directory.name}: {what}: {error}") from error
