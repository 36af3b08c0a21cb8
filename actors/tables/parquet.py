"""Rows to Parquet files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from actors.tables.rollup import Rollup, Row
from actors.tables.schemas.samples import SAMPLES_SCHEMA


def write_samples(table: Path, name: str, gateway: int, rollup: Rollup) -> int:
    """Write the rollup as ``<table>/<date and hour folder>/<name>.parquet``; returns the rows written.

    A file that is there already is whole and holds the same rows (``name`` stands for one immutable input), so
    it is left alone: writing again after a kill neither loses nor doubles a row. OSError if the disk refuses.
    """
    written = 0
    for folder, rows in rollup.by_folder().items():
        target = table / folder / f"{name}.parquet"
        if not target.exists():
            write_whole(_to_arrow(gateway, rows), target)
            written += len(rows)
    return written


def write_whole(table: pa.Table, target: Path) -> None:
    """Write a Parquet file that appears under its name when it is whole. OSError if the disk refuses."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.partial")  # the leading dot hides it from Spark and pyarrow.dataset
    with partial.open("wb") as file:
        pq.write_table(table, file, compression="zstd")
        file.flush()
        os.fsync(file.fileno())  # after a power loss, an empty file under the final name would fail every reader
    partial.replace(target)


def _to_arrow(gateway: int, rows: Sequence[Row]) -> pa.Table:
    columns: dict[str, list[object]] = {
        "ts": [row.head.ts_ms for row in rows],
        "last_ts": [row.last_ts_ms for row in rows],
        "gateway": [gateway] * len(rows),
        "first_offset": [row.head.first_offset for row in rows],
    }
    for name in ("group", "member_id", "client_id", "host", "topic", "partition", "evidence", "reason"):
        columns[name] = [getattr(row.head, name) for row in rows]
    for name in ("messages", "bytes", "fetches", "last_offset"):
        columns[name] = [getattr(row, name) for row in rows]
    return pa.table([pa.array(columns[f.name], f.type) for f in SAMPLES_SCHEMA], schema=SAMPLES_SCHEMA)
