"""Counters of runs, in a file that is mapped into memory: kept up to date in place, without a system call.

The page cache keeps what was stored when the process is killed, as it keeps what was written. Killed in the middle of
a store: a slot has two copies that are stored in turn, and each begins and ends with a number that grows (the run's
fetches). Where both ends are the same, the copy is whole, and of whole copies the one with the higher number holds.
"""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path
from typing import NamedTuple

SUFFIX = ".slots"
COPY_BYTES = 64
"""A cache line: of one copy, and what is left over of it."""
SLOT_BYTES = 2 * COPY_BYTES
SEGMENT_BYTES = 1 << 16
"""The file grows by that much, and is never sparse: a store into a hole would be SIGBUS on a full disk."""
_COPY = struct.Struct("<6q")
pack_into = _COPY.pack_into
"""Store fetches, last time in ms, messages, bytes, last offset and fetches again, at ``COPY_BYTES * (fetches & 1)``."""


class Counters(NamedTuple):
    """What a slot holds: of a whole run, with what it began with."""

    fetches: int
    last_ts_ms: int
    messages: int
    bytes: int
    last_offset: int


class SlotFile:
    """The slots of one spool. Not thread-safe."""

    def __init__(self, path: Path) -> None:
        """A new file. OSError if the disk refuses."""
        self.is_open = True
        self._fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o644)
        self._segments: list[mmap.mmap] = []
        self._taken = 0

    def take(self) -> tuple[int, mmap.mmap, int]:
        """A slot that nobody had: its number, and where it is. OSError, and nothing taken, if the disk is full."""
        segment, at = divmod(self._taken * SLOT_BYTES, SEGMENT_BYTES)
        if segment == len(self._segments):
            self._segments.append(self._grow(segment * SEGMENT_BYTES))
        number = self._taken
        self._taken += 1
        return number, self._segments[segment], at

    def _grow(self, begin: int) -> mmap.mmap:
        os.posix_fallocate(self._fd, begin, SEGMENT_BYTES)
        return mmap.mmap(self._fd, SEGMENT_BYTES, mmap.MAP_SHARED | mmap.MAP_POPULATE, offset=begin)

    def close(self) -> None:
        """Nothing may be stored any more."""
        self.is_open = False
        for segment in self._segments:
            segment.close()
        os.close(self._fd)


def read(spool: Path) -> bytes:
    """The slots of a spool file, for :func:`counters`; empty if it has none."""
    try:
        return spool.with_suffix(SUFFIX).read_bytes()
    except FileNotFoundError:
        return b""


def counters(slots: bytes, number: int) -> Counters | None:
    """What a slot holds; None if nothing was ever stored in it, as a whole."""
    found = None
    for at in (number * SLOT_BYTES, number * SLOT_BYTES + COPY_BYTES):
        if at + COPY_BYTES > len(slots):
            continue  # a power loss: the file's end never came to the disk
        *values, end = _COPY.unpack_from(slots, at)
        if values[0] == end and end > (0 if found is None else found.fetches):
            found = Counters(*values)
    return found
