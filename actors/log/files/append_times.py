"""When each batch was appended: a file ``<name of the segment>.appended`` beside each segment file.

The timestamps inside a batch are the producer's (message.timestamp.type=CreateTime), so the log keeps its own. An
entry is 16 bytes, big-endian: base offset i64, append time i64, in ms since 1970. Entries of acknowledged batches
are written a moment later, many at once, since a write per commit was measured to cost Produce a tenth of its
speed; and they are never synced. After a crash some may be missing, anywhere: a missing entry means "unknown".

A time is never wrong. A lookup takes the base offset of a batch that the log holds, in the file of the segment that
holds it, and

* the segment is found by the offset and the manifests, as for a read: an entry of a batch that was lost, or of a
  fenced writer, has an offset that this segment does not hold;
* no segment name is used twice, and in one segment an offset is written once (``muster.actors.log.committer``): a batch
  that takes the offset of a lost batch is in another segment;
* an entry lies within one disk sector, so it is there as a whole or as zeros, and no batch was appended in 1970.

A batch with LogAppendTime holds its own time, and needs no entry.
"""

from __future__ import annotations

import asyncio
import logging
import os
import struct
from collections.abc import Iterable
from concurrent.futures import Executor
from pathlib import Path

from muster.actors.log.files.disk import Disk

log = logging.getLogger(__name__)

ENTRY = struct.Struct(">qq")
SUFFIX = ".appended"
WRITE_AFTER_S = 0.25
"""How much a killed actor may lose."""

Entries = dict[int, int]
"""Base offset -> append time in ms, ascending."""


def path_of(segment: Path) -> Path:
    """Return the ``.appended`` file of that segment file."""
    return segment.with_suffix(SUFFIX)


class AppendTimes:
    """The append times of one log. For the event loop's thread. A disk failure only loses entries."""

    def __init__(self, disk: Disk, threads: Executor) -> None:
        self._disk = disk
        self._threads = threads
        self._unwritten: dict[Path, Entries] = {}
        self._writing: dict[Path, Entries] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._writer: asyncio.Future[None] | None = None
        self._segment: Path | None = None
        self._fd = -1
        self._end = 0

    def add(self, segment: Path, base_offset: int, appended_ms: int) -> None:
        """Record when a batch of the segment was appended. Base offsets ascend."""
        entries = self._unwritten.get(segment)
        if entries is None:
            entries = self._unwritten[segment] = {}
        entries[base_offset] = appended_ms
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WRITE_AFTER_S, self._write_soon)

    def look_up(self, segment: Path, base_offset: int) -> int | None:
        """When the batch of the segment with that base offset was appended; None if unknown."""
        for entries in (self._unwritten, self._writing):
            if (appended_ms := entries.get(segment, {}).get(base_offset)) is not None:
                return appended_ms
        return _look_up(segment, base_offset)

    def _write_soon(self) -> None:
        self._timer = None
        if self._writer is not None:  # the disk is slow: one write at a time
            self._timer = asyncio.get_running_loop().call_later(WRITE_AFTER_S, self._write_soon)
            return
        self._writing, self._unwritten = self._unwritten, {}
        self._writer = asyncio.get_running_loop().run_in_executor(self._threads, self._write_all)
        self._writer.add_done_callback(self._written)

    def _written(self, _: asyncio.Future[None]) -> None:
        self._writer = None
        self._writing = {}

    async def flush(self) -> None:
        """Write what was added, now."""
        while self._writer is not None or self._timer is not None:
            if self._writer is not None:
                await asyncio.wait([self._writer])
            elif self._timer is not None:
                self._timer.cancel()
                self._write_soon()

    async def close(self) -> None:
        """Write what was added, and close the file. May be called again."""
        await self.flush()
        self._close_file()

    def _write_all(self) -> None:
        for segment, entries in self._writing.items():
            try:
                self._write(segment, entries)
            except OSError as error:
                log.warning("%s: append times are not kept: %s", path_of(segment), error)

    def _write(self, segment: Path, entries: Entries) -> None:
        if segment != self._segment:
            self._close_file()
            self._segment = segment
            self._fd, self._end = self._disk.create_unsynced(path_of(segment)), 0
        if self._fd >= 0 and entries:
            content = b"".join(ENTRY.pack(*entry) for entry in entries.items())
            self._disk.write(self._fd, content, self._end)
            self._end += len(content)

    def _close_file(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


def carry_over(segments: Iterable[Path], target: Path, base_offsets: Iterable[int], disk: Disk) -> None:
    """Create the file of a segment that holds batches of the given ones; base offsets ascend. In a thread.

    Raises OSError.
    """
    wanted = iter(base_offsets)
    offset = next(wanted, None)
    content = bytearray()
    for segment in segments:
        try:
            known = path_of(segment).read_bytes()
        except FileNotFoundError:
            continue
        for at, appended_ms in ENTRY.iter_unpack(known[: len(known) // ENTRY.size * ENTRY.size]):
            while offset is not None and offset < at:
                offset = next(wanted, None)
            if offset == at and appended_ms > 0:
                content += ENTRY.pack(at, appended_ms)
    if content:
        fd = disk.create_unsynced(path_of(target))
        try:
            disk.write(fd, bytes(content), 0)
        finally:
            os.close(fd)


def _look_up(segment: Path, base_offset: int) -> int | None:
    try:
        fd = os.open(path_of(segment), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _search(fd, base_offset)
    except OSError as error:
        log.warning("%s cannot be read: %s", path_of(segment), error)
        return None
    finally:
        os.close(fd)


def _search(fd: int, base_offset: int) -> int | None:
    """Binary search. Zeros in between may hide an entry, but cannot invent one."""
    low, high = 0, os.fstat(fd).st_size // ENTRY.size
    while low < high:
        middle = (low + high) // 2
        entry = os.pread(fd, ENTRY.size, middle * ENTRY.size)
        if len(entry) < ENTRY.size:
            return None
        offset, appended_ms = ENTRY.unpack(entry)
        if offset == base_offset and appended_ms > 0:
            return int(appended_ms)
        low, high = (middle + 1, high) if offset <= base_offset else (low, middle)
    return None
