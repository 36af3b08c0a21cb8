"""The manifest of a partition in object storage.

``manifests/<topic>-<partition>.<topic id>``, JSON. Segments are objects in a folder of the same name below ``logs/``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from muster.actors.log.errors import FencedEpoch, StorageError
from muster.actors.log.files.segment import SegmentName
from muster.actors.log.wal.patience import patiently
from muster.actors.object_storage.store import NoSuchObject, ObjectStore, Stored, Taken

FOLDER = "manifests/"
_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSegment:
    """A segment that has been uploaded."""

    name: SegmentName
    end: int
    """Offset behind its last batch."""
    modified_ms: int
    """When the last batch was appended, which is the age of records without timestamps."""
    files: Mapping[str, int]
    """Sizes of its objects in bytes, by suffix: ``.log``, and what lies beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketManifest:
    epoch: int = -1
    """Leader epoch of its writer."""
    change: int = 0
    """Counts the manifests of a partition, so that no two are equal."""
    writer: str = ""
    """Role and nonce of the writer: of two with the same number, only one is the own one."""
    base_offset: int = 0
    """From there on, the write-ahead log of the role has the records."""
    log_start_offset: int = 0
    cleaned_offset: int = 0
    segments: tuple[StoredSegment, ...] = ()
    """Ascending."""

    def encode(self) -> bytes:
        fields = {
            "version": _VERSION,
            "epoch": self.epoch,
            "change": self.change,
            "writer": self.writer,
            "base_offset": self.base_offset,
            "log_start_offset": self.log_start_offset,
            "cleaned_offset": self.cleaned_offset,
            "segments": [
                {"name": str(each.name), "end": each.end, "modified_ms": each.modified_ms, "files": dict(each.files)}
                for each in self.segments
            ],
        }
        return json.dumps(fields, separators=(",", ":")).encode("ascii")

    @classmethod
    def decode(cls, name: str, content: bytes) -> BucketManifest:
        """Raise StorageError if it is none, or of a newer version."""
        try:
            fields = json.loads(content)
            if (version := fields.pop("version")) != _VERSION:
                raise StorageError(f"{name} has version {version}, which a newer Muster wrote")
            segments = tuple(
                StoredSegment(
                    name=_segment_name(each["name"]),
                    end=each["end"],
                    modified_ms=each["modified_ms"],
                    files=each["files"],
                )
                for each in fields.pop("segments")
            )
            return cls(segments=segments, **fields)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StorageError(f"{name} is not readable: {error!r}") from error


def _segment_name(text: str) -> SegmentName:
    name = SegmentName.parse(text)
    if name is None:
        raise ValueError(f"{text!r} is no segment")
    return name


def place_of(topic: str, partition: int, topic_id: UUID) -> str:
    """Return what the names of all objects of a partition have in common."""
    return f"{topic}-{partition}.{topic_id}"


def partition_of(name: str) -> tuple[str, int]:
    """Return topic and partition of a manifest's name. Raises StorageError if it is none."""
    topic_partition = name.removeprefix(FOLDER).rpartition(".")[0]
    topic, _, partition = topic_partition.rpartition("-")
    if not topic or not partition.isdecimal():
        raise StorageError(f"{name} is no manifest of a partition")
    return topic, int(partition)


class ManifestObject:
    """The manifest as this process has read or replaced it last. One call at a time."""

    def __init__(self, store: ObjectStore, place: str, check: Callable[[], None]) -> None:
        """Use :meth:`take`. ``place``: of the partition, see :func:`place_of`."""
        self.content = BucketManifest()
        self._check = check
        self._store = store
        self._name = f"{FOLDER}{place}"
        self._etag: str | None = None

    @classmethod
    async def take(
        cls, store: ObjectStore, place: str, epoch: int, writer: str, check: Callable[[], None]
    ) -> ManifestObject:
        """Read it, and make it one of that leader epoch, which no call had before.

        Waits while the bucket is away; what ``check`` raises ends that, also for :meth:`replace`. Raises FencedEpoch if
        it is of this or a newer epoch; StorageError if it is not readable.
        """
        manifest = cls(store, place, check)
        with suppress(NoSuchObject):
            manifest._follow(await patiently(manifest._name, partial(store.read, manifest._name)))
        while True:
            before = manifest.content
            if before.epoch >= epoch:
                raise FencedEpoch(f"{place}: leader epoch {epoch} comes after {before.epoch}")
            taken = BucketManifest(
                epoch=epoch,
                change=before.change + 1,
                writer=writer,
                base_offset=before.base_offset,
                log_start_offset=before.log_start_offset,
                cleaned_offset=before.cleaned_offset,
                segments=before.segments,
            )
            with suppress(Taken):  # by an older epoch, which did not know of this one, or by a newer one
                await manifest.replace(taken)
                return manifest

    async def replace(self, content: BucketManifest) -> None:
        """Replace it, durably. Raises Taken if it was replaced by another writer, and follows that."""
        try:
            etag = await patiently(self._name, partial(self._write, content.encode()))
        except Taken as taken:
            if taken.found is None:
                raise StorageError(f"{self._name} was deleted") from taken
            self._follow(taken.found)
            raise
        self.content, self._etag = content, etag

    async def _write(self, content: bytes) -> str:
        self._check()
        if self._etag is None:
            return await self._store.create(self._name, content)
        return await self._store.replace(self._name, content, self._etag)

    def _follow(self, found: Stored) -> None:
        self.content = BucketManifest.decode(self._name, found.content)
        self._etag = found.etag
