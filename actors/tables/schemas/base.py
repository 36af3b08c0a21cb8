"""How a table is declared: its columns, each with a unit and a meaning, and a version.

An actor has to know the columns of its rows, but needs Arrow only to write them into a file. So the Arrow schema of a
table is made on first use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from muster.actors.tables.arrow import pa

MS_UTC = "timestamp[ms, tz=UTC]"
"""A time; in rows, ms since the epoch."""


class Struct(NamedTuple):
    """A value with named fields."""

    fields: Sequence[tuple[str, Kind]]


class ListOf(NamedTuple):
    """Any number of values."""

    kind: Kind


Kind = str | Struct | ListOf
"""A type: Arrow's name of it, or a compound one."""


class Column(NamedTuple):
    name: str
    kind: Kind
    unit: str
    meaning: str
    nullable: bool


@dataclass(frozen=True)
class TableSchema:
    """See :func:`table`."""

    name: str
    version: int
    time_column: str
    columns: tuple[Column, ...]

    @cached_property
    def names(self) -> list[str]:
        """Names of all columns."""
        return [column.name for column in self.columns]

    @cached_property
    def required(self) -> frozenset[str]:
        """The names of the columns that cannot be null."""
        return frozenset(column.name for column in self.columns if not column.nullable)

    @cached_property
    def arrow(self) -> pa.Schema:
        """Schema of the table's Parquet files, with its units, meanings and version as metadata."""
        fields = [
            pa.field(
                column.name,
                _arrow(column.kind),
                nullable=column.nullable,
                metadata={"unit": column.unit, "meaning": column.meaning},
            )
            for column in self.columns
        ]
        metadata = {
            "muster.table": self.name,
            "muster.schema.version": str(self.version),
            "muster.time.column": self.time_column,
        }
        return pa.schema(fields, metadata=metadata)


def _arrow(kind: Kind) -> pa.DataType:
    if isinstance(kind, ListOf):
        return pa.list_(_arrow(kind.kind))
    if isinstance(kind, Struct):
        return pa.struct([(name, _arrow(field)) for name, field in kind.fields])
    return pa.timestamp("ms", tz="UTC") if kind == MS_UTC else pa.type_for_alias(kind)


def column(name: str, kind: Kind, unit: str, meaning: str, *, nullable: bool = False) -> Column:
    """One column; its unit and meaning are stored in the Parquet file."""
    return Column(name, kind, unit, meaning, nullable)


def table(name: str, version: int, time_column: str, columns: Iterable[Column]) -> TableSchema:
    """Return a table's schema. ``version`` grows with every change that an older reader would misread.

    Adding a nullable column does not change the version: older files have null there. The hour (UTC) of
    ``time_column``, of type :data:`MS_UTC`, decides in which folder a row is.
    """
    return TableSchema(name, version, time_column, tuple(columns))
