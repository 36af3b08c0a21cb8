"""The manifest of a leader epoch lists the files that are the log.

``segments-<epoch>`` is written when the epoch begins and rewritten, by its own writer only, whenever segments are
removed or replaced or the log start moves. One value per line: the offset at which the epoch's open part begins,
then ``<keyword> <number>`` for each keyword, then ``<segment> <end>`` for each closed segment, ascending, where the
end is the offset behind its last batch.

What the epoch wrote behind that is found in the directory: the segments that carry its number and a serial of at
least ``first-serial``. A cleaned segment (see :class:`muster.actors.log.files.segment.SegmentName`) counts only where
it is listed. ``muster.actors.log.partition`` explains why all of this is safe.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from muster.actors.log.errors import StorageError
from muster.actors.log.files.disk import Disk
from muster.actors.log.files.segment import SegmentName

_NAME = re.compile(r"segments-(\d{10})(\.new\.tmp)?")
_LOG_START, _CLEANED, _FIRST_SERIAL = "log-start-offset", "cleaned-offset", "first-serial"


@dataclass(frozen=True, slots=True)
class Manifest:
    epoch: int
    base_offset: int
    """Where the open part begins. The log ends here or later."""
    ends: dict[SegmentName, int]
    """Where each closed segment ends, ascending. Offsets between two segments may be missing after cleaning."""
    log_start_offset: int = 0
    """No offset below it is read, even if the first segment holds it."""
    cleaned_offset: int = 0
    """No key occurs twice below it: the cleaner has processed that part."""
    first_serial: int = 0
    """Segments of the epoch with a lower serial count only if they are listed."""

    @classmethod
    def read(cls, path: Path, epoch: int) -> Manifest:
        """Read a manifest. Raises OSError; StorageError if the file is malformed."""
        try:
            first, *lines = path.read_text(encoding="ascii").splitlines()
            values = {word: int(number) for word, _, number in (line.partition(" ") for line in lines)}
            log_start, cleaned, first_serial = (values.pop(word) for word in (_LOG_START, _CLEANED, _FIRST_SERIAL))
            ends = {_segment(word): end for word, end in values.items()}
            return cls(epoch, int(first), ends, log_start, cleaned, first_serial)
        except (ValueError, KeyError) as error:
            raise StorageError(f"{path} is not readable: {error}") from error

    def write(self, directory: Path, disk: Disk) -> None:
        """Durable on return; a reader sees either the previous manifest or this one. Raises OSError: unknown which."""
        lines = [
            str(self.base_offset),
            f"{_LOG_START} {self.log_start_offset}",
            f"{_CLEANED} {self.cleaned_offset}",
            f"{_FIRST_SERIAL} {self.first_serial}",
            *(f"{name} {end}" for name, end in self.ends.items()),
        ]
        path = self.path(directory)
        temporary = path.with_name(f"{path.name}.new.tmp")
        temporary.unlink(missing_ok=True)
        fd = disk.create_unsynced(temporary)
        try:
            disk.write(fd, "\n".join(lines).encode("ascii"), 0)
            disk.sync(fd)
        finally:
            os.close(fd)
        disk.rename(temporary, path)

    def path(self, directory: Path) -> Path:
        return directory / f"segments-{self.epoch:010d}"

    def counting(self, files: Iterable[SegmentName]) -> dict[SegmentName, int | None]:
        """Which of the directory's segments count, ascending, and where each ends; None: at its last whole batch."""
        ends: dict[SegmentName, int | None] = dict(self.ends)
        own = sorted(
            name
            for name in files
            if name.epoch == self.epoch and name.serial >= self.first_serial and not name.cleaned and name not in ends
        )
        for name, following in pairwise(own):
            if following.base_offset > name.base_offset:  # else it was abandoned while still empty
                ends[name] = following.base_offset
        if own:
            ends[own[-1]] = None
        return ends


def _segment(file_name: str) -> SegmentName:
    name = SegmentName.parse(file_name)
    if name is None:
        raise ValueError(f"{file_name!r} is no segment")
    return name


def manifests(directory: Path) -> dict[int, Path]:
    """By epoch. Raises OSError."""
    found = ((_NAME.fullmatch(entry.name), entry) for entry in directory.iterdir())
    return {int(match[1]): entry for match, entry in found if match and not match[2]}


def is_leftover(name: str, epoch: int) -> bool:
    """Whether a file of that name is a manifest, whole or not, of a lower epoch."""
    match = _NAME.fullmatch(name)
    return match is not None and int(match[1]) < epoch
