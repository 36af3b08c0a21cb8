"""This node's copy of a partition: made when it is opened, from object storage and the write-ahead log."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import secrets
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from uuid import UUID

from muster.actors.log.bucket.manifest import BucketManifest, StoredSegment
from muster.actors.log.errors import FencedEpoch, StorageError
from muster.actors.log.files import append_times, snapshot
from muster.actors.log.files import directory as directories
from muster.actors.log.files.disk import Disk
from muster.actors.log.files.manifest import Manifest
from muster.actors.log.files.room import SharedDisk
from muster.actors.log.files.segment import SegmentName, first_serial
from muster.actors.log.format.batch import read_header
from muster.actors.log.wal.objects import Entry
from muster.actors.log.wal.patience import patiently
from muster.actors.object_storage.store import NoSuchObject, ObjectStore

log = logging.getLogger(__name__)

_DOWNLOADS = 8
"""Objects that are read at the same time, for each partition."""
_STALE = ".stale"
BOOT_ID = "boot-id"
"""Name of the file that makes a folder one of copies."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class CopyDisk(Disk):
    """The disk of a copy: nothing of it has to outlive the machine, so nothing is synced."""

    def create(self, path: Path) -> int:
        return self.create_unsynced(path)

    def sync(self, fd: int) -> None:
        """Leave it to the kernel."""

    def rename(self, path: Path, target: Path) -> None:
        path.replace(target)


class ClientsCopyDisk(CopyDisk, SharedDisk):
    """The disk of copies of clients' records, which leave its reserve alone."""


COPY_DISK = CopyDisk()


def boot_id() -> str:
    """Return what Linux names the time since this machine was started by. Raises OSError."""
    return _BOOT_ID.read_text(encoding="ascii").strip()


def refuse_originals(folder: Path) -> None:
    """Raise StorageError if there are logs that nobody says are copies: those of a Muster on a shared directory."""
    if not (folder / BOOT_ID).exists() and folder.is_dir() and any(entry.is_dir() for entry in folder.iterdir()):
        raise StorageError(
            f"{folder} has logs of a Muster that does not live on a bucket; choose another storage.object.cache.path"
        )


def forget_after_boot(folder: Path) -> None:
    """Remove all copies if the machine was started since they were made: they were not synced.

    Any number of processes of the node may call it, before they make a copy. Raises OSError, or StorageError if there
    are logs that are no copies.
    """
    refuse_originals(folder)
    folder.mkdir(parents=True, exist_ok=True)
    current = boot_id()
    with (folder / BOOT_ID).open("a+", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if file.read() != current:
            for entry in folder.iterdir():
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry)
            file.truncate(0)
            file.write(current)


def rebuilt(manifest: BucketManifest, entries: Iterable[Entry]) -> list[Entry]:
    """Return what the segments do not have, in order. Raises StorageError if anything in between is missing.

    Also what is below the log start: the states of producers come from it.
    """
    tail: list[Entry] = []
    expected = manifest.base_offset
    for entry in entries:
        header = read_header(entry.batch)
        if header.next_offset <= expected:
            continue
        if header.base_offset > expected:
            raise StorageError(f"the records from offset {expected} to {header.base_offset - 1} are missing")
        tail.append(entry)
        expected = header.next_offset
    return tail


class Copy:
    """The copy of one partition that is being made."""

    def __init__(
        self, store: ObjectStore, place: str, directory: Path, topic_id: UUID, epoch: int, segment_bytes: int
    ) -> None:
        """``epoch``: the leader epoch that opens it. ``segment_bytes``: of what is made from the write-ahead log."""
        self.next_serial = first_serial(topic_id)
        """Serial of the first segment that is still free."""
        self._store = store
        self._folder = folder_of(place)
        self._directory = directory
        self._topic_id = topic_id
        self._epoch = epoch
        self._segment_bytes = segment_bytes
        self._stale = directory.with_name(f"{directory.name}.{secrets.token_hex(4)}{_STALE}")

    async def make(self, manifest: BucketManifest, tail: Sequence[Entry]) -> None:
        """Make the directory. Waits while the bucket is away. Raises FencedEpoch, StorageError or OSError."""
        try:
            missing = await asyncio.to_thread(self._begin, manifest.segments)
            await self._download(missing)
            await asyncio.to_thread(self._finish, manifest, tail)
        finally:
            await asyncio.to_thread(shutil.rmtree, self._stale, ignore_errors=True)

    def _begin(self, segments: Sequence[StoredSegment]) -> dict[str, int]:
        """Keep what is there and is needed. Returns names and sizes of the other files.

        Raises FencedEpoch if the directory is of a newer epoch, which may use it: this opener was held up.
        """
        is_ours = directories.topic_of(self._directory) == self._topic_id
        if is_ours and (newest := max(directories.claims(self._directory), default=-1)) > self._epoch:
            raise FencedEpoch(f"{self._directory.name}: leader epoch {self._epoch} comes after {newest}")
        with suppress(FileNotFoundError):
            self._directory.rename(self._stale)
        directories.prepare(self._directory, self._topic_id, self._epoch)
        directories.Claim.take(self._directory, self._epoch)
        missing: dict[str, int] = {}
        for segment in segments:
            for name, size_bytes in _files(segment, is_last=segment is segments[-1]).items():
                before = self._stale / name
                if before.is_file() and before.stat().st_size == size_bytes:
                    before.rename(self._directory / name)
                else:
                    missing[name] = size_bytes
        return missing

    async def _download(self, missing: dict[str, int]) -> None:
        turn = asyncio.Semaphore(_DOWNLOADS)

        async def get(name: str, size_bytes: int) -> None:
            async with turn:
                full_name = f"{self._folder}{name}"
                try:
                    found = await patiently(full_name, partial(self._store.read, full_name))
                except NoSuchObject as error:
                    raise StorageError(f"{full_name} is missing, and a manifest lists it") from error
                if len(found.content) != size_bytes:
                    raise StorageError(f"{full_name} has {len(found.content)} bytes, not {size_bytes}")
                await asyncio.to_thread((self._directory / name).write_bytes, found.content)

        downloads = [asyncio.ensure_future(get(name, size_bytes)) for name, size_bytes in missing.items()]
        try:
            await asyncio.gather(*downloads)
        finally:
            for each in downloads:
                each.cancel()

    def _finish(self, manifest: BucketManifest, tail: Sequence[Entry]) -> None:
        ends = {segment.name: segment.end for segment in manifest.segments}
        for segment in manifest.segments:
            path = self._directory / str(segment.name)
            os.utime(path, ns=(segment.modified_ms * 1_000_000,) * 2)
        for part in _parts(tail, self._segment_bytes):
            name = SegmentName(self._epoch, self.next_serial, read_header(part[0].batch).base_offset)
            self.next_serial += 1
            _write_segment(self._directory / str(name), part)
            ends[name] = read_header(part[-1].batch).next_offset
        end = max(manifest.base_offset, manifest.log_start_offset, *ends.values())
        if ends or end:
            before = Manifest(self._epoch - 1, end, ends, manifest.log_start_offset, min(manifest.cleaned_offset, end))
            before.write(self._directory, COPY_DISK)


def _files(segment: StoredSegment, *, is_last: bool) -> dict[str, int]:
    """Return names and sizes of its files. Only the last snapshot counts."""
    stem = str(segment.name).removesuffix(".log")
    return {f"{stem}{suffix}": size for suffix, size in segment.files.items() if is_last or suffix != snapshot.SUFFIX}


def _parts(tail: Sequence[Entry], segment_bytes: int) -> list[list[Entry]]:
    parts: list[list[Entry]] = []
    size_bytes = 0
    for entry in tail:
        size_bytes += len(entry.batch)
        if not parts or size_bytes > segment_bytes:
            parts.append([])
            size_bytes = len(entry.batch)
        parts[-1].append(entry)
    return parts


def _write_segment(path: Path, entries: Sequence[Entry]) -> None:
    with path.open("wb") as file:
        file.writelines(entry.batch for entry in entries)
    times = [
        append_times.ENTRY.pack(read_header(entry.batch).base_offset, entry.appended_ms)
        for entry in entries
        if entry.appended_ms is not None
    ]
    if times:
        append_times.path_of(path).write_bytes(b"".join(times))


def folder_of(place: str) -> str:
    """Return what the names of the objects of its segments begin with."""
    return f"logs/{place}/"
