"""How far the open part of a log is known to be durable: ``recovery-point-<leader epoch>``.

Behind the recovery point the tail may be torn, and is cut. Before it everything has been synced, so anything missing
there is damage, not the trace of a crash. After each commit, before it acknowledges, the writer records its segment,
the segment's size and the log's end. That is one small write in place, never synced. It is exact after a process was
killed, and up to some seconds old after a power failure, which makes more of the tail count as torn, never less.

Each epoch writes its own file, since a fenced writer may write once more. Big-endian: magic "MRCP", leader epoch i64,
serial i64, base offset i64, size in bytes i64, next offset i64, CRC-32C of all that u32.
"""

from __future__ import annotations

import logging
import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path

from crc32c import crc32c

from muster.actors.log.files.disk import Disk
from muster.actors.log.files.segment import SegmentName

_NAME = re.compile(r"recovery-point-(\d{10})")
_FIELDS = struct.Struct(">4sqqqqq")
_CRC = struct.Struct(">I")
_MAGIC = b"MRCP"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RecoveryPoint:
    segment: SegmentName
    size_bytes: int
    next_offset: int

    @classmethod
    def read(cls, directory: Path, epoch: int) -> RecoveryPoint | None:
        """Return the recovery point of the epoch; None if there is none or it is torn. Raises OSError."""
        try:
            content = path_of(directory, epoch).read_bytes()
        except FileNotFoundError:
            return None
        if len(content) != _FIELDS.size + _CRC.size or crc32c(content[: _FIELDS.size]) != _crc_in(content):
            return None
        magic, of_epoch, serial, base_offset, size_bytes, next_offset = _FIELDS.unpack_from(content)
        if magic != _MAGIC or of_epoch != epoch:
            return None
        return cls(SegmentName(epoch, serial, base_offset), size_bytes, next_offset)


def _crc_in(content: bytes) -> int:
    return int(_CRC.unpack_from(content, _FIELDS.size)[0])


def path_of(directory: Path, epoch: int) -> Path:
    return directory / f"recovery-point-{epoch:010d}"


def is_leftover(name: str, epoch: int) -> bool:
    """Whether a file of that name is the recovery point of a lower epoch."""
    match = _NAME.fullmatch(name)
    return match is not None and int(match[1]) < epoch


class RecoveryPointFile:
    """The file of one writer, created at its first commit. A disk failure only loses the recovery point."""

    def __init__(self, directory: Path, epoch: int, disk: Disk) -> None:
        self._path = path_of(directory, epoch)
        self._disk = disk
        self._fd = -1
        self._failed = False

    def move(self, segment: SegmentName, size_bytes: int, next_offset: int) -> None:
        """Write a :class:`RecoveryPoint`. Call from one thread at a time."""
        fields = _FIELDS.pack(_MAGIC, segment.epoch, segment.serial, segment.base_offset, size_bytes, next_offset)
        try:
            if self._fd < 0:
                self._fd = self._disk.create_unsynced(self._path)
            self._disk.write(self._fd, fields + _CRC.pack(crc32c(fields)), 0)
            self._failed = False
        except OSError as error:
            if not self._failed:
                log.warning("%s is not kept: %s", self._path, error)
            self._failed = True

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
