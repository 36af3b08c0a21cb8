"""Loads the segments that count: from their index files where those are valid, else by reading the segments.

======================================  ===============================================================================
segment                                 what is checked when the log is opened
======================================  ===============================================================================
with an index file that is whole        the length of the file; the first and the last batch with their CRCs
without one                             every batch: CRC, order, and that the next segment begins where it ends
the one that was written to last        the same, but it may end earlier: torn, if nothing before the recovery point
                                        (``muster.actors.log.files.recovery_point``) is missing; else it is damaged
======================================  ===============================================================================

A damaged segment becomes a :meth:`Segment.lost`: its offsets are known and not served. Its file is renamed to
``<name>.log.corrupt`` and never removed. If an operator renames it to ``<name>.log.lost``, the loss is accepted: the
segment is a hole, like those that the cleaner leaves, and readers continue behind it.

Producer states come from the newest valid snapshot and the batches behind it. A segment that is read needs the state at
its beginning, because it may abort transactions that began before it: so only a snapshot before the first such segment
counts.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from muster.actors.log.errors import CorruptSegment
from muster.actors.log.files import snapshot
from muster.actors.log.files.disk import Disk
from muster.actors.log.files.manifest import Manifest
from muster.actors.log.files.recovery_point import RecoveryPoint
from muster.actors.log.files.segment import OnBatch, Segment, SegmentName
from muster.actors.log.producers import ProducerStates

SET_ASIDE = ".corrupt"
"""Suffix of a segment file that is set aside."""
ACCEPTED = ".lost"
"""Suffix of a segment file whose loss is accepted."""

_UNFINISHED = re.compile(r".+\.(index|snapshot|txnindex)\.\d+\.tmp")

log = logging.getLogger(__name__)

Ends = Mapping[SegmentName, int | None]
"""Where each segment that counts ends, ascending; None: at its last whole batch."""


@dataclass(slots=True)
class Loaded:
    segments: list[Segment] = field(default_factory=list)
    """Ascending; some may be empty or corrupt."""
    producers: ProducerStates = field(default_factory=ProducerStates)
    refusal: str | None = None
    """Why appends are refused: the end of the log is unknown."""

    def close(self) -> None:
        for segment in self.segments:
            segment.close()


def is_leftover(file: str) -> bool:
    """Whether it is an index or a snapshot that was never completed."""
    return _UNFINISHED.fullmatch(file) is not None


def segment_name(file: str) -> SegmentName | None:
    """Return the name of a segment file, even if set aside or accepted as lost; None for any other file."""
    return SegmentName.parse(file.removesuffix(SET_ASIDE).removesuffix(ACCEPTED))


def load(
    directory: Path,
    ends: Ends,
    point: RecoveryPoint | None,
    index_interval_bytes: int,
    loaded: Loaded,
) -> None:
    """Fill ``loaded``, which the caller closes if this raises. ``ends``: from ``Manifest.counting``. Raises OSError."""
    by_index = {
        name: segment
        for name, end in ends.items()
        if (segment := _indexed(directory, name, end, index_interval_bytes)) is not None
    }
    loaded.segments.extend(by_index.values())
    known_until = _restore_producers(directory, by_index, ends, loaded.producers)
    held: list[Segment] = []
    for name, end in ends.items():
        on_batch = loaded.producers.replay if name.base_offset >= known_until else None
        segment = by_index.get(name)
        if segment is None:
            segment = _scanned(directory, name, end, point, index_interval_bytes, on_batch)
            loaded.segments.append(segment)
        elif on_batch is not None:
            _pass_headers(segment, on_batch)
        held.append(segment)
        if end is not None and segment.corrupt is None and segment.size_bytes and segment.next_offset < end:
            held.append(_gap(directory, segment, end))
    loaded.segments[:] = held
    if held and held[-1].corrupt is not None and ends[held[-1].name] is None:
        loaded.refusal = f"{held[-1].path.name} is corrupt ({held[-1].corrupt}), so that the log's end is not known"


def _pass_headers(segment: Segment, on_batch: OnBatch) -> None:
    """Call ``on_batch`` with the headers, up to the end or to the first corrupt batch."""
    segment.on_corrupt = lambda _: None  # it is set aside with the other corrupt segments
    with suppress(CorruptSegment):
        for header, end in segment.headers():
            on_batch(header, end)


def _gap(directory: Path, before: Segment, end: int) -> Segment:
    """Return the gap between the end of a whole segment and ``end``: probably a missing file."""
    name = SegmentName(before.epoch, before.name.serial + 1, before.next_offset)
    return _missing(directory, name, end)


def _indexed(directory: Path, name: SegmentName, end: int | None, index_interval_bytes: int) -> Segment | None:
    try:
        return Segment.open_indexed(directory, name, end=end, index_interval_bytes=index_interval_bytes)
    except FileNotFoundError:
        return None


def _restore_producers(
    directory: Path, by_index: Mapping[SegmentName, Segment], ends: Ends, producers: ProducerStates
) -> int:
    """Restore from the newest snapshot that counts. Returns the offset from which batches must still be replayed."""
    before = list(takewhile(lambda name: name in by_index or not (directory / str(name)).exists(), ends))
    for name in reversed(before):
        segment = by_index.get(name)
        if segment is None:
            continue
        entries = snapshot.read(segment.path, segment.next_offset)
        if entries is not None:
            producers.restore_all(entries)
            return segment.next_offset
    return 0


def _scanned(
    directory: Path,
    name: SegmentName,
    end: int | None,
    point: RecoveryPoint | None,
    index_interval_bytes: int,
    on_batch: OnBatch | None,
) -> Segment:
    acknowledged = point if point is not None and point.segment == name else None
    known_end = end if end is not None else acknowledged.next_offset if acknowledged is not None else name.base_offset
    try:
        segment = Segment.load(
            directory,
            name,
            limit=end,
            verify=True,
            index_interval_bytes=index_interval_bytes,
            on_batch=on_batch,
        )
    except FileNotFoundError:
        return _missing(directory, name, known_end)
    is_whole = segment.size_bytes == (directory / str(name)).stat().st_size
    if segment.next_offset >= known_end or (end is not None and segment.size_bytes and is_whole):
        return segment
    segment.close()
    reason = f"no sound batch at byte {segment.size_bytes}, where offset {segment.next_offset} should be"
    return Segment.lost(directory, name, known_end, reason)


def _missing(directory: Path, name: SegmentName, next_offset: int) -> Segment:
    if (directory / f"{name}{ACCEPTED}").exists():
        log.warning(
            "%s: offsets %d to %d are gone, and that was accepted", directory / str(name), name.base_offset, next_offset
        )
        return Segment.lost(directory, name, next_offset, None)
    is_set_aside = (directory / f"{name}{SET_ASIDE}").exists()
    reason = "it was set aside before" if is_set_aside else "the file is missing"
    return Segment.lost(directory, name, next_offset, reason)


def set_aside(segment: Segment, disk: Disk) -> None:
    """Rename the file of a corrupt segment, and log it. For the holder of the claim. Failures are logged."""
    aside = segment.path.with_name(segment.path.name + SET_ASIDE)
    try:
        disk.rename(segment.path, aside)
    except FileNotFoundError:
        pass
    except OSError as error:
        log.error("%s cannot be set aside: %s", segment.path, error)
    log.error(
        "%s is corrupt (%s): offsets %d to %d are not served; what is left of it is in %s",
        *(segment.path, segment.corrupt, segment.base_offset, segment.next_offset - 1, aside.name),
    )


def counting(manifest: Manifest, files: Iterable[str], point: RecoveryPoint | None) -> Ends:
    """Like ``Manifest.counting``, and counts segments that are set aside or named only by the recovery point."""
    names = {name for file in files if (name := segment_name(file)) is not None}
    if point is not None:
        names.add(point.segment)
    return manifest.counting(names)


def keep(segment: Segment, producers: snapshot.Entries, disk: Disk) -> None:
    """Write index and snapshot of a closed segment. In a thread. Failures only slow down the next opening."""
    if not segment.size_bytes or segment.corrupt is not None:
        return
    try:
        segment.keep_index(disk)
        snapshot.write(segment.path, segment.next_offset, producers, disk)
    except OSError as error:
        log.warning("%s: index and snapshot are not kept: %s", segment.path, error)


def keep_all(segments: list[Segment], producers: ProducerStates, disk: Disk) -> None:
    """Write the missing indexes, and the one snapshot that counts: that of the last segment."""
    sound = [segment for segment in segments if segment.corrupt is None]
    for segment in sound[:-1]:
        with suppress(OSError):
            disk.unlink(snapshot.path_of(segment.path))
            segment.keep_index(disk)
    if sound and sound[-1] is segments[-1] and not sound[-1].is_indexed:
        keep(sound[-1], producers.entries(), disk)
