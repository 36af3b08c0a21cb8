"""Configures Spark for the amount of data to read."""

from __future__ import annotations

from collections.abc import Container, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from muster.actors.tables.rollups.files import rollup_of
from muster.spark.bucket import TablesInBucket, to_ms

_SHORT_BYTES = 16 << 20
_SHORT_ROWS = 500_000
"""Limits above either of which compiled queries and re-planning are worth the seconds that compiling takes. Rows of a
steady group take a byte or two in Parquet, so bytes alone mean little."""
_BYTES_PER_SHUFFLE_PARTITION = 16 << 20
"""Size of a shuffle partition: rows in a sort take about ten times as much. Spark merges partitions that turn out to be
small."""
_MAX_SHUFFLE_PARTITIONS = 200
_BYTES_OF_ROLLUP = 4
"""Bytes of samples that take as much in a shuffle as a byte of a roll-up: its rows hold lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    shuffle_partitions: int
    short_job: bool
    """Argument of :func:`muster.spark.session.raydp_session`."""


def size_of(
    storage: Path | str,
    tables: Iterable[str],
    start: datetime | None,
    end: datetime | None,
    *,
    cores: int,
    history: Container[str] = (),
    rolled_up: Container[str] = (),
) -> Size:
    """Return the size for the tables' files of the hours from ``start`` to ``end`` (None: open); ``cores`` of all
    executors.

    Of the tables in ``history``, all hours up to ``end`` are read; of those in ``rolled_up``, roll-ups of files that
    have one. Of a bucket, footers are not read: it counts a byte for each row.
    """
    if isinstance(storage, str):
        tables_there = TablesInBucket.of(storage)
        times = ((name, None if name in history else to_ms(start), to_ms(end)) for name in tables)
        read_bytes = sum(each.size_bytes for time in times for each in tables_there.objects(*time))
        return _long(read_bytes, cores) if read_bytes > _SHORT_ROWS else Size(shuffle_partitions=1, short_job=True)
    folders = [
        folder
        for name in tables
        for folder in _hours(storage / "metrics" / name, None if name in history else start, end)
    ]
    read_bytes = sum(map(_bytes, folders))
    if read_bytes <= _SHORT_BYTES and _has_few_rows(folders):
        return Size(shuffle_partitions=1, short_job=True)
    rollup_bytes = 0
    for folder in folders:
        if folder.parent.parent.name in rolled_up:
            summed, instead = _rolled_up(folder)
            read_bytes, rollup_bytes = read_bytes - summed + instead, rollup_bytes + instead
    return _long(read_bytes + (_BYTES_OF_ROLLUP - 1) * rollup_bytes, cores)


def _long(unfolded_bytes: int, cores: int) -> Size:
    wanted = min(max(cores, unfolded_bytes // _BYTES_PER_SHUFFLE_PARTITION), _MAX_SHUFFLE_PARTITIONS)
    return Size(shuffle_partitions=wanted, short_job=False)


def _hours(table: Path, start: datetime | None, end: datetime | None) -> list[Path]:
    return [folder for folder in table.glob("date=*/hour=*") if _touches(folder, start, end)]


def _touches(folder: Path, start: datetime | None, end: datetime | None) -> bool:
    try:
        day, hour = (name.partition("=")[2] for name in (folder.parent.name, folder.name))
        begins = datetime.fromisoformat(day).replace(tzinfo=UTC) + timedelta(hours=int(hour))
    except ValueError:  # not a folder of ours
        return False
    return (start is None or begins + timedelta(hours=1) > start) and (end is None or begins < end)


def _bytes(folder: Path) -> int:
    total = 0
    for file in folder.glob("*.parquet"):
        try:
            total += file.stat().st_size
        except FileNotFoundError:  # compacted or expired meanwhile
            continue
    return total


def _rolled_up(folder: Path) -> tuple[int, int]:
    """Return the bytes of those files that have roll-ups, and of these roll-ups."""
    summed = instead = 0
    for file in folder.glob("*.parquet"):
        with suppress(FileNotFoundError):
            if (rollup := rollup_of(file)) is not None:
                of_rollup = rollup.stat().st_size
                summed, instead = summed + file.stat().st_size, instead + of_rollup
    return summed, instead


def _has_few_rows(folders: Iterable[Path]) -> bool:
    """Judge by the files' footers; an unreadable file counts as empty, since reading it will report the error."""
    total = 0
    for folder in folders:
        for file in folder.glob("*.parquet"):
            with suppress(OSError, pa.ArrowException):
                total += pq.read_metadata(file).num_rows
            if total > _SHORT_ROWS:
                return False
    return True
