"""Rows of any table except ``samples``, durable across SIGKILL (:mod:`muster.actors.tables.store`).

A line of the spool is the row as a JSON object, with the version of the table's schema under ``v``. Spools are in
``spool/<table>/``, since an actor writes more than one table.
"""

from __future__ import annotations

import json
import logging
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from muster.actors.tables.folder import SpoolFolder, read_lines
from muster.actors.tables.parquet import write_rows
from muster.actors.tables.schemas import TABLES
from muster.actors.tables.store import SpooledStore

MAX_ROWS_HELD = 100_000
"""Maximum number of rows in memory of a store whose flushes fail; rows beyond it are lost, which is logged."""

_log = logging.getLogger(__name__)
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode

Row = dict[str, Any]
"""A row of a table: values by column, times as ms since the epoch."""


class RowStore(SpooledStore[list[Row]]):
    """Base class of stores in which each line is one row."""

    def __init__(self, directory: Path, table: str, owner: str, *, spools: Path, now_ms: Callable[[], int]) -> None:
        super().__init__(directory / table, spools, owner, now_ms=now_ms)
        self._schema = TABLES[table]
        self._time_column = self._schema.time_column
        self._version = self._schema.version
        self._held = 0
        self._dropped = 0

    @abstractmethod
    def _row_of(self, values: dict[str, Any]) -> Row:
        """Return the row of a line. Raises ValueError, TypeError or KeyError if it has none."""

    def _keep(self, rows: Sequence[Row], lines: bytes) -> None:
        """Keep rows, at least one, with one write."""
        with self._lock:
            spool = self._writable()
            if self._held >= MAX_ROWS_HELD:
                self._dropped += len(rows)
                return
            self._held += len(rows)
            spool.append(lines)
            spool.rows += rows

    def _read(self, path: Path) -> tuple[list[Row], int]:
        """Return the rows of a spool file, and how many of its lines are known to be missing."""
        lines, lost = read_lines(path)
        rows = []
        for values in lines:
            try:
                if values.pop("v") != self._version:
                    raise ValueError("another version")
                rows.append(self._row_of(values))
            except (ValueError, TypeError, KeyError, AttributeError):
                lost += 1
        return rows, lost

    def _none(self) -> list[Row]:
        return []

    def _count(self, rows: list[Row]) -> int:
        return len(rows)

    def _write(self, name: str, rows: list[Row]) -> int:
        written = write_rows(self._table, name, self._schema, rows)
        with self._lock:
            self._held -= len(rows)
            dropped, self._dropped = self._dropped, 0
        if dropped:
            _log.error("%d rows of %s are lost: the disk refused others for too long", dropped, self._table.name)
        return written

    def _settle(self, folder: SpoolFolder) -> int:
        written = 0
        for path in folder.spools():
            rows, lost = self._read(path)
            if lost:
                times = (row[self._time_column] for row in rows)
                folder.say_lost(path, lost, min((at_ms for at_ms in times if isinstance(at_ms, int)), default=None))
            written += write_rows(self._table, folder.name_of(path), self._schema, rows)
        if written:
            _log.info("recovered %d rows of %s from %s", written, self._table.name, folder.path)
        return written


class EventStore(RowStore):
    """The rows that one actor writes to one table, in the directory ``<storage>/metrics``.

    ``owner`` is the actor's name (``offsets-3``, ``log-0``, ``controller``): file names begin with it, and spools of
    the same owner are recovered. ``now_ms`` distinguishes runs of one owner.
    """

    def __init__(self, directory: Path, table: str, owner: str, *, now_ms: Callable[[], int]) -> None:
        super().__init__(directory, table, owner, spools=directory / "spool" / table, now_ms=now_ms)
        self._names = frozenset(self._schema.names)
        self._required = self._schema.required

    def add(self, *rows: Mapping[str, Any]) -> None:
        """Keep rows: one ``write`` to the page cache. For the event loop; never raises for a full disk.

        Nullable columns may be missing. Values are not checked until they are flushed; a row whose values do not have
        the types of its columns is dropped then, with an error in the log. Raises ValueError for a column that the
        table does not have, for one that is missing, and after ``close``.
        """
        for row in rows:
            if not self._required <= row.keys() <= self._names:
                wrong = sorted(self._required - row.keys() | row.keys() - self._names)
                raise ValueError(f"columns of {self._table.name} are missing or unknown: {', '.join(wrong)}")
        lines = "".join([f'{{"v":{self._version},{_encode(row)[1:]}\n' for row in rows])
        self._keep([dict(row) for row in rows], lines.encode())

    def _row_of(self, values: dict[str, Any]) -> Row:
        if not self._required <= values.keys():
            raise KeyError(values)
        return values
