"""Space that is kept free for what must be written on a full disk.

Once clients' records have filled a disk, what is left is for all the rest: committed offsets, coordinators that start,
ZooKeeper, manifests, without which retention can free nothing, and logs of processes. So appends to topics of clients
are refused while less than the reserve is free.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from muster.actors.log.files.disk import Disk

_MAX_RESERVE_BYTES = 64 << 20
_SHARE = 20
_LOOK_INTERVAL_S = 0.02


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes that users without privileges may still write to a file system, and Muster's reserve of them."""

    free_bytes: int
    reserve_bytes: int
    """A twentieth of the file system, 64 MiB at most."""

    @property
    def is_full(self) -> bool:
        """Whether clients' records are refused."""
        return self.free_bytes < self.reserve_bytes


def room_at(path: Path) -> Room:
    """Return the room. Raises OSError. Blocks: on NFS, for one, it asks the server."""
    found = os.statvfs(path)
    return Room(found.f_bavail * found.f_frsize, min(_MAX_RESERVE_BYTES, found.f_blocks * found.f_frsize // _SHARE))


class SharedDisk(Disk):
    """A disk whose reserve clients' records leave alone. Looks at it fifty times a second at most. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._room: Room | None = None
        self._look_again_s = 0.0

    def check_room(self, directory: Path) -> None:
        with self._lock:
            if self._room is None or time.monotonic() >= self._look_again_s:
                self._room = room_at(directory)
                self._look_again_s = time.monotonic() + _LOOK_INTERVAL_S
            room = self._room
        if room.free_bytes < room.reserve_bytes:
            raise OSError(
                errno.ENOSPC,
                f"{os.strerror(errno.ENOSPC)} for records: {room.free_bytes >> 10} KiB are free, and the last "
                f"{room.reserve_bytes >> 10} KiB are kept for offsets, ZooKeeper and deletion",
            )
