"""How a table is declared: an Arrow schema whose columns say their unit and meaning, and a version."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

MS_UTC = pa.timestamp("ms", tz="UTC")


def column(name: str, kind: pa.DataType, unit: str, meaning: str, *, nullable: bool = False) -> pa.Field:
    """One column; unit and meaning go into the Parquet file with it."""
    return pa.field(name, kind, nullable=nullable, metadata={"unit": unit, "meaning": meaning})


def table(name: str, version: int, time_column: str, columns: Iterable[pa.Field]) -> pa.Schema:
    """A table's schema. ``version`` grows with every change that an older reader would misread.

    A nullable column that is added does not change it: older files have null there. ``time_column`` is the one
    whose hour (UTC) says in which folder a row is.
    """
    metadata = {"muster.table": name, "muster.schema.version": str(version), "muster.time.column": time_column}
    return pa.schema(list(columns), metadata=metadata)


def version_of(schema: pa.Schema) -> int:
    """Of :func:`table`, or of a file that was written with such a schema."""
    return int(schema.metadata[b"muster.schema.version"])


def time_column_of(schema: pa.Schema) -> str:
    """Of :func:`table`; ``str`` of a column of type :data:`MS_UTC`."""
    return bytes(schema.metadata[b"muster.time.column"]).decode()
