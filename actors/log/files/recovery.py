"""Builds the log in memory from the files in a partition's directory.

The highest manifest lists what counts (``muster.actors.log.files.manifest``); what its epoch wrote after that is
scanned. ``muster.actors.log.partition`` explains why.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from muster.actors.log.errors import FencedEpoch, StorageError
from muster.actors.log.files import loading, recovery_point
from muster.actors.log.files.disk import Disk
from muster.actors.log.files.loading import Loaded
from muster.actors.log.files.manifest import Manifest, is_leftover, manifests
from muster.actors.log.files.recovery_point import RecoveryPoint
from muster.actors.log.files.segment import Segment, SegmentName
from muster.actors.log.producers import ProducerStates
from muster.actors.log.storage import PartitionStorage

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Recovered:
    segments: list[Segment]
    """Ascending; the last is new, empty and of the epoch that recovers."""
    producers: ProducerStates
    log_start_offset: int
    cleaned_offset: int
    refusal: str | None = None
    """Why appends are refused: the end of the log is unknown. In this case no segment is new."""


_NO_MANIFEST = Manifest(-1, 0, {})


def recover(
    directory: Path, epoch: int, storage: PartitionStorage, first_serial: int, index_interval_bytes: int, disk: Disk
) -> Recovered:
    """Take steps 2 to 5 of opening a log. ``first_serial`` is that of the epoch's first segment.

    Damaged segments are set aside, and the tail is cut where it is torn: see ``muster.actors.log.files.loading``. If
    the tail is damaged, the log stays with the previous epoch, so the next opener finds it in the same state. Raises
    FencedEpoch if a newer epoch intervened; StorageError or OSError.
    """
    files = _file_names(directory)  # before the manifests: an epoch writes its manifest before its first segment
    found = manifests(directory)
    before = max(found, default=-1)
    if before >= epoch:
        raise FencedEpoch(f"{directory.name}: leader epoch {epoch} comes after {before}")
    if not found and any(SegmentName.parse(file) for file in files):
        raise StorageError(f"{directory} has segments but no manifest")
    earlier = Manifest.read(found[before], before) if found else _NO_MANIFEST
    point = RecoveryPoint.read(directory, before)
    counting = loading.counting(earlier, files, point)
    loaded = Loaded()
    try:
        loading.load(directory, counting, point, index_interval_bytes, loaded)
        segments = [segment for segment in loaded.segments if segment.size_bytes > 0 or segment.corrupt is not None]
        base_offset = max(earlier.base_offset, earlier.log_start_offset, *_ends(loaded.segments))
        cleaned_offset = min(earlier.cleaned_offset, base_offset)
        if loaded.refusal is None:
            if segments and segments[-1].corrupt is None:
                disk.sync(segments[-1].fd)
            ends = {segment.name: segment.next_offset for segment in segments}
            Manifest(epoch, base_offset, ends, earlier.log_start_offset, cleaned_offset).write(directory, disk)
            name = SegmentName(epoch, first_serial, base_offset)
            segments.append(Segment.create(directory, name, index_interval_bytes, disk))
            loaded.segments.append(segments[-1])
        storage.check()
    except BaseException:
        loaded.close()
        raise
    kept = {segment.path.stem for segment in segments}
    for segment in loaded.segments:
        if segment.path.stem not in kept:
            segment.close()
    recovered = Recovered(segments, loaded.producers, earlier.log_start_offset, cleaned_offset, loaded.refusal)
    for segment in segments:
        if segment.corrupt is not None:
            loading.set_aside(segment, disk)
    if loaded.refusal is not None:
        log.error("%s takes no writes: %s", directory, loaded.refusal)
    else:
        _tidy(directory, segments[:-1], [file for file in files if _is_dead(file, kept, epoch)], disk)
        loading.keep_all(segments[:-1], loaded.producers, disk)
    return recovered


def _ends(segments: list[Segment]) -> list[int]:
    return [segment.next_offset for segment in segments] or [0]


def _file_names(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())


def _is_dead(file: str, kept: set[str], epoch: int) -> bool:
    """Whether it is a segment that does not count, a file beside one, or an earlier manifest."""
    stem = Path(file).stem
    return (
        is_leftover(file, epoch)
        or recovery_point.is_leftover(file, epoch)
        or loading.is_leftover(file)
        or (SegmentName.parse(f"{stem}.log") is not None and stem not in kept)
    )


def _tidy(directory: Path, segments: list[Segment], dead: Iterable[str], disk: Disk) -> None:
    """Call only if the claim still held after the manifest was written. What fails is left for the next opening."""
    if segments and segments[-1].corrupt is None:
        with suppress(OSError):
            _cut(segments[-1], disk)
    for file in dead:
        with suppress(OSError):
            disk.unlink(directory / file)


def _cut(tail: Segment, disk: Disk) -> None:
    surplus = os.fstat(tail.fd).st_size - tail.size_bytes
    if surplus > 0:
        log.warning(
            "%s: the last %d bytes are torn, corrupt or of a fenced writer; the log ends at offset %d",
            *(tail.path, surplus, tail.next_offset),
        )
        disk.truncate(tail.fd, tail.size_bytes)
