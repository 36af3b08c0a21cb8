"""Merges files of a table into one. :mod:`muster.actors.tables.compaction` decides which ones."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from muster.actors.tables.arrow import pa, pc, pq
from muster.actors.tables.footers import check, unreadable
from muster.actors.tables.hours import TableDamaged
from muster.actors.tables.parquet import COMPRESSION
from muster.actors.tables.schemas import TABLES
from muster.actors.tables.schemas.samples import SAMPLES

_BATCH_ROWS = 65_536
_ROW_GROUP_BYTES = 64 << 20
_MAX_CHUNKS = 256
_APART = {SAMPLES: "group"}
"""Tables of which the rows without that column are read alone: a scan for them leaves out all other row groups."""


def fits(path: Path, table: str) -> bool:
    """Return whether a merged file can have all columns of that one. Raises TableDamaged, OSError or ArrowException."""
    check(path, table)
    schema = TABLES[table].arrow
    held = pq.read_schema(path)
    return all(column.name in schema.names and schema.field(column.name).type == column.type for column in held)


def concatenate(sources: Sequence[Path], target: Path, schema: pa.Schema) -> None:
    """Write all rows to a file and sync it. Raises TableDamaged for a source that cannot be read."""
    rows = 0
    with target.open("wb") as file:
        with pq.ParquetWriter(file, schema, **COMPRESSION) as writer:
            batches = itertools.chain.from_iterable(_batches(path, schema) for path in sources)
            for group in _row_groups(batches, apart=_APART.get(schema.metadata[b"muster.table"].decode())):
                writer.write_table(group, row_group_size=group.num_rows)
                rows += group.num_rows
        file.flush()
        os.fsync(file.fileno())
    if (written := pq.read_metadata(target).num_rows) != rows:
        raise TableDamaged(target.parent, f"{rows} rows were to be merged, and {written} were")


def _batches(path: Path, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield a file's rows with all columns of the schema, null where the file lacks a column."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True, pre_buffer=False) as file:
            missing = file.metadata.num_rows
            for batch in file.iter_batches(_BATCH_ROWS, use_threads=False):
                held = pa.Table.from_batches([batch])
                arrays = [
                    held.column(column.name) if column.name in held.column_names else pa.nulls(len(batch), column.type)
                    for column in schema
                ]
                missing -= len(batch)
                yield pa.table(arrays, schema=schema)
            if missing:
                raise TableDamaged(path, f"has {missing} rows less than it says")
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from error


def _row_groups(tables: Iterable[pa.Table], *, apart: str | None) -> Iterator[pa.Table]:
    """Yield the rows in row groups. If a column is named in ``apart``, rows without a value there are apart."""
    those, others = _RowGroup(), _RowGroup()
    for table in tables:
        if apart is None:
            yield from others.take(table)
            continue
        is_null = pc.is_null(table[apart])
        yield from those.take(table.filter(is_null))
        yield from others.take(table.filter(pc.invert(is_null)))
    yield from those.rest()
    yield from others.rest()


@dataclass(slots=True)
class _RowGroup:
    """Rows until there are enough for a row group."""

    held: list[pa.Table] = field(default_factory=list)
    size_bytes: int = 0

    def take(self, table: pa.Table) -> Iterator[pa.Table]:
        if not table.num_rows:
            return
        self.held.append(table)
        self.size_bytes += table.nbytes
        if len(self.held) == _MAX_CHUNKS:
            self.held = [pa.concat_tables(self.held).combine_chunks()]
        if self.size_bytes >= _ROW_GROUP_BYTES:
            yield from self.rest()

    def rest(self) -> Iterator[pa.Table]:
        if self.held:
            yield pa.concat_tables(self.held)
        self.held, self.size_bytes = [], 0
