"""From the files in a partition's directory to the log in memory."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from actors.log.disk import Disk
from actors.log.errors import StorageError
from actors.log.producers import ProducerStates
from actors.log.segment import Segment, SegmentName

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Recovered:
    segments: list[Segment]
    """Ascending; the last is new, empty and of the epoch that recovers."""
    producers: ProducerStates


@dataclass(frozen=True, slots=True)
class Layout:
    """Which segment files count, and up to where."""

    live: tuple[tuple[SegmentName, int | None], ...]
    """Ascending, each with the offset at which the next begins; None for the last."""
    dead: tuple[SegmentName, ...]
    """Files that only a fenced writer can have made."""


def lay_out(names: Iterable[SegmentName]) -> Layout:
    """A segment counts if no newer epoch begins at or before its base offset, and only up to where the next begins."""
    live: list[tuple[SegmentName, int | None]] = []
    dead: list[SegmentName] = []
    limit: int | None = None
    for name in sorted(names, reverse=True):  # newest epoch first, in it the highest offset first
        if limit is not None and name.base_offset >= limit:
            dead.append(name)
        else:
            live.append((name, limit))
            limit = name.base_offset
    return Layout(tuple(reversed(live)), tuple(dead))


def recover(directory: Path, epoch: int, index_interval_bytes: int, disk: Disk) -> Recovered:
    """Scan, cut the tail where it is torn, and begin a new segment. The claim on the directory is held already.

    What is returned is durable. StorageError for a damaged segment before the tail; OSError.
    """
    names = [name for entry in directory.iterdir() if (name := SegmentName.parse(entry.name))]
    layout = lay_out(names)
    producers = ProducerStates()
    loaded: list[Segment] = []
    try:
        _load(directory, layout, producers, loaded, index_interval_bytes)
        segments = [segment for segment in loaded if segment.size_bytes > 0]
        if segments:
            _cut_tail(segments[-1], disk)
        base_offset = segments[-1].next_offset if segments else _start(layout)
        segments.append(Segment.create(directory, SegmentName(epoch, base_offset), index_interval_bytes, disk))
    except BaseException:
        for segment in loaded:
            segment.close()
        raise
    empty = [segment for segment in loaded if segment.size_bytes == 0]
    for segment in empty:
        segment.close()
    _remove(directory, [*layout.dead, *(segment.name for segment in empty)])
    return Recovered(segments, producers)


def _start(layout: Layout) -> int:
    return layout.live[0][0].base_offset if layout.live else 0


def _load(
    directory: Path, layout: Layout, producers: ProducerStates, segments: list[Segment], index_interval_bytes: int
) -> None:
    tail = max((name for name, _ in layout.live if (directory / str(name)).stat().st_size > 0), default=None)
    for name, limit in layout.live:
        segment = Segment.load(
            directory,
            name,
            limit=limit,
            verify=name == tail,
            index_interval_bytes=index_interval_bytes,
            on_batch=producers.update,
        )
        segments.append(segment)
        if tail is not None and name < tail and segment.next_offset != limit:
            raise StorageError(
                f"{segment.path} is damaged at byte {segment.size_bytes}: offsets {segment.next_offset} to {limit} "
                "are missing"
            )


def _cut_tail(tail: Segment, disk: Disk) -> None:
    surplus = os.fstat(tail.fd).st_size - tail.size_bytes
    if surplus > 0:
        log.warning(
            "%s: the last %d bytes are torn, corrupt or of a fenced writer; the log ends at offset %d",
            *(tail.path, surplus, tail.next_offset),
        )
        disk.truncate(tail.fd, tail.size_bytes)
    disk.sync(tail.fd)


def _remove(directory: Path, names: list[SegmentName]) -> None:
    for name in names:
        with suppress(OSError):
            (directory / str(name)).unlink()
