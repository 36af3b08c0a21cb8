"""A partition's log in object storage: :mod:`muster.actors.log.bucket`."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol
from uuid import UUID

from muster.actors.log.bucket.copies import folder_of
from muster.actors.log.bucket.manifest import BucketManifest, ManifestObject, StoredSegment
from muster.actors.log.config import LogConfig
from muster.actors.log.errors import FencedEpoch, LogError, NotLeader, StorageError
from muster.actors.log.files import append_times as times
from muster.actors.log.files import index, snapshot
from muster.actors.log.files.append_times import AppendTimes
from muster.actors.log.files.manifest import Manifest
from muster.actors.log.files.segment import Segment, SegmentName, walk
from muster.actors.log.format.batch import BatchHeader
from muster.actors.log.storage import PartitionStorage
from muster.actors.log.transactions import aborted
from muster.actors.log.wal.objects import Entry
from muster.actors.log.wal.patience import patiently
from muster.actors.log.wal.writer import Wal
from muster.actors.object_storage.store import ObjectStorageError, ObjectStore, Taken

log = logging.getLogger(__name__)

MAX_SEGMENT_BYTES = 64 << 20
"""Larger ones would take long to upload and to read. A batch that is larger itself gets one of its own."""
_READ_BYTES = 256 << 10
_BESIDE = (index.SUFFIX, aborted.SUFFIX, snapshot.SUFFIX, times.SUFFIX)


class Role(Protocol):
    """The role that has the partition."""

    @property
    def wal(self) -> Wal:
        """Write-ahead log that is open."""

    @property
    def store(self) -> ObjectStore:
        """Object storage of the cluster."""

    def append(self, entry: Entry) -> asyncio.Future[int]:
        """Append to the write-ahead log."""

    def log_closing(self) -> None:
        """Note that a log is being closed."""

    async def log_closed(self) -> None:
        """Note that a log is closed."""

    def admit(self) -> None:
        """Raise StorageError if nothing more can be taken now."""

    def published(self) -> None:
        """Note that less of the write-ahead log may be needed."""


class BucketStorage(PartitionStorage):
    """The storage of one partition. Requests are repeated until the role is over."""

    is_write_ahead = True

    def __init__(
        self, role: Role, place: str, topic_id: UUID, partition: int, manifest: ManifestObject, needed: int
    ) -> None:
        """``needed``: number in the write-ahead log from which on it has what no segment has yet."""
        self.uploaded: Callable[[], object] = lambda: None
        """Called when another segment can be listed in the manifest."""
        self._role = role
        self._folder = folder_of(place)
        self._topic_id = topic_id
        self._partition = partition
        self._manifest = manifest
        self._stored = {segment.name: segment for segment in manifest.content.segments}
        """Uploaded; the manifest may not list it yet."""
        self._recovered_from = needed
        self._needed: dict[SegmentName, int] = {}
        """For each segment that no manifest lists, the number of the first object that has a batch of it, or less."""
        self._appended: deque[int] = deque()
        """Such numbers of batches that are not acknowledged, in their order."""
        self._uploads: set[asyncio.Future[None]] = set()

    @property
    def needed(self) -> int | None:
        """Number from which on the write-ahead log has what no manifest lists; None if there is nothing."""
        needed = list(self._needed.values())
        if self._appended:
            needed.append(self._appended[0])
        return min(needed, default=None)

    def holds(self, segment: SegmentName, until: int) -> bool:
        """Whether that segment needs an object of the write-ahead log up to that number."""
        needed = self._needed.get(segment)
        return needed is not None and needed <= until

    def recovered(self, segments: Sequence[Segment]) -> None:
        """Upload those that were made from the write-ahead log; they are closed."""
        for segment in segments:
            if segment.size_bytes and segment.name not in self._stored:
                self._needed[segment.name] = self._recovered_from
                self._begin_upload(segment, None)

    def check(self) -> None:
        if (over := self._role.wal.over) is not None:
            raise over.again()

    def limited(self, config: LogConfig) -> LogConfig:
        largest = max(MAX_SEGMENT_BYTES, config.max_message_bytes)
        return replace(config, segment_bytes=min(config.segment_bytes, largest))

    def admit(self) -> None:
        self._role.admit()

    def append(self, header: BatchHeader, batch: bytearray, appended_ms: int | None) -> asyncio.Future[int]:
        self._appended.append(self._role.wal.next_number)
        entry = Entry(self._topic_id, self._partition, header.partition_leader_epoch, appended_ms, batch)
        return self._role.append(entry)

    def acknowledged(self, segment: Segment, count: int) -> None:
        for _ in range(count):
            self._needed.setdefault(segment.name, self._appended.popleft())

    def closed(self, segment: Segment, append_times: AppendTimes) -> None:
        self._begin_upload(segment, append_times)

    async def settled(self) -> None:
        while self._uploads:
            await asyncio.wait(self._uploads)

    def _begin_upload(self, segment: Segment, append_times: AppendTimes | None) -> None:
        upload = asyncio.ensure_future(self._upload_closed(segment, append_times))
        self._uploads.add(upload)
        upload.add_done_callback(self._uploads.discard)

    async def _upload_closed(self, segment: Segment, append_times: AppendTimes | None) -> None:
        """Failures leave it in the write-ahead log, until the partition is opened the next time."""
        try:
            if append_times is not None:
                await append_times.flush()
            await self._upload(segment)
        except NotLeader as error:
            log.debug("%s is not uploaded: %s", segment.path, error)
        except (OSError, LogError) as error:
            log.error("%s is not uploaded, and stays in the write-ahead log: %s", segment.path, error)
        else:
            self.uploaded()

    async def _upload(self, segment: Segment) -> None:
        """Create its objects. Raises LogError or OSError."""
        contents = await asyncio.to_thread(_read, segment)
        stem = segment.path.stem
        for suffix, content in contents.items():
            await self._repeat(f"{self._folder}{stem}{suffix}", content)
        self._stored[segment.name] = StoredSegment(
            name=segment.name,
            end=segment.next_offset,
            modified_ms=segment.path.stat().st_mtime_ns // 1_000_000,
            files={suffix: len(content) for suffix, content in contents.items()},
        )

    async def _repeat(self, name: str, content: bytes) -> None:
        async def create() -> str:
            self.check()
            return await self._role.store.create(name, content)

        try:
            await patiently(name, create)
        except Taken as taken:
            raise StorageError(f"{taken}: two writers had one leader epoch") from taken

    async def publish(self, manifest: Manifest, added: Segment | None) -> None:
        if added is not None:
            await self._upload(added)
        before = self._manifest.content
        listed: list[StoredSegment] = []
        for name in manifest.ends:
            if (stored := self._stored.get(name)) is None:
                break  # it is on its way, or could not be read
            listed.append(stored)
        is_whole = len(listed) == len(manifest.ends)
        base_offset = manifest.base_offset if is_whole else max((segment.end for segment in listed), default=0)
        content = BucketManifest(
            epoch=before.epoch,
            change=before.change + 1,
            writer=before.writer,
            base_offset=max(before.base_offset, base_offset),
            log_start_offset=manifest.log_start_offset,
            cleaned_offset=manifest.cleaned_offset,
            segments=tuple(listed),
        )
        await self._replace(content)
        for name in [*self._needed]:
            if name.base_offset < content.base_offset:
                del self._needed[name]
        self._role.published()

    async def _replace(self, content: BucketManifest) -> None:
        self.check()
        try:
            await self._manifest.replace(content)
        except Taken as taken:
            newer = self._manifest.content
            raise FencedEpoch(f"{taken}: leader epoch {content.epoch} was fenced by {newer.epoch}") from taken
        self.check()

    def closing(self) -> None:
        self._role.log_closing()

    async def close(self) -> None:
        await self._role.log_closed()

    def cancel(self) -> None:
        """Cancel what is being uploaded."""
        for upload in self._uploads:
            upload.cancel()

    async def remove(self, segments: Sequence[SegmentName]) -> None:
        stored = [segment for name in segments if (segment := self._stored.pop(name, None)) is not None]
        names = [
            f"{self._folder}{str(segment.name).removesuffix('.log')}{suffix}"
            for segment in stored
            for suffix in segment.files
        ]
        try:
            await self._role.store.delete(names)
        except ObjectStorageError as error:
            log.warning("%s: objects that are not needed are still there: %s", self._folder, error)


def _read(segment: Segment) -> dict[str, bytes]:
    """Return the contents of its files, by suffix. In a thread. Raises OSError, or StorageError if it is damaged.

    Opens them by their names: the segment may be closed meanwhile.
    """
    with segment.path.open("rb") as file:
        checked = walk(file.fileno(), 0, segment.size_bytes, verify=True, chunk_bytes=_READ_BYTES)
        size_bytes = sum(header.size_bytes for _, header in checked)
        if size_bytes != segment.size_bytes:
            raise StorageError(f"{segment.path} has no sound batch at byte {size_bytes}")
        contents = {".log": file.read(size_bytes)}
    for suffix in _BESIDE:
        path = segment.path.with_suffix(suffix)
        if path.exists():
            contents[suffix] = path.read_bytes()
    return contents
