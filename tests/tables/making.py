"""Tables with valid and invalid files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from muster.actors.tables.parquet import write_whole
from muster.actors.tables.rollup import hour_folder
from muster.actors.tables.schemas.cluster import LIFECYCLE, LIFECYCLE_SCHEMA
from tests.tables.events import NOON_MS, event


def put(
    storage: Path,
    file: str,
    epochs: Iterable[int],
    *,
    ts_ms: int = NOON_MS,
    schema: pa.Schema = LIFECYCLE_SCHEMA.arrow,
    **values: Any,
) -> Path:
    """Write a file of the table ``lifecycle`` with one row per epoch, in the folder of the hour of ``ts_ms``."""
    rows = [event(epoch, ts_ms=ts_ms, **values) for epoch in epochs]
    path = storage / "metrics" / LIFECYCLE / hour_folder(ts_ms) / f"{file}.parquet"
    write_whole(pa.Table.from_pylist(rows, schema=schema), path)
    return path


def without(*columns: str) -> pa.Schema:
    """Return the schema of an older version of the table."""
    fields = [field for field in LIFECYCLE_SCHEMA.arrow if field.name not in columns]
    return pa.schema(fields, metadata=LIFECYCLE_SCHEMA.arrow.metadata)


def with_column(field: pa.Field) -> pa.Schema:
    """Return the schema of a later version of the table that an older reader does not misread."""
    return LIFECYCLE_SCHEMA.arrow.append(field)


def of_version(version: int) -> pa.Schema:
    schema = LIFECYCLE_SCHEMA.arrow
    return schema.with_metadata({**schema.metadata, b"muster.schema.version": b"%d" % version})


def merged(storage: Path, number: int, files: Iterable[Path], epochs: Iterable[int]) -> Path:
    """Return the result of a compaction of these files."""
    paths = [*files]
    text = ", ".join(f'"{path.name}"' for path in paths)
    (paths[0].parent / f"_superseded-{number}.json").write_text(f'{{"at_ms": {NOON_MS}, "files": [{text}]}}')
    return put(storage, f"merged-{number}", epochs)
