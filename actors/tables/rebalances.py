"""The table ``rebalances``: ended rebalances of one offsets partition, durable across SIGKILL, and read again.

As with samples, every entry is one ``write`` to a spool before :meth:`RebalanceStore.add` returns, and a spool and the
Parquet files that are made of it say the same::

    spool/offsets-<partition>-<run>/lock           held (flock) as long as the process lives
    spool/offsets-<partition>-<run>/00000001.jsonl
    rebalances/date=.../hour=.../offsets-<partition>-<run>-00000001.parquet

There is nothing on disk until the first rebalance has ended, and no file without a row.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from actors.group.journal_entry import RebalanceEntry
from actors.tables.folder import SpoolFile, SpoolFolder, recover, spool_files
from actors.tables.parquet import write_whole
from actors.tables.rollup import hour_folder
from actors.tables.schemas.rebalances import REBALANCES, REBALANCES_SCHEMA, REBALANCES_VERSION

MOST_FILES_READ = 1_000
"""How many Parquet files :meth:`RebalanceStore.recent` looks into at most, newest hours first."""

_log = logging.getLogger(__name__)
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_TIMES = ("began", "joined", "stable", "ended")


def encode(entry: RebalanceEntry) -> bytes:
    """``to_json`` and the version of the schema, as bytes without a line end."""
    return _encode({"v": REBALANCES_VERSION, **entry.to_json()}).encode()


@dataclass(slots=True)
class _Spool:
    file: SpoolFile
    entries: list[RebalanceEntry] = field(default_factory=list)


class RebalanceStore:
    """The rebalances of one offsets partition, in the directory ``<storage>/metrics``.

    ``add`` is for the event loop: one ``write`` to the page cache, which never raises for a full disk (the entry is
    then safe only once it is flushed). The other methods read and write files; call them through an executor. All are
    thread-safe. Spools of dead processes of the same partition are recovered by ``flush``.
    """

    def __init__(self, directory: Path, partition: int, *, now_ms: Callable[[], int]) -> None:
        self._table = directory / REBALANCES
        self._spools = directory / "spool"
        self._owner = f"offsets-{partition}"
        self._now_ms = now_ms
        self._flushing = threading.Lock()
        self._lock = threading.Lock()  # guards what add() and rotation share; held for microseconds
        self._sequence = itertools.count(1)
        self._folder: SpoolFolder | None = None
        self._current: _Spool | None = None
        self._sealed: list[_Spool] = []
        self._closed = False

    def add(self, entry: RebalanceEntry, encoded: bytes) -> None:
        """Keep an entry that has ended, and what ``encode`` made of it. ValueError after ``close``.

        OSError if the spool cannot be created: the entry is not kept.
        """
        with self._lock:
            if self._closed:
                raise ValueError("the store of rebalances is closed")
            if self._current is None:
                self._current = self._open_next()
            self._current.file.append(encoded + b"\n")
            self._current.entries.append(entry)

    def flush(self) -> int:
        """Bring everything into the table, also what dead processes left; the rows written.

        On OSError nothing is lost: the next flush tries again.
        """
        with self._flushing:
            return self._flush()

    def close(self) -> None:
        """Flush, and remove the spool. Idempotent."""
        with self._flushing:
            if self._closed:
                return
            with self._lock:
                self._closed = True
            self._flush()
            if self._folder is not None:
                self._folder.remove()
                self._folder.release()

    def recent(self, group: str, limit: int) -> list[RebalanceEntry]:
        """The group's last entries of every coordinator that this partition has had, newest first."""
        found = {entry.key: entry for entry in self._spooled() if entry.group == group}  # before the table: see flush
        for entry in self._stored(group, limit - len(found)):
            found.setdefault(entry.key, entry)
        return sorted(found.values(), key=lambda entry: entry.key, reverse=True)[:limit]

    def _flush(self) -> int:
        rows = 0
        with self._lock:
            if self._current is not None:
                self._sealed.append(self._current)
                self._current = None
        while self._sealed:
            spool = self._sealed[0]
            assert self._folder is not None
            rows += _write(self._table, self._folder.name_of(spool.file.path), spool.entries)
            spool.file.path.unlink()
            os.close(spool.file.fd)
            del self._sealed[0]
        return rows + recover(self._spools, self._owner, self._settle)

    def _settle(self, folder: SpoolFolder) -> int:
        rows = sum(_write(self._table, folder.name_of(path), _read(path)) for path in folder.spools())
        if rows:
            _log.info("recovered %d rows of rebalances from %s", rows, folder.path)
        return rows

    def _open_next(self) -> _Spool:
        if self._folder is None:
            self._folder = SpoolFolder.create(self._spools, self._owner, self._now_ms())
        return _Spool(self._folder.open(next(self._sequence)))

    def _spooled(self) -> Iterator[RebalanceEntry]:
        for folder in sorted(self._spools.glob(f"{self._owner}-*")):
            for path in spool_files(folder):
                try:
                    yield from _read(path)
                except FileNotFoundError:
                    continue  # its Parquet file is there by now

    def _stored(self, group: str, wanted: int) -> Iterator[RebalanceEntry]:
        """At least ``wanted``, if there are as many, newest hours first; whole hours."""
        files_left = MOST_FILES_READ
        for folder in sorted(self._table.glob("date=*/hour=*"), reverse=True):
            files = sorted(folder.glob(f"{self._owner}-*.parquet"), reverse=True)[:files_left]
            if wanted <= 0 or not files_left:
                return
            if not files:
                continue
            files_left -= len(files)
            dataset = ds.dataset([str(file) for file in files], schema=REBALANCES_SCHEMA, format="parquet")
            for entry in _to_entries(dataset.to_table(filter=ds.field("group") == group)):
                wanted -= 1
                yield entry


def _read(path: Path) -> list[RebalanceEntry]:
    """The entries of a spool file. Lines that do not parse were torn by a kill or a full disk: a warning each."""
    entries = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            values = json.loads(line)
            if values["v"] != REBALANCES_VERSION:
                raise ValueError(f"version {values['v']}")
            entries.append(RebalanceEntry.from_json(values))
        except (ValueError, TypeError, KeyError):
            _log.warning("%s: line %d is torn and dropped", path, number)
    return entries


def _write(table: Path, name: str, entries: Iterable[RebalanceEntry]) -> int:
    """Write ``<table>/<date and hour folder>/<name>.parquet``; the rows. A file that is there is whole and the same."""
    folders: dict[str, list[RebalanceEntry]] = {}
    for entry in entries:
        folders.setdefault(hour_folder(entry.ended_ms), []).append(entry)
    rows = 0
    for folder, held in folders.items():
        target = table / folder / f"{name}.parquet"
        if not target.exists():
            write_whole(pa.Table.from_pylist([_row(entry) for entry in held], schema=REBALANCES_SCHEMA), target)
            rows += len(held)
    return rows


def _row(entry: RebalanceEntry) -> dict[str, Any]:
    values = entry.to_json()
    for name in _TIMES:
        values[name] = values.pop(f"{name}_ms")
    return values


def _to_entries(table: pa.Table) -> Iterator[RebalanceEntry]:
    for name in _TIMES:
        index = table.schema.get_field_index(name)
        table = table.set_column(index, f"{name}_ms", table.column(index).cast(pa.int64()))
    for values in table.to_pylist():
        try:
            yield RebalanceEntry.from_json(values)
        except (ValueError, TypeError, KeyError):
            _log.warning("a row of %s is of another version and left out", REBALANCES)
