"""Reads a table in the bucket with pyarrow, as :mod:`muster.actors.tables.reading` does on files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from muster.actors.object_storage.blocking import wait_for
from muster.actors.object_storage.location import Location
from muster.actors.object_storage.store import NoSuchObject, ObjectStorageError, ObjectStore
from muster.actors.tables.arrow import pa, pc, pq
from muster.actors.tables.bucket.hours import BucketHour, hours, listing
from muster.actors.tables.footers import check_metadata, unreadable
from muster.actors.tables.hours import TableDamaged
from muster.actors.tables.schemas import TABLES

T = TypeVar("T")
_AT_ONCE = 4
"""Objects that are read at once; each is in memory as a whole."""


@dataclass(frozen=True, slots=True)
class TableObject:
    """An object with rows that count."""

    name: str
    start_ms: int
    """Start of its hour."""
    size_bytes: int


async def objects(
    store: ObjectStore, table: str, start_ms: int | None = None, end_ms: int | None = None
) -> list[TableObject]:
    """Return the objects with the table's rows of the hours that overlap [start, end), each row once; hours in order.

    The list is valid for ``metrics.compaction.grace.ms``. Raises TableDamaged, Unavailable or Refused.
    """
    limit = asyncio.Semaphore(_AT_ONCE)

    async def of_hour(hour: BucketHour) -> list[TableObject]:
        async with limit:
            listed, found = await listing(store, hour)
        return [TableObject(hour.prefix + name, hour.start_ms, listed.sizes[name]) for name in found.live]

    parts = await asyncio.gather(*(of_hour(hour) for hour in await hours(store, table, start_ms, end_ms)))
    return [each for part in parts for each in part]


async def read_objects(
    store: ObjectStore,
    table: str,
    names: Iterable[str],
    columns: Sequence[str],
    condition: pc.Expression,
) -> pa.Table:
    """Return the rows of the objects that meet the condition. Raises TableDamaged, Unavailable or Refused."""
    limit = asyncio.Semaphore(_AT_ONCE)

    async def rows(name: str) -> pa.Table:
        async with limit:
            try:
                content = (await store.read(name)).content
            except NoSuchObject as error:
                raise TableDamaged(name, "is gone: it was compacted or expired while it was read") from error
            return _rows(content, name, table, columns, condition)

    parts = await asyncio.gather(*(rows(name) for name in names))
    return pa.concat_tables([TABLES[table].arrow.empty_table().select(list(columns)), *parts])


def _rows(content: bytes, name: str, table: str, columns: Sequence[str], condition: pc.Expression) -> pa.Table:
    schema = TABLES[table].arrow
    try:
        check_metadata(name, pq.read_metadata(pa.BufferReader(content)), table)
        source = pa.BufferReader(content)
        rows = pq.read_table(source, schema=schema, columns=list(columns), filters=condition)
    except (pa.ArrowException, OSError) as error:
        raise unreadable(name, error) from error
    return rows.replace_schema_metadata(schema.metadata)


class TableInBucket:
    """A table in the bucket, for an actor's threads. All methods raise OSError if the bucket does not respond."""

    def __init__(self, location: Location, table: str) -> None:
        """Connect to nothing yet."""
        self._location = location
        self._table = table
        self._opened: ObjectStore | None = None

    def hours(self, start_ms: int | None, end_ms: int | None) -> Mapping[int, BucketHour]:
        """Return the hours that overlap [start, end), by their beginning."""
        found = self._wait_for(lambda store: hours(store, self._table, start_ms, end_ms))
        return {hour.start_ms: hour for hour in found}

    def live(self, hour: BucketHour) -> tuple[str, tuple[str, ...]]:
        """Return the beginning of the names of its objects, and the rest of those that count. Raises TableDamaged."""
        listed, found = self._wait_for(lambda store: listing(store, hour))
        return listed.prefix, found.live

    def read(self, names: Iterable[str], columns: Sequence[str], condition: pc.Expression) -> pa.Table:
        """Return the rows of the objects that meet the condition. Raises TableDamaged."""
        return self._wait_for(lambda store: read_objects(store, self._table, names, columns, condition))

    def _wait_for(self, request: Callable[[ObjectStore], Coroutine[Any, Any, T]]) -> T:
        try:
            if self._opened is None:
                self._opened = open_store(self._location)
            return wait_for(request(self._opened))
        except ObjectStorageError as error:
            raise OSError(str(error)) from error


def open_store(location: Location) -> ObjectStore:
    """Connect to nothing yet. Raises Refused."""
    from muster.actors.object_storage.bucket import Bucket  # with obstore, which only clusters on a bucket need

    return ObjectStore(Bucket(location))
