"""Writes rows to Parquet files that appear whole or not at all."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from muster.actors.tables.arrow import pa, pq
from muster.actors.tables.rollup import Rollup, Row, hour_folder
from muster.actors.tables.schemas import TableSchema
from muster.actors.tables.schemas.samples import SAMPLES_SCHEMA

COMPRESSION: dict[str, Any] = {"compression": "zstd", "write_page_checksum": True}

_log = logging.getLogger(__name__)


def write_samples(table: Path, name: str, gateway: int, rollup: Rollup) -> int:
    """Write the rollup as ``<table>/<date and hour folder>/<name>.parquet``; returns the rows written.

    A file that already exists is whole and holds the same rows (``name`` stands for one immutable input), so it is left
    as it is: writing again after a kill neither loses nor duplicates a row. Raises OSError if the disk refuses.
    """
    arrays = {folder: _samples_to_arrow(gateway, rows) for folder, rows in rollup.by_folder().items()}
    return _write_new(table, name, arrays)


def write_rows(table: Path, name: str, schema: TableSchema, rows: Sequence[Mapping[str, Any]]) -> int:
    """Write rows by column, with times in ms. A row that does not fit the schema is dropped.

    See :func:`write_samples`.
    """
    time_column = schema.time_column
    folders: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        try:
            folder = hour_folder(row[time_column])
        except _misfits() as error:
            _say_dropped(row, error)
        else:
            folders.setdefault(folder, []).append(row)
    return _write_new(table, name, {folder: _rows_to_arrow(schema.arrow, held) for folder, held in folders.items()})


def _misfits() -> tuple[type[Exception], ...]:
    """Return pyarrow's errors for values that a column cannot hold, including text that is not UTF-8."""
    return pa.ArrowException, OverflowError, TypeError, ValueError


def _write_new(table: Path, name: str, folders: Mapping[str, pa.Table]) -> int:
    written = 0
    for folder, rows in folders.items():
        target = table / folder / f"{name}.parquet"
        if rows.num_rows and not target.exists():
            write_whole(rows, target)
            written += rows.num_rows
    return written


def write_whole(table: pa.Table, target: Path, *, row_group_rows: int | None = None) -> None:
    """Write a Parquet file that appears under its name once it is whole. Raises OSError if the disk refuses.

    ``row_group_rows``: the size of its row groups; pyarrow's own if None.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.partial")  # the leading dot hides it from Spark and pyarrow.dataset
    with partial.open("wb") as file:
        pq.write_table(table, file, row_group_size=row_group_rows, **COMPRESSION)
        file.flush()
        os.fsync(file.fileno())  # after a power loss, an empty file under the final name would fail every reader
    partial.replace(target)


def _rows_to_arrow(schema: pa.Schema, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    try:
        return _checked(schema, rows)
    except _misfits():
        return pa.concat_tables([schema.empty_table(), *(_one_to_arrow(schema, row) for row in rows)])


def _one_to_arrow(schema: pa.Schema, row: Mapping[str, Any]) -> pa.Table:
    try:
        return _checked(schema, [row])
    except _misfits() as error:
        _say_dropped(row, error)
        return schema.empty_table()


def _say_dropped(row: Mapping[str, Any], error: Exception) -> None:
    _log.error("a row does not fit its table and is dropped (%s): %r", error, row)


def _checked(schema: pa.Schema, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    made = pa.Table.from_pylist(rows, schema=schema)
    for column in schema:
        if not column.nullable and made.column(column.name).null_count:
            raise pa.ArrowInvalid(f"{column.name} is null")
    return made


def _samples_to_arrow(gateway: int, rows: Sequence[Row]) -> pa.Table:
    columns: dict[str, list[object]] = {
        "ts": [row.head.ts_ms for row in rows],
        "last_ts": [row.last_ts_ms for row in rows],
        "gateway": [gateway] * len(rows),
        "first_offset": [row.head.first_offset for row in rows],
    }
    for name in ("group", "member_id", "client_id", "host", "topic", "partition", "evidence", "reason"):
        columns[name] = [getattr(row.head, name) for row in rows]
    for name in ("messages", "bytes", "fetches", "last_offset", "control_records", "aborted_records"):
        columns[name] = [getattr(row, name) for row in rows]
    schema = SAMPLES_SCHEMA.arrow
    return pa.table([pa.array(columns[f.name], f.type) for f in schema], schema=schema)
