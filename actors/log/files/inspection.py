"""Reads the files of a partition without owning it, for ``muster log verify``, ``dump`` and ``replay``.

Nothing is written, and files may be incomplete. While a log is served, the end of its last segment moves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from muster.actors.log.errors import LogError
from muster.actors.log.files import directory as directories
from muster.actors.log.files import index as indexes
from muster.actors.log.files import loading, snapshot
from muster.actors.log.files.index import Head
from muster.actors.log.files.manifest import Manifest, manifests
from muster.actors.log.files.recovery_point import RecoveryPoint
from muster.actors.log.files.segment import SegmentName
from muster.actors.log.format.batch import HEADER, HEADER_BYTES, BatchHeader, crc_matches, is_plausible
from muster.actors.log.transactions import aborted
from muster.actors.log.transactions.aborted import AbortedTransactions


@dataclass(frozen=True, slots=True)
class Batch:
    position: int
    header: BatchHeader
    content: bytes
    damage: str | None = None
    """Damage of the batch, if it can still be skipped."""


@dataclass(frozen=True, slots=True)
class Finding:
    path: Path
    what: str
    is_damage: bool = True
    """False for traces of a crash that the next opening repairs."""


@dataclass(slots=True)
class Report:
    """The content of a partition and what is wrong with it."""

    directory: Path
    segments: int = 0
    batches: int = 0
    records: int = 0
    log_start_offset: int = 0
    log_end_offset: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        return not any(finding.is_damage for finding in self.findings)

    def found(self, path: Path, what: str, *, is_damage: bool = True) -> None:
        self.findings.append(Finding(path, what, is_damage))


def read_batches(path: Path) -> Iterator[Batch]:
    """Yield the batches of a segment file, up to the first byte where no batch begins. Raises OSError."""
    position = 0
    with path.open("rb") as file:
        while len(head := file.read(HEADER_BYTES)) == HEADER_BYTES:
            header = BatchHeader._make(HEADER.unpack(head))
            if not is_plausible(header):
                return
            content = head + file.read(header.size_bytes - HEADER_BYTES)
            if len(content) < header.size_bytes:
                return
            damage = None if crc_matches(content, header) else "the batch does not match its CRC"
            yield Batch(position, header, content, damage)
            position += header.size_bytes


def segment_files(directory: Path) -> list[Path]:
    """Return the segment files that count, in order, including those that are set aside. Raises OSError or LogError."""
    manifest, point = _manifest(directory)
    ends = loading.counting(manifest, [entry.name for entry in directory.iterdir()], point) if manifest else {}
    return [path for name in ends if (path := _file_of(directory, name)) is not None]


def counting_batches(directory: Path) -> Iterator[tuple[Path, Batch]]:
    """Each batch that counts, with its segment file, in order of offsets: what an opening keeps.

    Also includes the whole batches behind damage. In a directory without a manifest, such as Apache Kafka's, these are
    all batches of all segment files. Raises OSError or LogError.
    """
    manifest, point = _manifest(directory)
    if manifest is None:
        yield from ((path, batch) for path in sorted(directory.glob("*.log")) for batch in read_batches(path))
        return
    next_offset = manifest.log_start_offset
    for name, end in loading.counting(manifest, [entry.name for entry in directory.iterdir()], point).items():
        path = _file_of(directory, name)
        known_end = point.next_offset if end is None and point is not None and point.segment == name else end
        if path is None:
            continue
        for batch in read_batches(path):
            header = batch.header
            if end is not None and header.next_offset > end:
                break  # written by a writer that failed or was fenced
            if batch.damage is not None and (known_end is None or header.base_offset >= known_end):
                break  # the tail is cut here
            if batch.damage is None and header.last_offset >= next_offset:
                next_offset = header.next_offset
                yield path, batch


def _file_of(directory: Path, name: SegmentName) -> Path | None:
    candidates = (directory / f"{name}{suffix}" for suffix in ("", loading.SET_ASIDE))
    return next((path for path in candidates if path.exists()), None)


def _manifest(directory: Path) -> tuple[Manifest | None, RecoveryPoint | None]:
    found = manifests(directory)
    if not found:
        return None, None
    epoch = max(found)
    return Manifest.read(found[epoch], epoch), RecoveryPoint.read(directory, epoch)


def verify(directory: Path) -> Report:
    """Read everything in a partition's directory and compare: CRCs, order, offsets, manifest, indexes, claim."""
    report = Report(directory)
    try:
        _verify_ownership(report)
        manifest, point = _manifest(directory)
        files = [entry.name for entry in directory.iterdir()]
        if manifest is None:
            if any(loading.segment_name(file) for file in files):
                report.found(directory, "there are segments, but no manifest says which of them count")
            return report
        ends = loading.counting(manifest, files, point)
        report.log_start_offset = manifest.log_start_offset or min((name.base_offset for name in ends), default=0)
        report.log_end_offset = max(manifest.base_offset, manifest.log_start_offset)
        for name, end in ends.items():
            known_end = point.next_offset if end is None and point is not None and point.segment == name else None
            _verify_segment(report, name, end, known_end)
    except (OSError, LogError) as error:
        report.found(directory, str(error))
    return report


def _verify_ownership(report: Report) -> None:
    directory = report.directory
    if directories.topic_of(directory) is None:
        report.found(directory, "partition.metadata is missing")
    claims = directories.claims(directory)
    newest = max(manifests(directory), default=-1)
    if len(claims) > 1:
        report.found(
            directory, f"claims of leader epochs {claims}: an opener is at work or was killed", is_damage=False
        )
    if newest > max(claims, default=-1):
        report.found(directory, f"the manifest of leader epoch {newest} has no claim")


def _verify_segment(report: Report, name: SegmentName, end: int | None, known_end: int | None) -> None:
    path = _file_of(report.directory, name)
    report.segments += 1
    expected = known_end if end is None else end
    report.log_end_offset = max(report.log_end_offset, name.base_offset if expected is None else expected)
    if path is None:
        _verify_missing(report, name, expected)
        return
    next_offset, position, starts = name.base_offset, 0, {}
    for batch in read_batches(path):
        header = batch.header
        if end is not None and header.next_offset > end:
            break  # written by a writer that failed or was fenced
        problem = batch.damage
        if problem is None and header.base_offset < next_offset:
            problem = f"a batch with offset {header.base_offset} where {next_offset} or more should be"
        if problem is not None:
            if expected is None or header.base_offset < expected:
                report.found(path, f"byte {batch.position}: {problem}")
            else:
                report.found(path, f"byte {batch.position}: {problem}; the tail is cut there", is_damage=False)
            break
        starts[batch.position] = header.base_offset
        next_offset, position = header.next_offset, batch.position + header.size_bytes
        report.batches += 1
        report.records += header.record_count
    report.log_end_offset = max(report.log_end_offset, next_offset)
    is_reported = bool(report.findings) and report.findings[-1].path == path
    if expected is not None and next_offset < expected and not is_reported:
        report.found(
            path, f"byte {position}: no batch begins there; offsets {next_offset} to {expected - 1} are missing"
        )
    elif end is None and not is_reported and (surplus := path.stat().st_size - position):
        report.found(path, f"the last {surplus} bytes are torn; the tail is cut there", is_damage=False)
    _verify_index(report, name, starts, next_offset, end)


def _verify_missing(report: Report, name: SegmentName, end: int | None) -> None:
    path = report.directory / str(name)
    offsets = f"offsets {name.base_offset} to {'?' if end is None else end - 1}"
    if (report.directory / f"{name}{loading.ACCEPTED}").exists():
        report.found(path, f"{offsets} are gone, and that was accepted", is_damage=False)
    elif end != name.base_offset:
        report.found(path, f"the file is missing with {offsets}")


def _verify_index(report: Report, name: SegmentName, starts: dict[int, int], next_offset: int, end: int | None) -> None:
    path = (report.directory / str(name)).with_suffix(indexes.SUFFIX)
    if not path.exists():
        return
    head = Head.read(path)
    entries = indexes.read_entries(path, head) if head is not None else None
    if head is None or entries is None:
        report.found(path, "torn or damaged; it is made anew when the log is opened")
    elif SegmentName(head.epoch, head.serial, head.base_offset, head.cleaned) != name:
        report.found(path, "it is the index of another segment")
    elif head.next_offset != next_offset and end is not None:
        report.found(path, f"it ends at offset {head.next_offset}, the segment at {next_offset}")
    elif any(starts.get(position) != offset for offset, position in entries):
        report.found(path, "it has entries where no batch begins")
    elif head.aborted and AbortedTransactions.read(path, head.aborted, head.aborted_crc) is None:
        report.found(path.with_suffix(aborted.SUFFIX), "torn or damaged; it is made anew when the log is opened")
    snapshots = snapshot.path_of(report.directory / str(name))
    if snapshots.exists() and snapshot.read(snapshots, next_offset) is None:
        report.found(snapshots, "torn or damaged; it is made anew when the log is opened")
