"""Counters of runs in a memory-mapped file, updated in place without a system call.

When the process is killed, the page cache keeps what was stored, as it keeps what was written. The process may be
killed in the middle of a store, so a slot has two copies that are stored in turn. Each copy begins and ends with a
number that grows (the run's fetches): if both are equal, the copy is whole. The whole copy with the higher number
counts.
"""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path
from typing import NamedTuple

SUFFIX = ".slots"
COPY_BYTES = 64
"""Size of one copy with its padding: a cache line."""
SLOT_BYTES = 2 * COPY_BYTES
SEGMENT_BYTES = 1 << 16
"""The file grows by this much, and is never sparse: a store into a hole would cause SIGBUS on a full disk."""
_COPY = struct.Struct("<8q")
pack_into = _COPY.pack_into
"""Store the fields of :class:`Counters`, then fetches again, at ``COPY_BYTES * (fetches & 1)``."""


class Counters(NamedTuple):
    """The content of a slot: the totals of a run, including its first sample."""

    fetches: int
    last_ts_ms: int
    messages: int
    bytes: int
    last_offset: int
    control_records: int
    aborted_records: int


class SlotFile:
    """The slots of one spool. Not thread-safe."""

    def __init__(self, path: Path) -> None:
        """Create the file. Raises OSError if the disk refuses."""
        self.is_open = True
        self._fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        self._segments: list[mmap.mmap] = []
        self._taken = 0

    def take(self) -> tuple[int, mmap.mmap, int]:
        """Take an unused slot: its number, and where it is.

        Raises OSError if the disk is full; then no slot is taken.
        """
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
        """Close the file; nothing may be stored afterwards."""
        self.is_open = False
        for segment in self._segments:
            segment.close()
        os.close(self._fd)


def read(spool: Path) -> bytes:
    """Return the slots of a spool file, for :func:`counters`; empty if it has none."""
    try:
        return spool.with_suffix(SUFFIX).read_bytes()
    except FileNotFoundError:
        return b""


def counters(slots: bytes, number: int) -> Counters | None:
    """Return the content of a slot; None if no copy in it is whole."""
    found = None
    for at in (number * SLOT_BYTES, number * SLOT_BYTES + COPY_BYTES):
        if at + COPY_BYTES > len(slots):
            continue  # after a power loss: the file's end was never written to disk
        *values, end = _COPY.unpack_from(slots, at)
        if values[0] == end and end > (0 if found is None else found.fetches):
            found = Counters(*values)
    return found
