"""The log cleaner keeps the last record of each key. Appends and reads continue meanwhile.

A run reads the keys of what is new since the last run (the dirty part), as many as fit into
log.cleaner.dedupe.buffer.size. It then copies the closed segments below, group by group, without the records that
later ones supersede. A group is as many neighbours as make one segment. Each copy becomes part of the log by itself
(``muster.actors.log.upkeep.segment_replacement``), oldest first. Wherever a run stops, no record is removed before its
successor is in place, and no tombstone before its predecessors. The last change also records how far the log is clean.
A run ends at the last stable offset: what is before it is committed or aborted for good.

The work is done in one thread per process, which sleeps for as long as it works, because it shares the interpreter
with the event loop. The thread reads through its own file descriptors.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import os
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TypeVar

from muster.actors.log.committer import Committer
from muster.actors.log.config import LogConfig
from muster.actors.log.files import append_times, snapshot
from muster.actors.log.files.disk import Disk
from muster.actors.log.files.segment import Segment, SegmentName
from muster.actors.log.format.batch import NO_TIMESTAMP, BatchHeader, read_header
from muster.actors.log.transactions.aborted import AbortedRanges, overlapping
from muster.actors.log.upkeep.compaction import Compactor, KeyMap
from muster.actors.log.upkeep.segment_replacement import Change, SegmentReplacer

log = logging.getLogger(__name__)

T = TypeVar("T")
_THREAD = ThreadPoolExecutor(max_workers=1, thread_name_prefix="log-cleaner")
_READ_BYTES = 256 << 10
_WRITE_BYTES = 1 << 20
_MAX_LONG = 2**63 - 1
_WORK_S = 0.005
"""After working for this long, the thread sleeps for as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanResult:
    cleaned_offset: int
    """Below it, no key occurs twice."""
    bytes_before: int
    bytes_after: int
    segments_before: int
    segments_after: int


class _Stopped(Exception):
    """The log is being closed, or its segments were removed."""


@dataclass(frozen=True, slots=True)
class _Plan:
    segments: tuple[Segment, ...]
    """The segments to clean, ascending."""
    first_dirty_offset: int


class Cleaner:
    """The cleaner of one log. For the event loop's thread."""

    def __init__(
        self,
        directory: Path,
        epoch: int,
        first_serial: int,
        writer: Committer,
        replacer: SegmentReplacer,
        now_ms: Callable[[], int],
        disk: Disk,
    ) -> None:
        self._directory = directory
        self._epoch = epoch
        self._writer = writer
        self._replacer = replacer
        self._now_ms = now_ms
        self._disk = disk
        self._serial = first_serial
        self._stopping = threading.Event()
        self._running = asyncio.Lock()

    async def run(self) -> CleanResult | None:
        """Run once, if a run is due. The run continues if the caller is cancelled. Raises LogError or OSError."""
        return await asyncio.shield(asyncio.ensure_future(self._run_if_due()))

    async def _run_if_due(self) -> CleanResult | None:
        async with self._running:
            if self._stopping.is_set():
                return None
            first_dirty_offset = max(self._replacer.cleaned_offset, self._replacer.log_start_offset)
            plan = plan_run(self._stable_segments(), first_dirty_offset, self._writer.config, self._now_ms())
            if plan is None:
                return None
            try:
                return await self._run(plan)
            except _Stopped:
                return None

    async def stop(self) -> None:
        """End the current run, and wait until it has ended."""
        self._stopping.set()
        async with self._running:
            pass

    def _stable_segments(self) -> list[Segment]:
        """Return the closed segments that hold no record of an open transaction or behind its first one."""
        *closed, _ = self._writer.segments
        unstable = self._writer.producers.first_unstable_offset
        return [segment for segment in closed if unstable is None or segment.next_offset <= unstable]

    async def _run(self, plan: _Plan) -> CleanResult:
        await self._writer.append_times.flush()
        dirty = [segment for segment in plan.segments if segment.next_offset > plan.first_dirty_offset]
        self._check_held(dirty)
        keys = KeyMap(self._writer.config.log_cleaner_dedupe_buffer_size)
        aborted = self._aborted(plan)
        with _readers(dirty) as readers:
            until = await self._in_thread(lambda: self._read_keys(readers, keys, plan.first_dirty_offset, aborted))
        compactor = Compactor(
            keys,
            self._now_ms(),
            self._writer.config.delete_retention_ms,
            self._writer.producers.batch_offsets(),
            aborted,
        )
        with_records: set[int] = set()
        cleanable = [segment for segment in plan.segments if segment.base_offset < until]
        after: list[Segment] = []
        for group in groups(cleanable, self._writer.config.segment_bytes):
            after += await self._clean_group(group, compactor, with_records, until)
        await self._replacer.apply(lambda: Change(cleaned_offset=until))
        result = CleanResult(
            cleaned_offset=until,
            bytes_before=sum(segment.size_bytes for segment in cleanable),
            bytes_after=sum(segment.size_bytes for segment in after),
            segments_before=len(cleanable),
            segments_after=len(after),
        )
        log.info("%s: cleaned up to offset %d, %s", self._directory, until, result)
        return result

    def _aborted(self, plan: _Plan) -> AbortedRanges:
        """Return the aborted transactions with records in the plan's segments; the markers of some are behind these."""
        start, upper = plan.segments[0].base_offset, plan.segments[-1].next_offset
        segments = (each.aborted for each in self._writer.segments if each.next_offset > start)
        return AbortedRanges(overlapping(segments, start, upper))

    async def _clean_group(
        self, group: Sequence[Segment], compactor: Compactor, with_records: set[int], until: int
    ) -> Sequence[Segment]:
        """Clean a group. Returns the segments that are then in its place."""
        self._check_held(group)
        name = SegmentName(self._epoch, self._serial, group[0].base_offset, cleaned=True)
        self._serial += 1
        with _readers(group) as readers:
            made = await self._in_thread(lambda: self._copy(readers, name, compactor, with_records, until))
        if made is None:
            return group

        def decide() -> Change | None:
            return Change(removed=tuple(group), replacement=made) if self._holds(group) else None

        if await self._replacer.apply(decide) is None:
            made.close()
            await self._in_thread(lambda: _remove(made.path, self._disk))
            raise _Stopped
        return [made]

    def _holds(self, segments: Sequence[Segment]) -> bool:
        """Whether all of them are part of the log: records may be deleted while the cleaner runs."""
        return {id(segment) for segment in segments} <= {id(segment) for segment in self._writer.segments}

    def _check_held(self, segments: Sequence[Segment]) -> None:
        if not self._holds(segments):
            raise _Stopped

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(_THREAD, work)

    def _read_keys(
        self, readers: Sequence[Segment], keys: KeyMap, first_dirty_offset: int, aborted: AbortedRanges
    ) -> int:
        """Fill the map. Returns the offset up to which it holds all keys, starting with the first dirty one."""
        for reader in readers:
            for header, batch in self._batches(reader):
                if header.last_offset < first_dirty_offset or header.is_control or aborted.hold(header):
                    continue
                if not keys.add_batch(batch, header):
                    return header.base_offset
        return readers[-1].next_offset

    def _copy(
        self,
        readers: Sequence[Segment],
        name: SegmentName,
        compactor: Compactor,
        with_records: set[int],
        until: int,
    ) -> Segment | None:
        """Return a new, durable segment of the records that stay; None if a single segment needs no change.

        ``with_records``: as of the beginning; then, as of the end.
        """
        end = readers[-1].next_offset

        def compacted(reader: Segment, seen: set[int]) -> Iterator[tuple[BatchHeader, bytes, bytes | None]]:
            for header, batch in self._batches(reader):
                if header.last_offset >= until:
                    yield header, batch, batch
                else:
                    yield header, batch, compactor.compact(batch, header, seen, is_last=header.next_offset == end)

        first_look = set(with_records)
        if len(readers) == 1 and all(kept is batch for _, batch, kept in compacted(readers[0], first_look)):
            with_records.clear()
            with_records |= first_look
            return None
        output = _Output(Segment.create(self._directory, name, self._interval_bytes(), self._disk), self._disk)
        try:
            for reader in readers:
                for header, batch, kept in compacted(reader, with_records):
                    if kept is not None:
                        output.add(kept, header if kept is batch else read_header(kept))
            output.finish(readers)
        except BaseException:
            output.segment.close()
            with suppress(OSError):
                _remove(output.segment.path, self._disk)
            raise
        return output.segment

    def _interval_bytes(self) -> int:
        return self._writer.config.index_interval_bytes

    def _batches(self, reader: Segment) -> Iterator[tuple[BatchHeader, bytes]]:
        """Yield the batches of a segment, at the rate of this thread. Raises _Stopped, CorruptSegment or OSError."""
        began_s = time.monotonic()
        for found in reader.batches(_READ_BYTES):
            yield found
            if (worked_s := time.monotonic() - began_s) > _WORK_S:
                self._stopping.wait(worked_s)
                began_s = time.monotonic()
            if self._stopping.is_set():
                raise _Stopped


class _Output:
    """A segment that is being written."""

    def __init__(self, segment: Segment, disk: Disk) -> None:
        self.segment = segment
        self._disk = disk
        self._written_bytes = 0
        self._buffer = bytearray()
        self._offsets = array("q")
        self._markers = array("q")

    def add(self, batch: bytes, header: BatchHeader) -> None:
        self.segment.add(header)
        if header.is_control and header.record_count:
            self._markers.append(header.base_offset)
        self._offsets.append(header.base_offset)
        self._buffer += batch
        if len(self._buffer) >= _WRITE_BYTES:
            self._flush()

    def _flush(self) -> None:
        self._disk.write(self.segment.fd, bytes(self._buffer), self._written_bytes)
        self._written_bytes += len(self._buffer)
        self._buffer.clear()

    def finish(self, sources: Sequence[Segment]) -> None:
        """Make the segment durable, and write the files beside it. Failures of the latter are logged."""
        markers = frozenset(self._markers)
        for aborted in (each for source in sources for each in source.aborted):
            if aborted.last_offset in markers:
                self.segment.aborted.add(aborted)
        self._flush()
        self._disk.sync(self.segment.fd)
        try:
            append_times.carry_over([source.path for source in sources], self.segment.path, self._offsets, self._disk)
            self.segment.keep_index(self._disk)
            producers = snapshot.read(sources[-1].path, sources[-1].next_offset)
            if producers is not None:
                snapshot.write(self.segment.path, self.segment.next_offset, producers, self._disk)
        except OSError as error:
            log.warning("%s: not all files beside it are written: %s", self.segment.path, error)


def plan_run(segments: Sequence[Segment], first_dirty_offset: int, config: LogConfig, now_ms: int) -> _Plan | None:
    """Plan a run over these closed segments, like Kafka's LogCleanerManager; None if no run is due.

    Raises OSError or CorruptSegment.
    """
    if not config.compacts or not config.log_cleaner_enable:
        return None
    sound = [segment for segment in segments if segment.size_bytes and segment.corrupt is None]
    clean = [segment for segment in sound if segment.next_offset <= first_dirty_offset]
    newest_ms = now_ms - config.min_compaction_lag_ms if config.min_compaction_lag_ms else _MAX_LONG
    dirty = list(takewhile(lambda segment: segment.max_timestamp_ms <= newest_ms, sound[len(clean) :]))
    if not dirty:
        return None
    clean_bytes, dirty_bytes = (sum(segment.size_bytes for segment in part) for part in (clean, dirty))
    if dirty_bytes / (clean_bytes + dirty_bytes) <= config.min_cleanable_dirty_ratio and not _is_late(
        dirty, now_ms - config.max_compaction_lag_ms
    ):
        return None
    return _Plan((*clean, *dirty), first_dirty_offset)


def _is_late(dirty: Sequence[Segment], oldest_ms: int) -> bool:
    """Whether a segment begins with a record older than that."""
    if oldest_ms < 0:
        return False
    firsts = (segment.header_of(segment.base_offset) for segment in dirty)
    return any(header is not None and NO_TIMESTAMP < header.max_timestamp_ms < oldest_ms for header in firsts)


def groups(segments: Sequence[Segment], segment_bytes: int) -> list[list[Segment]]:
    """Neighbours that together do not exceed the size limit of one segment."""
    found: list[list[Segment]] = []
    size_bytes = 0
    for segment in segments:
        size_bytes += segment.size_bytes
        if not found or found[-1][-1].next_offset != segment.base_offset or size_bytes > segment_bytes:
            found.append([])
            size_bytes = segment.size_bytes
        found[-1].append(segment)
    return found


@contextmanager
def _readers(segments: Sequence[Segment]) -> Iterator[list[Segment]]:
    """Yield the segments with separate file descriptors, for another thread."""
    readers: list[Segment] = []
    try:
        for segment in segments:
            reader = copy.copy(segment)
            reader.on_corrupt = lambda _: None
            reader.fd = os.dup(segment.fd)
            readers.append(reader)
        yield readers
    finally:
        for segment, reader in zip(segments, readers, strict=False):
            os.close(reader.fd)
            if reader.corrupt is not None and segment.corrupt is None:
                segment.corrupt = reader.corrupt
                segment.on_corrupt(segment)


def _remove(path: Path, disk: Disk) -> None:
    """Remove a segment that no manifest lists, and the files beside it. Raises OSError."""
    for entry in sorted(path.parent.glob(f"{path.stem}.*"), key=lambda entry: entry == path):
        disk.unlink(entry)
