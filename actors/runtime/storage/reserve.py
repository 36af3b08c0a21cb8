"""A file that holds space of the storage directory until something else has filled its file system.

Muster's own records stop while there is still room (:mod:`muster.actors.log.files.room`), but other programs may take
the rest. Then the file is removed, which leaves ZooKeeper and the coordinators what it held: half of the reserve, too
little for records to be accepted again.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from muster.actors.log.files.room import Room, room_at

_ENOUGH = 2
"""The storage has room again once so many times the reserve are free."""


class Reserve:
    """The file ``run/reserve``, half of :attr:`Room.reserve_bytes`. All methods block; not thread-safe."""

    def __init__(self, storage: Path) -> None:
        self._storage = storage
        self._path = storage / "run" / "reserve"
        self._is_full = False

    def release_if_needed(self) -> Room:
        """Remove the file if next to nothing is free without it. Returns what is free then. Raises OSError."""
        room = room_at(self._storage)
        if room.free_bytes >= room.reserve_bytes // 2 or not self._path.exists():
            return room
        self._path.unlink(missing_ok=True)
        return room_at(self._storage)

    def keep(self) -> str | None:
        """Make the file or remove it, as is right now. Returns what an operator must know, once. Raises OSError."""
        room = self.release_if_needed()
        if room.is_full and not self._is_full:
            self._is_full = True
            return (
                f"storage {self._storage} is full, {room.free_bytes >> 20} MiB are free: new records are refused "
                "(KAFKA_STORAGE_ERROR) until there is more; all else continues"
            )
        if room.free_bytes < _ENOUGH * room.reserve_bytes:
            return None
        if not self._path.exists():
            self._make(room.reserve_bytes // 2)
        if not self._is_full:
            return None
        self._is_full = False
        return f"storage {self._storage} has room again, {room.free_bytes >> 20} MiB are free: records are accepted"

    def _make(self, size_bytes: int) -> None:
        partial = self._path.with_name(f".{self._path.name}")
        try:
            fd = os.open(partial, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(fd, 0, size_bytes)
            finally:
                os.close(fd)
            partial.rename(self._path)
        except OSError:
            with suppress(OSError):
                partial.unlink()
            raise
