"""The files that a writer keeps beside its segments, and the handling of segments found corrupt while it runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path

from muster.actors.log.errors import LogError, StorageError
from muster.actors.log.files import loading, snapshot
from muster.actors.log.files.disk import Disk
from muster.actors.log.files.recovery_point import RecoveryPointFile
from muster.actors.log.files.segment import Segment
from muster.actors.log.format.batch import LENGTH_OVERHEAD, BatchHeader
from muster.actors.log.storage import PartitionStorage

log = logging.getLogger(__name__)


class Keeper:
    """Recovery point, indexes and snapshots of one log: all optional, all make the next opening better."""

    def __init__(
        self,
        directory: Path,
        epoch: int,
        storage: PartitionStorage,
        disk: Disk,
        threads: Executor,
        segments: Callable[[], list[Segment]],
    ) -> None:
        """``segments``: those of the log; the last is written to."""
        self.refusal: StorageError | None = None
        """Why appends are refused: the segment that is written to is damaged."""
        self._directory = directory
        self._storage = storage
        self._disk = disk
        self._threads = threads
        self._segments = segments
        self._recovery_point = RecoveryPointFile(directory, epoch, disk)
        self._keeping: set[asyncio.Future[None]] = set()
        for segment in segments():
            self.watch(segment)

    @property
    def corrupt_segments(self) -> int:
        return sum(segment.corrupt is not None for segment in self._segments())

    def refuse(self, reason: str) -> None:
        """Refuse all appends from now on."""
        self.refusal = StorageError(f"{self._directory.name} takes no writes: {reason}")

    def watch(self, segment: Segment) -> None:
        """Set the segment aside if a read finds it corrupt."""
        segment.on_corrupt = self._found_corrupt

    def committed(self, segment: Segment, headers: list[BatchHeader]) -> None:
        """Move the recovery point: the batches behind the segment's size are durable, and the claim held after that.

        In a thread.
        """
        size_bytes, next_offset = segment.size_bytes, segment.next_offset
        for header in headers:
            size_bytes += header.length + LENGTH_OVERHEAD
            next_offset = header.base_offset + header.last_offset_delta + 1
        self._recovery_point.move(segment.name, size_bytes, next_offset)

    def closed(self, segment: Segment, producers: snapshot.Entries) -> asyncio.Future[None]:
        """Write the files of a complete segment; ``producers`` is the state at its end."""
        loop = asyncio.get_running_loop()
        keeping = loop.run_in_executor(self._threads, loading.keep, segment, producers, self._disk)
        self._keeping.add(keeping)
        keeping.add_done_callback(self._keeping.discard)
        return keeping

    async def close(self, segment: Segment, producers: snapshot.Entries) -> None:
        """Write these files for the last segment, too. May be called again."""
        if segment.fd >= 0:
            self.closed(segment, producers)
        await self.settled()
        self._recovery_point.close()

    async def settled(self) -> None:
        """Wait until these files are written for the segments that are closed so far."""
        if self._keeping:
            await asyncio.wait(self._keeping)

    def _found_corrupt(self, segment: Segment) -> None:
        if segment is self._segments()[-1]:
            self.refuse(f"{segment.path.name} is corrupt ({segment.corrupt})")
        try:
            self._storage.check()
        except (LogError, OSError) as error:
            log.error("%s is corrupt (%s), but not set aside: %s", segment.path, segment.corrupt, error)
            return
        loading.set_aside(segment, self._disk)
        if self.refusal is not None:
            log.error("%s", self.refusal)
