"""The disk under a partition's log: real files, with calls that take time, fail, and lose unsynced data."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from pathlib import Path

from muster.actors.log.files.disk import Disk
from tests.simulation.processes.fibers import Killed
from tests.simulation.processes.process import Process
from tests.simulation.processes.threads import Signal


@dataclass(slots=True)
class DiskTrouble:
    """Probabilities of faults, per call. All 0: no faults."""

    slow: float = 0.0
    failed: float = 0.0


class Storage:
    """Shared by all hosts. ``synced`` is the number of bytes of a file that always survive a power failure."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder = folder
        self.trouble = DiskTrouble()
        self.chance = chance
        self.synced: dict[Path, int] = {}


class SimulatedDisk(Disk):
    """The disk of one process. Other processes run before and after each write and sync."""

    def __init__(self, process: Process, storage: Storage) -> None:
        self._process = process
        self._storage = storage
        self._segments: set[Path] = set()

    def create(self, path: Path) -> int:
        self._take_time()
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o644)
        self._segments.add(path)
        self._storage.synced[path] = 0
        return fd

    def create_unsynced(self, path: Path) -> int:
        self._check_alive()
        return super().create_unsynced(path)

    def write(self, fd: int, content: bytes | bytearray, position: int) -> None:
        self._take_time()
        self._may_fail()
        super().write(fd, content, position)

    def sync(self, fd: int) -> None:
        self._take_time()
        self._may_fail()
        path = _path_of(fd)
        self._storage.synced[path] = os.fstat(fd).st_size
        self._take_time()

    def truncate(self, fd: int, size_bytes: int) -> None:
        self._take_time()
        path = _path_of(fd)
        super().truncate(fd, size_bytes)
        self._storage.synced[path] = size_bytes

    def rename(self, path: Path, target: Path) -> None:
        self._take_time()
        path.replace(target)

    def unlink(self, path: Path) -> None:
        self._check_alive()
        super().unlink(path)

    def replace_unsynced(self, path: Path, content: bytes, temporary_suffix: str) -> None:
        """Atomically: the suffix is the process id, which all processes of a simulation share."""
        self._check_alive()
        Disk().replace_unsynced(path, content, temporary_suffix)

    def synced_bytes(self, path: Path) -> int:
        """Return the number of durable bytes of the file."""
        return self._storage.synced.get(path, 0)

    def lose_power(self) -> int:
        """Fail the host of the process: any part of its unsynced data is lost. Returns the number of bytes."""
        lost = 0
        for path in sorted(self._segments):
            synced = self._storage.synced.get(path, 0)
            if path.exists() and path.stat().st_size > synced:
                size = self._storage.chance.randint(synced, path.stat().st_size)
                lost += path.stat().st_size - size
                os.truncate(path, size)
        return lost

    def _take_time(self) -> None:
        self._check_alive()
        chance = self._storage.chance
        ms = chance.choice([0, 0, 1, 3])
        if chance.random() < self._storage.trouble.slow:
            ms = chance.choice([50, 800, 3_000, 12_000])
        if ms:
            Signal().wait(ms / 1000)
            self._check_alive()

    def _may_fail(self) -> None:
        if self._storage.chance.random() < self._storage.trouble.failed:
            raise OSError(5, "simulated failure")

    def _check_alive(self) -> None:
        if not self._process.alive:
            raise Killed


def _path_of(fd: int) -> Path:
    return Path(f"/proc/self/fd/{fd}").readlink()


def without_sync(directory: Path) -> None:
    """Replace ``sync_directory``: names are not lost here."""


def written_at_once(path: Path, content: bytes, temporary_suffix: str) -> None:
    """Replace ``write_atomically``."""
    temporary = path.with_name(f"{path.name}.{temporary_suffix}.tmp")
    temporary.write_bytes(content)
    temporary.replace(path)
