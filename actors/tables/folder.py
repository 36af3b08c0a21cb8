"""Folders of spool files, one for each process. The folder of a dead process is taken over by the next process.

A line is one JSON value. Its content and use depend on the table
(:mod:`muster.actors.tables.spool`, :mod:`muster.actors.tables.events`, :mod:`muster.actors.tables.rebalances`).
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from muster.actors.tables import slots

_log = logging.getLogger(__name__)
_LOCK = "lock"


@dataclass(slots=True)
class _Appends:
    """The appends to a folder. While they fail, flushes open one file after the other: one line says so."""

    are_failing: bool = False


@dataclass(slots=True)
class SpoolFile:
    """An append-only file of lines. When the process is killed, the page cache keeps what was written."""

    path: Path
    fd: int
    missing: int = 0
    """Number of lines that are not in the file, or not whole (full disk)."""
    torn: bool = False
    """Whether the last line is missing or not whole: the next write begins a new line and says how many are missing."""
    beside: Path | None = None
    """A file that is removed with it, and after it."""
    appends: _Appends = field(default_factory=_Appends)

    def append(self, lines: bytes) -> None:
        """Write whole lines with one ``write``. Never raises for a full disk: the lines are then in memory only."""
        data = b'\n{"missing":%d}\n%b' % (self.missing, lines) if self.torn else lines
        try:
            complete = os.write(self.fd, data) == len(data)
        except OSError as error:
            if not self.appends.are_failing:
                _log.error("cannot append to %s (%s): in memory only until the next flush", self.path, error)
            self.appends.are_failing, complete = True, False
        else:
            self.appends.are_failing = False
        self.torn = not complete
        if self.torn:
            self.missing += lines.count(b"\n")

    def remove(self) -> None:
        """Remove the file if it exists, and the one beside it."""
        self.path.unlink(missing_ok=True)
        if self.beside is not None:
            self.beside.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class SpoolFolder:
    """The spools of one process. The lock shows that the process lives: the kernel releases it with the process."""

    path: Path
    lock_fd: int
    _appends: _Appends = field(default_factory=_Appends)

    @classmethod
    def create(cls, spools: Path, owner: str, now_ms: int) -> SpoolFolder:
        """Create a folder that is locked before it becomes visible. Raises OSError if the disk refuses."""
        name = f"{owner}-{now_ms:013d}-{uuid.uuid4().hex[:8]}"
        hidden = spools / f".{name}"
        hidden.mkdir(parents=True)
        fd = os.open(hidden / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
        return cls(hidden.rename(spools / name), fd)

    def open(self, number: int) -> SpoolFile:
        """Create a spool file; numbers must grow."""
        path = self.path / f"{number:08d}.jsonl"
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
        return SpoolFile(path, fd, appends=self._appends)

    def name_of(self, spool: Path) -> str:
        """Return the name of that spool's Parquet files, without suffix."""
        return f"{self.path.name}-{spool.stem}"

    def spools(self) -> list[Path]:
        """Return the spool files, oldest first."""
        return spool_files(self.path)

    def say_lost(self, spool: Path, lines: int, first_ms: int | None) -> None:
        """Log that ``lines`` lines added to a spool are missing; ``first_ms``: the time of its earliest row."""
        began_ms = first_ms if first_ms is not None else int(self.path.name.rsplit("-", 2)[1])
        _log.warning(
            "%s: at most %d lines are lost, added between %s and %s (full disk or power loss)",
            spool,
            lines,
            _moment(began_ms),
            _moment(int(spool.stat().st_mtime * 1000)),
        )

    def remove(self) -> None:
        """Remove the folder: spools oldest first, then the files beside them, the lock last."""
        beside = (file for pattern in ("*.partial", f"*{slots.SUFFIX}") for file in self.path.glob(pattern))
        for file in (*self.spools(), *beside, self.path / _LOCK):
            file.unlink()
        self.path.rmdir()

    def release(self) -> None:
        """Release the lock. This object must not be used afterwards."""
        os.close(self.lock_fd)


def spool_files(folder: Path) -> list[Path]:
    """Spool files, oldest first; none if the folder disappears meanwhile, as when another process recovers it."""
    try:
        return sorted(folder.glob("*.jsonl"))
    except FileNotFoundError:
        return []


def read_lines(path: Path) -> tuple[list[Any], int]:
    """Return the value of every whole line, and how many lines are known to be missing: torn, or never written."""
    values: list[Any] = []
    missing = torn = 0
    for line in filter(None, path.read_bytes().splitlines()):
        try:
            value = json.loads(line)
        except ValueError:
            torn += 1
            continue
        match value:
            case {"missing": int(so_far)}:
                missing, torn = so_far, 0
            case _:
                values.append(value)
    return values, missing + torn


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def recover(spools: Path, owner: str, settle: Callable[[SpoolFolder], int]) -> int:
    """Call ``settle`` to write what dead processes of that owner left into its table; returns the sum of its rows.

    Raises OSError if the disk refuses. After a kill at any point, it can be repeated if ``settle`` can. A live process
    keeps its folder (two copies of one actor can run for a while); the next flush after its death recovers the folder.
    """
    rows = 0
    for path in sorted(spools.glob(f"{owner}-*")):
        with _taken_over(path) as folder:
            if folder is not None:
                rows += settle(folder)
                folder.remove()
    return rows


@contextmanager
def _taken_over(path: Path) -> Iterator[SpoolFolder | None]:
    """Yield the folder with its lock, or None if its process lives or another process was faster."""
    try:
        folder = SpoolFolder(path, os.open(path / _LOCK, os.O_RDWR | os.O_CLOEXEC))
    except FileNotFoundError:
        with suppress(OSError):
            path.rmdir()  # the last process was killed between removing the lock and the folder
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
    return (folder.path / _LOCK).exists()  # else its last owner has removed it meanwhile
