"""Spools whose process is dead become Parquet files, each sample once."""

from __future__ import annotations

import fcntl
import logging
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from actors.tables import journal
from actors.tables.parquet import write_samples

_log = logging.getLogger(__name__)
_LOCK = "lock"


@dataclass(frozen=True, slots=True)
class SpoolFolder:
    """The spools of one process. Its lock says that the process lives: the kernel releases it with the process."""

    path: Path
    lock_fd: int

    @classmethod
    def create(cls, spools: Path, gateway: int, now_ms: int) -> SpoolFolder:
        """A new folder, locked before anybody can see it. OSError if the disk refuses."""
        name = f"gateway-{gateway}-{now_ms:013d}-{uuid.uuid4().hex[:8]}"
        hidden = spools / f".{name}"
        hidden.mkdir(parents=True)
        fd = os.open(hidden / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        fcntl.flock(fd, fcntl.LOCK_EX)
        return cls(hidden.rename(spools / name), fd)

    def name_of(self, spool: Path) -> str:
        """What the Parquet files of that spool are called, without suffix."""
        return f"{self.path.name}-{spool.stem}"

    def spools(self) -> list[Path]:
        """Oldest first."""
        return sorted(self.path.glob("*.jsonl"))

    def remove(self) -> None:
        """Remove the folder: spools oldest first, the lock last."""
        for file in (*self.spools(), *self.path.glob("*.partial"), self.path / _LOCK):
            file.unlink()
        self.path.rmdir()

    def release(self) -> None:
        """Give up the lock. Nothing of this object may be used afterwards."""
        os.close(self.lock_fd)


def recover(spools: Path, table: Path, gateway: int) -> int:
    """Bring what dead processes of that gateway left into the table; returns the rows. OSError if the disk refuses.

    Killed at any point, it can be done again. A process that still lives keeps its folder (two copies of one
    actor can run for a while); whoever flushes after its death recovers it.
    """
    rows = 0
    for path in sorted(spools.glob(f"gateway-{gateway}-*")):
        with _taken_over(path) as folder:
            if folder is not None:
                rows += _recover_folder(folder, table, gateway)
    return rows


@contextmanager
def _taken_over(path: Path) -> Iterator[SpoolFolder | None]:
    """The folder with its lock, or None if its process lives or somebody else was faster."""
    try:
        folder = SpoolFolder(path, os.open(path / _LOCK, os.O_RDWR | os.O_CLOEXEC))
    except FileNotFoundError:
        with suppress(OSError):
            path.rmdir()  # killed between removing the lock and the folder
        yield None
        return
    try:
        yield folder if _lock(folder) else None
    finally:
        folder.release()


def _lock(folder: SpoolFolder) -> bool:
    try:
        fcntl.flock(folder.lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return (folder.path / _LOCK).exists()  # else its last owner removed it meanwhile


def _recover_folder(folder: SpoolFolder, table: Path, gateway: int) -> int:
    _resolve_pending(folder)
    rows = 0
    for path in folder.spools():
        rows += write_samples(table, folder.name_of(path), gateway, journal.read(path).rollup)
    if rows:
        _log.info("recovered %d rows of samples from %s", rows, folder.path)
    folder.remove()
    return rows


def _resolve_pending(folder: SpoolFolder) -> None:
    """What was pending when the process died counts with the reason it had: one more spool, there whole or not."""
    paths = folder.spools()
    left = journal.unresolved(journal.read(path) for path in paths)
    if not left:
        return
    target = folder.path / f"{int(paths[-1].stem) + 1:08d}.jsonl"
    partial = target.with_suffix(".partial")
    partial.write_bytes(b"".join(journal.resolution_line(handle, sample) for handle, sample in left.items()))
    partial.replace(target)
