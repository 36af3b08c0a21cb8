"""From the files in a partition's directory to the log in memory.

The manifest of an epoch, ``segments-<epoch>``, says what the log was when that epoch began: the first line is the
offset at which it began, each further line the name of a segment and the offset at which it ends. What the epoch
wrote itself is in the segments that carry its number. Why: see ``actors.log.partition``.
"""

from __future__ import annotations

import logging
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from actors.log.directory import Claim
from actors.log.disk import Disk, write_atomically
from actors.log.errors import FencedEpoch, StorageError
from actors.log.producers import ProducerStates
from actors.log.segment import Segment, SegmentName

log = logging.getLogger(__name__)

_MANIFEST = re.compile(r"segments-(\d{10})")


@dataclass(frozen=True, slots=True)
class Recovered:
    segments: list[Segment]
    """Ascending; the last is new, empty and of the epoch that recovers."""
    producers: ProducerStates


@dataclass(frozen=True, slots=True)
class Manifest:
    epoch: int
    base_offset: int
    """Where the epoch began to write."""
    ends: dict[SegmentName, int]
    """Where each earlier segment ends, ascending."""

    @classmethod
    def read(cls, path: Path, epoch: int) -> Manifest:
        """OSError; StorageError if it makes no sense."""
        try:
            first, *lines = path.read_text(encoding="ascii").splitlines()
            ends = dict(map(cls._segment, lines))
            return cls(epoch, int(first), ends)
        except ValueError as error:
            raise StorageError(f"{path} is not readable: {error}") from error

    @staticmethod
    def _segment(line: str) -> tuple[SegmentName, int]:
        file_name, _, end = line.partition(" ")
        name = SegmentName.parse(file_name)
        if name is None:
            raise ValueError(f"{file_name!r} is no segment")
        return name, int(end)

    def write(self, directory: Path) -> None:
        lines = [str(self.base_offset), *(f"{name} {end}" for name, end in self.ends.items())]
        write_atomically(directory / f"segments-{self.epoch:010d}", "\n".join(lines).encode("ascii"), "new")


_NO_MANIFEST = Manifest(-1, 0, {})


def recover(directory: Path, epoch: int, claim: Claim, index_interval_bytes: int, disk: Disk) -> Recovered:
    """Steps 2 to 5 of taking a log over.

    StorageError for a damaged segment before the tail; the tail ends where it is torn or corrupt. FencedEpoch if
    a newer epoch came in between. OSError.
    """
    files = _segment_names(directory)  # before the manifests: an epoch writes its manifest before its first segment
    manifests = _manifests(directory)
    before = max(manifests, default=-1)
    if before >= epoch:
        raise FencedEpoch(f"{directory.name}: leader epoch {epoch} comes after {before}")
    earlier = Manifest.read(manifests[before], before) if manifests else _NO_MANIFEST
    if not manifests and files:
        raise StorageError(f"{directory} has segments but no manifest")
    producers = ProducerStates()
    loaded: list[Segment] = []
    try:
        _load(directory, _ends(earlier, files), producers, loaded, index_interval_bytes)
        segments = [segment for segment in loaded if segment.size_bytes > 0]
        if segments:
            disk.sync(segments[-1].fd)
        base_offset = segments[-1].next_offset if segments else earlier.base_offset
        Manifest(epoch, base_offset, {segment.name: segment.next_offset for segment in segments}).write(directory)
        segments.append(Segment.create(directory, SegmentName(epoch, 0, base_offset), index_interval_bytes, disk))
        loaded.append(segments[-1])
        claim.check()
    except BaseException:
        for segment in loaded:
            segment.close()
        raise
    kept = {segment.name for segment in segments}
    for segment in loaded:
        if segment.name not in kept:
            segment.close()
    _tidy(directory, segments[:-1], [str(name) for name in files if name not in kept], manifests, disk)
    return Recovered(segments, producers)


def _segment_names(directory: Path) -> list[SegmentName]:
    return sorted(name for entry in directory.iterdir() if (name := SegmentName.parse(entry.name)))


def _manifests(directory: Path) -> dict[int, Path]:
    return {int(match[1]): entry for entry in directory.iterdir() if (match := _MANIFEST.fullmatch(entry.name))}


def _ends(manifest: Manifest, files: list[SegmentName]) -> dict[SegmentName, int | None]:
    """Which segments count, ascending, and where each ends; None: at its last whole batch."""
    ends: dict[SegmentName, int | None] = dict(manifest.ends)
    own = [name for name in files if name.epoch == manifest.epoch]
    ends.update((name, following.base_offset) for name, following in pairwise(own))
    if own:
        ends[own[-1]] = None
    return ends


def _load(
    directory: Path,
    ends: dict[SegmentName, int | None],
    producers: ProducerStates,
    segments: list[Segment],
    index_interval_bytes: int,
) -> None:
    filled = [name for name, end in ends.items() if end != name.base_offset and _size_bytes(directory, name) > 0]
    tail = filled[-1] if filled else None
    for name, end in ends.items():
        segment = Segment.load(
            directory,
            name,
            limit=end,
            verify=name == tail,
            index_interval_bytes=index_interval_bytes,
            on_batch=producers.update,
        )
        segments.append(segment)
        if name in filled[:-1] and segment.next_offset != end:
            raise StorageError(
                f"{segment.path} is damaged at byte {segment.size_bytes}: offsets {segment.next_offset} to {end} "
                "are missing"
            )


def _size_bytes(directory: Path, name: SegmentName) -> int:
    return (directory / str(name)).stat().st_size


def _tidy(directory: Path, segments: list[Segment], dead: list[str], manifests: dict[int, Path], disk: Disk) -> None:
    """Only once the claim was seen to hold after the manifest was written. What fails is left for the next time."""
    if segments:
        with suppress(OSError):
            _cut(segments[-1], disk)
    for path in [*(directory / name for name in dead), *manifests.values()]:
        with suppress(OSError):
            path.unlink()


def _cut(tail: Segment, disk: Disk) -> None:
    surplus = os.fstat(tail.fd).st_size - tail.size_bytes
    if surplus > 0:
        log.warning(
            "%s: the last %d bytes are torn, corrupt or of a fenced writer; the log ends at offset %d",
            *(tail.path, surplus, tail.next_offset),
        )
        disk.truncate(tail.fd, tail.size_bytes)
