"""Reads a table in the bucket with pyarrow, as :mod:`muster.actors.tables.reading` does on files."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from muster.actors.object_storage.store import NoSuchObject, ObjectStore
from muster.actors.tables.arrow import pa, pc, pq
from muster.actors.tables.bucket.hours import BucketHour, hours, listing
from muster.actors.tables.footers import check_metadata, unreadable
from muster.actors.tables.hours import TableDamaged

_AT_ONCE = 4
"""Objects that are read at once; each is in memory as a whole."""


@dataclass(frozen=True, slots=True)
class TableObject:
    """An object with rows that count."""

    name: str
    start_ms: int
    """Of its hour."""
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
    found: Sequence[TableObject],
    schema: pa.Schema,
    columns: Sequence[str],
    condition: pc.Expression,
) -> pa.Table:
    """Return the rows of the objects that meet the condition. Raises TableDamaged, Unavailable or Refused."""
    limit = asyncio.Semaphore(_AT_ONCE)

    async def rows(each: TableObject) -> pa.Table:
        async with limit:
            try:
                content = (await store.read(each.name)).content
            except NoSuchObject as error:
                raise TableDamaged(each.name, "is gone: it was compacted or expired while it was read") from error
            return _rows(content, each.name, table, schema, columns, condition)

    parts = await asyncio.gather(*(rows(each) for each in found))
    return pa.concat_tables([schema.empty_table().select(list(columns)), *parts])


def _rows(
    content: bytes, name: str, table: str, schema: pa.Schema, columns: Sequence[str], condition: pc.Expression
) -> pa.Table:
    try:
        check_metadata(name, pq.read_metadata(pa.BufferReader(content)), table)
        source = pa.BufferReader(content)
        rows = pq.read_table(source, schema=schema, columns=list(columns), filters=condition)
    except (pa.ArrowException, OSError) as error:
        raise unreadable(name, error) from error
    return rows.replace_schema_metadata(schema.metadata)
