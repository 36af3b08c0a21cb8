"""The table ``rebalances``: ended rebalances of one offsets partition, durable across SIGKILL, and readable here.

A line of the spool (``spool/offsets-<partition>-<run>/``, see :mod:`muster.actors.tables.store`) is the result of
:func:`encode`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from muster.actors.object_storage.location import Location
from muster.actors.tables.arrow import pa, pc
from muster.actors.tables.bucket.hours import FOLDER
from muster.actors.tables.bucket.reading import TableInBucket
from muster.actors.tables.events import Row, RowStore
from muster.actors.tables.folder import spool_files
from muster.actors.tables.hours import HOUR_MS, MERGED, Hour, TableDamaged, hours, listing
from muster.actors.tables.reading import read_files
from muster.actors.tables.rebalance_entry import RebalanceEntry
from muster.actors.tables.schemas.rebalances import REBALANCES, REBALANCES_SCHEMA, REBALANCES_VERSION

Place = tuple[int, int, int]
"""Leader epoch, ``ended_ms``, number."""
MAX_FILES_READ = 1_000
"""Maximum number of Parquet files that :meth:`RebalanceStore.recent` reads, newest hours first."""

_log = logging.getLogger(__name__)
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_TIMES = ("began", "joined", "stable", "ended")
_TIMES_MS = tuple(f"{name}_ms" for name in _TIMES)


def encode(entry: RebalanceEntry) -> bytes:
    """``to_json`` and the version of the schema, as bytes without a line end."""
    return _encode({"v": REBALANCES_VERSION, **entry.to_json()}).encode()


def place_of(entry: RebalanceEntry) -> Place:
    """Return the entry's place in the order in which a partition's rebalances ended."""
    return entry.epoch, entry.ended_ms, entry.number


class RebalanceStore(RowStore):
    """The rebalances of one offsets partition, in the directory ``<storage>/metrics``.

    ``add`` is for the event loop: one ``write`` to the page cache, which never raises for a full disk (the entry is
    then safe only once it is flushed). The other methods read and write files; call them in an executor. All are
    thread-safe. ``flush`` recovers spools of dead processes of the same partition.
    """

    def __init__(
        self, directory: Path, partition: int, *, now_ms: Callable[[], int], bucket: Location | None = None
    ) -> None:
        """``bucket``: where finished files are moved to, and where those of other nodes are."""
        self._partition = partition
        self._bucket = None if bucket is None else TableInBucket(bucket, REBALANCES)
        owner = f"offsets-{partition}"
        super().__init__(directory, REBALANCES, owner, spools=directory / "spool", now_ms=now_ms)

    def add(self, entry: RebalanceEntry, encoded: bytes) -> None:
        """Keep an entry that has ended, and its bytes from ``encode``. Raises ValueError after ``close``."""
        self._keep([_row(entry.to_json())], encoded + b"\n")

    def recent(self, group: str, limit: int) -> list[RebalanceEntry]:
        """Return the group's last entries from all coordinators that this partition has had, newest first."""
        found = {entry.key: entry for entry in self._spooled() if entry.group == group}  # before the table: see flush
        try:
            for entry in self._stored(group, limit - len(found)):
                found.setdefault(entry.key, entry)
        except OSError as error:
            if self._bucket is None:
                raise
            _log.warning("the history of rebalances has only what is on this node: %s", error)
        return sorted(found.values(), key=lambda entry: entry.key, reverse=True)[:limit]

    def ended(self, after: Place, until: Place, limit: int) -> list[RebalanceEntry]:
        """Return the first entries of all groups after the one place, and up to the other: at most ``limit``.

        Clocks of coordinators may differ by an hour.
        """
        found = {entry.key: entry for entry in self._spooled()}  # before the table: see flush
        stored, is_enough = 0, False
        start_ms, end_ms = after[1] - HOUR_MS, until[1] + HOUR_MS
        epochs = (pc.field("epoch") >= after[0]) & (pc.field("epoch") <= until[0])
        ours = epochs & (pc.field("offsets_partition") == self._partition)
        for files in self._parts(start_ms, end_ms):
            if files and not is_enough:
                is_enough = stored >= limit  # this hour is one more
                for entry in self._entries(files, ours):
                    stored += after < place_of(entry) <= until
                    found.setdefault(entry.key, entry)
        within = [entry for entry in found.values() if after < place_of(entry) <= until]
        return sorted(within, key=place_of)[:limit]

    def _row_of(self, values: dict[str, Any]) -> Row:
        return _row(RebalanceEntry.from_json(values).to_json())

    def _spooled(self) -> Iterator[RebalanceEntry]:
        for folder in sorted(self._spools.glob(f"{self._owner}-*")):
            for path in spool_files(folder):
                try:
                    rows, _ = self._read(path)
                except FileNotFoundError:
                    continue  # its Parquet file exists by now
                yield from map(_entry, rows)

    def _stored(self, group: str, wanted: int) -> Iterator[RebalanceEntry]:
        """At least ``wanted`` entries, if there are that many, newest hours first; whole hours."""
        files_left = MAX_FILES_READ
        ours = (pc.field("group") == group) & (pc.field("offsets_partition") == self._partition)
        for files in self._parts(newest_first=True):
            if wanted <= 0 or not files_left:
                return
            if not files:
                continue
            files = files[:files_left]
            files_left -= len(files)
            for entry in self._entries(files, ours):
                wanted -= 1
                yield entry

    def _parts(
        self, start_ms: int | None = None, end_ms: int | None = None, *, newest_first: bool = False
    ) -> Iterator[list[str]]:
        """Yield, for each hour, the files that may have rows of this partition: paths, and names in the bucket."""
        found = sorted(hours(self._table, start_ms, end_ms), key=lambda hour: hour.start_ms, reverse=newest_first)
        if self._bucket is None:
            yield from map(self._files, found)
            return
        here = {hour.start_ms: self._files(hour) for hour in found}  # before the bucket, to which they move
        try:
            there = self._bucket.hours(start_ms, end_ms)
        except OSError:
            yield from here.values()
            raise
        for begins_ms in sorted({*here, *there}, reverse=newest_first):
            files = here.get(begins_ms, [])
            if begins_ms in there:
                try:
                    prefix, live = self._bucket.live(there[begins_ms])
                    files += (prefix + name for name in self._ours(live))
                except TableDamaged as damage:
                    _say_left_out(damage)
            yield files

    def _files(self, hour: Hour) -> list[str]:
        try:
            return [str(hour.path / name) for name in self._ours(listing(hour.path).live)]
        except TableDamaged as damage:
            _say_left_out(damage)
            return []

    def _ours(self, names: Iterable[str]) -> list[str]:
        return sorted((name for name in names if name.startswith((f"{self._owner}-", MERGED))), reverse=True)

    def _entries(self, files: Sequence[str], condition: pc.Expression) -> Iterator[RebalanceEntry]:
        """Yield the entries in files of :meth:`_parts`; some twice, if a file was moved to the bucket meanwhile."""
        schema = REBALANCES_SCHEMA
        if self._bucket is None:
            yield from _to_entries(read_files(files, schema.arrow, schema.names, condition))
            return
        names = [file for file in files if file.startswith(FOLDER)]
        for path in (Path(file) for file in files if not file.startswith(FOLDER)):
            try:
                yield from _to_entries(read_files([str(path)], schema.arrow, schema.names, condition))
            except FileNotFoundError:
                names.append(FOLDER + path.relative_to(self._table.parent).as_posix())
        yield from _to_entries(self._bucket.read(names, schema.names, condition))


def _say_left_out(damage: TableDamaged) -> None:
    _log.warning("left out of the history of rebalances: %s", damage)


def _row(values: dict[str, Any]) -> Row:
    """Return the row for a ``RebalanceEntry.to_json``, whose times have their unit in their names."""
    return {name.removesuffix("_ms") if name in _TIMES_MS else name: value for name, value in values.items()}


def _entry(row: Row) -> RebalanceEntry:
    return RebalanceEntry.from_json({f"{name}_ms" if name in _TIMES else name: value for name, value in row.items()})


def _to_entries(table: pa.Table) -> Iterator[RebalanceEntry]:
    for name in _TIMES:
        index = table.schema.get_field_index(name)
        table = table.set_column(index, name, table.column(index).cast(pa.int64()))
    for row in table.to_pylist():
        try:
            yield _entry(row)
        except (ValueError, TypeError, KeyError):
            _log.warning("a row of %s is of another version and left out", REBALANCES)
