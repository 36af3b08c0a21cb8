"""Inspects a table's folders: sums over the files that count, and a check of every file. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.actors.tables.arrow import pa, pc, pq
from muster.actors.tables.footers import check, read_footer, unreadable
from muster.actors.tables.hours import (
    EXPIRED,
    MERGED,
    SUPERSEDED,
    Hour,
    Manifest,
    TableDamaged,
    hours,
    listing,
    names_in,
)
from muster.actors.tables.rollups.files import folder_of_rollups, rollup_of
from muster.actors.tables.schemas import TABLES
from muster.actors.tables.schemas.samples import SAMPLES

_BATCH_ROWS = 65_536
_SPOOL = "spool"


@dataclass(slots=True)
class Summary:
    """Sums over the files of one table that count."""

    table: str
    rows: int = 0
    files: int = 0
    bytes: int = 0
    oldest_ms: int | None = None
    """By the table's time column; None without rows."""
    newest_ms: int | None = None
    unreadable: int = 0
    """Number of files that are not in the sums."""

    def take(self, oldest_ms: int, newest_ms: int) -> None:
        self.oldest_ms = oldest_ms if self.oldest_ms is None else min(self.oldest_ms, oldest_ms)
        self.newest_ms = newest_ms if self.newest_ms is None else max(self.newest_ms, newest_ms)


def summary(metrics: Path, table: str) -> Summary:
    """Return the table's summary, from footers alone."""
    found = Summary(table)
    time_column = TABLES[table].time_column
    for hour in hours(metrics / table):
        try:
            names = listing(hour.path).live
        except TableDamaged:
            found.unreadable += 1
            continue
        for name in names:
            try:
                check(hour.path / name, table)
                _take_footer(found, hour.path / name, time_column)
            except TableDamaged:
                found.unreadable += 1
            except FileNotFoundError:
                continue  # its grace ended meanwhile
    return found


def _take_footer(found: Summary, path: Path, time_column: str) -> None:
    footer = read_footer(path)
    found.rows += footer.num_rows
    found.files += 1
    found.bytes += path.stat().st_size
    index = next(each for each in range(footer.num_columns) if footer.schema.column(each).path == time_column)
    for group in range(footer.num_row_groups):
        statistics = footer.row_group(group).column(index).statistics
        if statistics is not None and statistics.has_min_max:
            found.take(_ms(statistics.min), _ms(statistics.max))


def verify(metrics: Path, table: str) -> Iterator[TableDamaged]:
    """Every file of the table that is damaged, foreign, or has rows of another hour, even if it does not count.

    Also every roll-up that counts and is damaged, or has other sums than its file.
    """
    known = {hour.path: hour for hour in hours(metrics / table)}
    for path in _not_hours(metrics / table, set(known)):
        yield TableDamaged(path, "is not a folder date=YYYY-MM-DD/hour=HH: no reader looks into it")
    for hour in known.values():
        yield from _verify_hour(hour, table)
        if table == SAMPLES:
            yield from _verify_rollups(hour)


def foreign(metrics: Path) -> Iterator[TableDamaged]:
    """Yield names beside the tables that are no tables, except those that begin with ``_``, like streams', or ``.``."""
    for path in sorted(metrics.iterdir()) if metrics.is_dir() else ():
        if path.name not in TABLES and path.name != _SPOOL and not path.name.startswith(("_", ".")):
            yield TableDamaged(path, "is not a table")


def _not_hours(table: Path, known: set[Path]) -> Iterator[Path]:
    for date in sorted(table.iterdir()) if table.is_dir() else ():
        if not date.name.startswith("date=") or not date.is_dir():
            yield date
            continue
        yield from sorted(path for path in date.iterdir() if path not in known)


def _verify_hour(hour: Hour, table: str) -> Iterator[TableDamaged]:
    try:
        listing(hour.path)
    except TableDamaged as damage:
        yield damage
    for path in sorted(hour.path.iterdir()):
        try:
            _verify_file(path, hour, table)
        except TableDamaged as damage:
            yield damage
        except FileNotFoundError:
            continue  # its grace ended meanwhile


def _verify_rollups(hour: Hour) -> Iterator[TableDamaged]:
    for name in sorted(names_in(folder_of_rollups(hour.path))):
        rollup = rollup_of(hour.path / name)
        if rollup is None:
            continue
        try:
            wrong = _sums(rollup) != _sums(hour.path / name)
        except TableDamaged as damage:
            if damage.path == rollup:
                yield damage
        except FileNotFoundError:
            continue
        else:
            if wrong:
                yield TableDamaged(rollup, "has other sums than its file: remove it")


def _sums(path: Path) -> tuple[int, int]:
    """messages, bytes of all rows; reads all columns. Raises TableDamaged or FileNotFoundError."""
    messages, size_bytes = 0, 0
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for batch in file.iter_batches(_BATCH_ROWS):
                messages += pc.sum(batch.column("messages")).as_py() or 0
                size_bytes += pc.sum(batch.column("bytes")).as_py() or 0
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from error
    return messages, size_bytes


def _verify_file(path: Path, hour: Hour, table: str) -> None:
    if path.name == EXPIRED or path.name.startswith("."):
        return
    if path.name.startswith(SUPERSEDED) and path.suffix == ".json":
        Manifest.read(path)
    elif path.suffix != ".parquet" or path.name.startswith("_"):
        raise TableDamaged(path, f"is not a file of a table ({MERGED}*.parquet, *.parquet)")
    else:
        check(path, table)
        _verify_rows(path, hour, TABLES[table].time_column)


def _verify_rows(path: Path, hour: Hour, time_column: str) -> None:
    """Read all rows, and check the checksums of pages where there are any."""
    outside = 0
    begin, end = (pa.scalar(at_ms, pa.timestamp("ms", tz="UTC")) for at_ms in (hour.start_ms, hour.end_ms))
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for batch in file.iter_batches(_BATCH_ROWS):
                times = batch.column(time_column)
                inside = pc.and_(pc.greater_equal(times, begin), pc.less(times, end))
                outside += len(batch) - (pc.sum(inside).as_py() or 0)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from error
    if outside:
        raise TableDamaged(path, f"{outside} rows are of another hour: readers that ask for theirs do not find them")


def _ms(moment: Any) -> int:
    return int(moment.timestamp() * 1000)
