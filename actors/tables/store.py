"""Common base of all stores of a table: a spool in front of Parquet files, so SIGKILL loses nothing.

What is added is written to a spool file with one ``write`` before the caller continues; the page cache keeps it when
the process is killed (a power loss may lose the last seconds). A flush seals the spool, writes its rows as Parquet
under a name derived from the spool's, and removes the spool. So a spool and its Parquet files have the same content,
and the next process of the same owner can repeat that step, or do it for the first time, with the same result::

    spool/.../<owner>-<run>/lock           held (flock) as long as the process lives
    spool/.../<owner>-<run>/00000001.jsonl, for samples with 00000001.slots beside it
    <table>/date=.../hour=.../<owner>-<run>-00000001.parquet
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from muster.actors.tables.folder import SpoolFile, SpoolFolder, recover

_log = logging.getLogger(__name__)
T = TypeVar("T")

AT_CLOSE: dict[Path, Callable[[str], None]] = {}
"""For a directory of tables: what is called with the owner of a store in it that is closed."""


@dataclass(slots=True)
class Spool(Generic[T]):
    """A spool file, and the rows of its lines."""

    rows: T
    file: SpoolFile | None
    """None: the disk refused the file, so what was added is in memory only until the next flush."""
    pending: int = 0
    """Number of lines that a later spool settles; until then the file stays."""
    written: bool = False

    def append(self, lines: bytes) -> None:
        if self.file is not None:
            self.file.append(lines)


class SpooledStore(ABC, Generic[T]):
    """``flush`` and ``close`` write files; call them in an executor. All methods are thread-safe.

    ``table`` is the table's directory, ``spools`` the one with the folders of this owner's processes. Nothing is on
    disk until something is added. Every flush recovers spools of dead processes of the same owner, after its own ones.
    """

    def __init__(self, table: Path, spools: Path, owner: str, *, now_ms: Callable[[], int]) -> None:
        self._table = table
        self._spools = spools
        self._owner = owner
        self._now_ms = now_ms
        self._flushing = threading.Lock()
        self._lock = threading.Lock()  # guards the state that adding and sealing share; held for microseconds
        self._sequence = itertools.count(1)
        self._folder: SpoolFolder | None = None
        self._current: Spool[T] | None = None
        self._sealed: deque[Spool[T]] = deque()
        self._closed = False
        self._removed = False

    @abstractmethod
    def _none(self) -> T:
        """Rows of an empty spool."""

    @abstractmethod
    def _count(self, rows: T) -> int:
        """Return the number of rows."""

    @abstractmethod
    def _write(self, name: str, rows: T) -> int:
        """Write the table's files of that name, unless they exist. Returns the rows written. Raises OSError."""

    @abstractmethod
    def _settle(self, folder: SpoolFolder) -> int:
        """Write what a dead process left. Returns the rows written. Can be repeated. Raises OSError."""

    def _decide_pending(self) -> None:
        """Settle what is pending: called before the last flush, with the lock held."""

    def _before_seal(self) -> None:
        """Prepare to seal the current spool; called with the lock held."""

    def _on_sealed(self, rows: T) -> None:
        """Take every spool of this process once, after the last row is added, in the thread that flushes."""

    def flush(self) -> int:
        """Write everything that is settled, and what dead processes left, into the table. Returns the rows written.

        On OSError nothing is lost: the next flush tries again.
        """
        with self._flushing:
            return self._flush()

    def close(self) -> None:
        """Accept no more rows, flush, and remove the spool. Idempotent; can be repeated after OSError."""
        with self._flushing:
            if self._removed:
                return
            with self._lock:
                self._decide_pending()
                self._closed = True
            self._flush()
            if self._folder is not None:
                self._folder.remove()
                self._folder.release()
            self._removed = True
        if (at_close := AT_CLOSE.get(self._table.parent)) is not None:
            at_close(self._owner)

    def recover(self) -> int:
        """Write what dead processes of this owner left into the table. Returns the rows written. Raises OSError."""
        return recover(self._spools, self._owner, self._settle)

    def _writable(self) -> Spool[T]:
        """Return the spool to add to, with the lock held.

        Raises ValueError after ``close``, nothing for a full disk.
        """
        if self._closed:
            raise ValueError(f"the store of {self._table.name} is closed")
        if self._current is None:
            self._current = Spool(self._none(), self._open_or_none())
        return self._current

    def _open_or_none(self) -> SpoolFile | None:
        try:
            return self._open_next()
        except OSError as error:
            _log.error("%s of %s are in memory only until the next flush: %s", self._table.name, self._owner, error)
            return None

    def _open_next(self) -> SpoolFile:
        return self._own_folder().open(next(self._sequence))

    def _own_folder(self) -> SpoolFolder:
        if self._folder is None:
            self._folder = SpoolFolder.create(self._spools, self._owner, self._now_ms())
        return self._folder

    def _flush(self) -> int:
        self._seal()
        rows = 0
        for spool in self._sealed:
            if not spool.written:
                rows += self._write(self._name_of(spool), spool.rows)
                spool.written = True
                spool.rows = self._none()
        while self._sealed and self._sealed[0].written and not self._sealed[0].pending:
            done = self._sealed.popleft().file
            if done is not None:
                done.remove()
        return rows + self.recover()

    def _name_of(self, spool: Spool[T]) -> str:
        if spool.file is None:
            spool.file = self._open_next()  # only to reserve its name
            os.close(spool.file.fd)
        return self._own_folder().name_of(spool.file.path)

    def _seal(self) -> None:
        with self._lock:
            full = self._current
            if full is None or not self._count(full.rows):
                return
            self._before_seal()
            self._current = None
            self._sealed.append(full)
        if full.file is not None:
            os.close(full.file.fd)
        self._on_sealed(full.rows)
