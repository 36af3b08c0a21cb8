"""Reads the files of a table, for tests of its writers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from muster.actors.tables.schemas import TABLES


def table_rows(storage: Path, table: str) -> list[dict[str, Any]]:
    """All rows, by their time and then in the order of writing; times are ms since the Unix epoch."""
    schema = TABLES[table].arrow
    milliseconds = pa.schema([f.with_type(pa.int64()) if pa.types.is_timestamp(f.type) else f for f in schema])
    rows: list[dict[str, Any]] = []
    for file in sorted((storage / "metrics" / table).rglob("[!.]*.parquet")):
        rows += pq.ParquetFile(file).read().cast(milliseconds).to_pylist()
    return sorted(rows, key=lambda row: row[TABLES[table].time_column])
