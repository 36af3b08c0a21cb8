"""Marks on disk of windows that are in memory only. They let the next process report which one SIGKILL lost.

A mark is an empty file, created when the window opens and removed when its rows are in their spool. Its modification
time is when the window opened. The folder that holds the marks of a process is locked like a spool's
(:mod:`muster.actors.tables.folder`), so the window of a living process is never taken for lost.
"""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from muster.actors.tables.folder import SpoolFolder, recover

_log = logging.getLogger(__name__)


class OpenWindows:
    """The windows of one actor's table, in the directory ``<storage>/metrics``. Disk errors are logged, not raised."""

    def __init__(self, directory: Path, table: str, owner: str, *, window_ms: int, now_ms: Callable[[], int]) -> None:
        self._spools = directory / "spool" / f"{table}.open"
        self._table = table
        self._owner = owner
        self._window_ms = window_ms
        self._now_ms = now_ms
        self._numbers = itertools.count(1)
        self._folder: SpoolFolder | None = None

    def open(self) -> Path | None:
        """Mark a window that opens now: creates one file. None if the disk fails."""
        try:
            if self._folder is None:
                self._folder = SpoolFolder.create(self._spools, self._owner, self._now_ms())
            mark = self._folder.open(next(self._numbers))
        except OSError as error:
            _log.error("if this process is killed, no one can say which rows of %s it takes: %s", self._table, error)
            return None
        os.close(mark.fd)
        return mark.path

    def written(self, mark: Path | None) -> None:
        """Remove the mark of a window from ``open``, once its content is safe. Blocks."""
        if mark is None:
            return
        try:
            mark.unlink()
        except OSError as error:
            _log.error("%s stays, though the rows are written: %s", mark, error)

    def say_lost(self) -> None:
        """Log the windows that dead processes of this owner had open, and forget them. Blocks."""
        try:
            recover(self._spools, self._owner, self._say)
        except OSError as error:
            _log.error("it is not known which rows of %s are lost: %s", self._table, error)

    def close(self) -> None:
        """Call once no window is open any more. Blocks."""
        folder, self._folder = self._folder, None
        if folder is None:
            return
        try:
            folder.remove()
        except OSError as error:
            _log.error("%s stays: %s", folder.path, error)
        folder.release()

    def _say(self, folder: SpoolFolder) -> int:
        for mark in folder.spools():
            since_ms = int(mark.stat().st_mtime * 1000)
            _log.warning(
                "%s of %s: the rows of the window from %s, %d ms at most, may be lost: its process was killed (%s)",
                self._table,
                self._owner,
                datetime.fromtimestamp(since_ms / 1000, UTC).isoformat(timespec="milliseconds"),
                self._window_ms,
                folder.path.name,
            )
        return 0
