"""Reads a table with pyarrow; :mod:`muster.spark.tables` does the same for Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import overload

from muster.actors.object_storage.blocking import wait_for
from muster.actors.object_storage.location import Location
from muster.actors.tables.arrow import pa, pc, pq
from muster.actors.tables.bucket.reading import objects, open_store, read_objects
from muster.actors.tables.footers import check, unreadable
from muster.actors.tables.hours import TableDamaged, hours, listing
from muster.actors.tables.schemas import TABLES

__all__ = ["TableDamaged", "files", "folder_of", "place_of", "read"]

BUCKET = ".bucket"
"""File beside the tables of a node with the URI of the bucket to which they move."""


def folder_of(storage: Path, table: str) -> Path:
    """Return the folder of a table below ``storage.path``."""
    return storage / "metrics" / table


def place_of(storage: Path) -> Path | str:
    """Return where the tables of the cluster with that directory are, for ``read``: there, or the URI of its bucket."""
    try:
        return (storage / "metrics" / BUCKET).read_text()
    except FileNotFoundError:
        return storage


@overload
def files(storage: Path, table: str, start_ms: int | None = None, end_ms: int | None = None) -> list[Path]: ...


@overload
def files(storage: str, table: str, start_ms: int | None = None, end_ms: int | None = None) -> list[str]: ...


def files(
    storage: Path | str, table: str, start_ms: int | None = None, end_ms: int | None = None
) -> list[Path] | list[str]:
    """Return the files with the table's rows of the hours that overlap [start, end), each row once; hours in order.

    ``storage``: ``storage.path``, a path or the URI of a bucket; then the files are URIs, too. Superseded files are not
    among them, so the list is valid for ``metrics.compaction.grace.ms``. Raises TableDamaged, which names a file that
    cannot be read; of a bucket, NotALocation or ObjectStorageError, and files are checked only when they are read.
    """
    if isinstance(storage, str):
        location = Location.parse(storage)
        named = wait_for(objects(open_store(location), table, start_ms, end_ms))
        return [f"{location}/{each.name}" for each in named]
    found = []
    for hour in hours(folder_of(storage, table), start_ms, end_ms):
        for name in listing(hour.path).live:
            check(hour.path / name, table)
            found.append(hour.path / name)
    return found


def read(
    storage: Path | str,
    table: str,
    start_ms: int | None = None,
    end_ms: int | None = None,
    *,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Return the table's rows in [start, end) of its time column, in no order. Null where an older file lacks a column.

    ``storage``: ``storage.path``, a path or the URI of a bucket. Raises TableDamaged, which names a file that cannot be
    read; of a bucket, NotALocation or ObjectStorageError.
    """
    schema = TABLES[table]
    time = pc.field(schema.time_column)
    within = pc.scalar(True)
    if start_ms is not None:
        within &= time >= _moment(start_ms)
    if end_ms is not None:
        within &= time < _moment(end_ms)
    wanted = schema.names if columns is None else list(columns)
    if isinstance(storage, str):
        return wait_for(_read_bucket(Location.parse(storage), table, start_ms, end_ms, wanted, within))
    found = files(storage, table, start_ms, end_ms)
    try:
        return read_files([str(path) for path in found], schema.arrow, wanted, within)
    except (pa.ArrowException, OSError) as error:
        raise _damage(found, error) from error


def read_files(paths: Sequence[str], schema: pa.Schema, columns: Sequence[str], condition: pc.Expression) -> pa.Table:
    """Return the rows of the files that meet the condition.

    Raises ArrowException or OSError if a file cannot be read.
    """
    if not paths:
        return schema.empty_table().select(list(columns))
    return pq.read_table(list(paths), schema=schema, columns=list(columns), filters=condition, partitioning=None)


async def _read_bucket(
    location: Location,
    table: str,
    start_ms: int | None,
    end_ms: int | None,
    columns: Sequence[str],
    condition: pc.Expression,
) -> pa.Table:
    store = open_store(location)
    names = [each.name for each in await objects(store, table, start_ms, end_ms)]
    return await read_objects(store, table, names, columns, condition)


def _moment(at_ms: int) -> pa.Scalar:
    return pa.scalar(at_ms, pa.timestamp("ms", tz="UTC"))


def _damage(found: Sequence[Path], error: Exception) -> Exception:
    """Return TableDamaged for the first file that cannot be read by itself, else the error that was raised."""
    for path in found:
        try:
            pq.read_table(path, partitioning=None)
        except (pa.ArrowException, OSError) as damage:
            return unreadable(path, damage)
    return error
