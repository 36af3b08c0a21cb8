"""From the files in a partition's directory to the log in memory.

What counts is in the highest manifest (``actors.log.manifest``); what its epoch wrote after that is scanned. Why:
see ``actors.log.partition``.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from actors.log.directory import Claim
from actors.log.disk import Disk
from actors.log.errors import FencedEpoch, StorageError
from actors.log.manifest import Manifest, is_leftover, manifests
from actors.log.producers import ProducerStates
from actors.log.segment import Segment, SegmentName

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Recovered:
    segments: list[Segment]
    """Ascending; the last is new, empty and of the epoch that recovers."""
    producers: ProducerStates
    log_start_offset: int
    cleaned_offset: int


_NO_MANIFEST = Manifest(-1, 0, {})


def recover(directory: Path, epoch: int, claim: Claim, index_interval_bytes: int, disk: Disk) -> Recovered:
    """Steps 2 to 5 of taking a log over.

    StorageError for a damaged segment before the tail; the tail ends where it is torn or corrupt. FencedEpoch if
    a newer epoch came in between. OSError.
    """
    files = _file_names(directory)  # before the manifests: an epoch writes its manifest before its first segment
    found = manifests(directory)
    before = max(found, default=-1)
    if before >= epoch:
        raise FencedEpoch(f"{directory.name}: leader epoch {epoch} comes after {before}")
    named = [name for file in files if (name := SegmentName.parse(file))]
    if not found and named:
        raise StorageError(f"{directory} has segments but no manifest")
    earlier = Manifest.read(found[before], before) if found else _NO_MANIFEST
    producers = ProducerStates()
    loaded: list[Segment] = []
    try:
        counting = earlier.counting(named)
        _load(directory, counting, producers, loaded, index_interval_bytes)
        segments = [segment for segment in loaded if segment.size_bytes > 0]
        if segments:
            disk.sync(segments[-1].fd)
        base_offset = _end_offset(earlier, counting, loaded, segments)
        ends = {segment.name: segment.next_offset for segment in segments}
        cleaned_offset = min(earlier.cleaned_offset, base_offset)
        Manifest(epoch, base_offset, ends, earlier.log_start_offset, cleaned_offset).write(directory, disk)
        segments.append(Segment.create(directory, SegmentName(epoch, 0, base_offset), index_interval_bytes, disk))
        loaded.append(segments[-1])
        claim.check()
    except BaseException:
        for segment in loaded:
            segment.close()
        raise
    kept = {segment.path.stem for segment in segments}
    for segment in loaded:
        if segment.path.stem not in kept:
            segment.close()
    _tidy(directory, segments[:-1], [file for file in files if _is_dead(file, kept, epoch)], disk)
    return Recovered(segments, producers, earlier.log_start_offset, cleaned_offset)


def _file_names(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())


def _is_dead(file: str, kept: set[str], epoch: int) -> bool:
    """A segment that does not count, or what lies beside one; a manifest of before."""
    stem = Path(file).stem
    return is_leftover(file, epoch) or (SegmentName.parse(f"{stem}.log") is not None and stem not in kept)


def _end_offset(
    earlier: Manifest, ends: dict[SegmentName, int | None], loaded: list[Segment], filled: list[Segment]
) -> int:
    """Where the log goes on: behind all that it ever held, unless its tail is damaged."""
    if filled and ends[filled[-1].name] not in (None, filled[-1].next_offset):
        return max(filled[-1].next_offset, earlier.log_start_offset)
    return max(earlier.base_offset, earlier.log_start_offset, *(segment.next_offset for segment in loaded))


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


def _tidy(directory: Path, segments: list[Segment], dead: Iterable[str], disk: Disk) -> None:
    """Only once the claim was seen to hold after the manifest was written. What fails is left for the next time."""
    if segments:
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
