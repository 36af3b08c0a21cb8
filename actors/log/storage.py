"""Where one partition's log is durable, and the right of its leader epoch to write there.

Everything else of a log is the same for both: :class:`DirectoryStorage`, a directory that all hosts share, and
``muster.actors.log.bucket``, where files are a node's own copy of what is in object storage.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from muster.actors.log.config import LogConfig
from muster.actors.log.files.append_times import AppendTimes
from muster.actors.log.files.directory import Claim
from muster.actors.log.files.disk import Disk
from muster.actors.log.files.manifest import Manifest
from muster.actors.log.files.segment import Segment, SegmentName
from muster.actors.log.format.batch import BatchHeader


class PartitionStorage(ABC):
    """The storage of one log that is open. For the event loop's thread, except :meth:`check`."""

    is_write_ahead: ClassVar[bool]
    """Whether a batch is durable before it is in a segment: then the file needs no sync, and :meth:`append` is called
    for each batch."""

    @abstractmethod
    def check(self) -> None:
        """Raise NotLeader if a newer epoch has taken the log, or it was removed; OSError if that is unknown."""

    def limited(self, config: LogConfig) -> LogConfig:
        """Return the configuration with what this storage cannot do left out."""
        return config

    @abstractmethod
    def admit(self) -> None:
        """Raise StorageError if nothing more can be taken now. Called before a batch gets its place."""

    @abstractmethod
    def append(self, header: BatchHeader, batch: bytearray, appended_ms: int | None) -> asyncio.Future[int] | None:
        """Begin to make a batch durable. The future fails with LogError; None: its segment will make it durable."""

    @abstractmethod
    def acknowledged(self, segment: Segment, count: int) -> None:
        """Note that the next so many of the batches that were appended are in that segment."""

    @abstractmethod
    def closed(self, segment: Segment, append_times: AppendTimes) -> None:
        """Note that a segment is complete, and so are the files beside it, but for append times."""

    @abstractmethod
    async def settled(self) -> None:
        """Wait until all closed segments are durable by themselves, or failed to be."""

    @abstractmethod
    async def publish(self, manifest: Manifest, added: Segment | None) -> None:
        """Replace the epoch's manifest, durably; ``added`` is a segment that the one before did not list.

        On return the writer was still the leader after that. Raises NotLeader; OSError or StorageError: it is unknown
        which of the two manifests counts.
        """

    @abstractmethod
    def closing(self) -> None:
        """Note that the log is being closed: what waits must not wait for ever."""

    @abstractmethod
    async def close(self) -> None:
        """Give back what only this log has. Called when its files are closed; maybe again."""

    @abstractmethod
    async def remove(self, segments: Sequence[SegmentName]) -> None:
        """Remove what else is stored of segments that the manifest does not list any more. Failures are logged."""


class DirectoryStorage(PartitionStorage):
    """A directory that all hosts share: what is synced is durable, and a claim is the right to write."""

    is_write_ahead = False

    def __init__(self, directory: Path, claim: Claim, disk: Disk, threads: Executor) -> None:
        self._claim = claim
        self._directory = directory
        self._disk = disk
        self._threads = threads

    def check(self) -> None:
        self._claim.check()

    def admit(self) -> None:
        """Take everything."""

    def append(self, header: BatchHeader, batch: bytearray, appended_ms: int | None) -> None:
        """Leave it to the segment."""

    def acknowledged(self, segment: Segment, count: int) -> None:
        """Leave it to the segment."""

    def closed(self, segment: Segment, append_times: AppendTimes) -> None:
        """Leave it where it is."""

    async def settled(self) -> None:
        """Return: it was synced before it was acknowledged."""

    async def publish(self, manifest: Manifest, added: Segment | None) -> None:
        await asyncio.get_running_loop().run_in_executor(self._threads, self._write, manifest)

    def _write(self, manifest: Manifest) -> None:
        """In a thread. A writer that is no longer the leader gets NotLeader instead of the disk's error."""
        try:
            manifest.write(self._directory, self._disk)
        except OSError:
            with suppress(OSError):
                self.check()
            raise
        self.check()

    def closing(self) -> None:
        """Leave it to the disk."""

    async def close(self) -> None:
        """Keep the claim: it is in the directory."""

    async def remove(self, segments: Sequence[SegmentName]) -> None:
        """Return: the files are all there is."""
