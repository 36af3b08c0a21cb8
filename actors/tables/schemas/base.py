"""How a table is declared: an Arrow schema whose columns have a unit and a meaning, and a version."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

MS_UTC = pa.timestamp("ms", tz="UTC")


def column(name: str, kind: pa.DataType, unit: str, meaning: str, *, nullable: bool = False) -> pa.Field:
    """One column; its unit and meaning are stored in the Parquet file."""
    return pa.field(name, kind, nullable=nullable, metadata={"unit": unit, "meaning": meaning})


def table(name: str, version: int, time_column: str, columns: Iterable[pa.Field]) -> pa.Schema:
    """A table's schema. ``version`` grows with every change that an older reader would misread.

    Adding a nullable column does not change the version: older files have null there. The hour (UTC) of
    ``time_column`` decides in which folder a row is.
    """
    metadata = {"muster.table": name, "muster.schema.version": str(version), "muster.time.column": time_column}
    return pa.schema(list(columns), metadata=metadata)


def version_of(schema: pa.Schema) -> int:
    """The version of a schema of :func:`table`, or of a file that was written with such a schema."""
    return int(schema.metadata[b"muster.schema.version"])


def time_column_of(schema: pa.Schema) -> str:
    """The name of the time column, of type :data:`MS_UTC`, of a schema of :func:`table`."""
    return bytes(schema.metadata[b"muster.time.column"]).decode()
