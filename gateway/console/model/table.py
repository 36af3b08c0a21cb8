"""Tables: columns and rows, as cells' texts for pages, as CSV and as JSON for downloads."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from muster.gateway.console.model import text

Row = Mapping[str, Any]


class Kind(Enum):
    """Meaning of the values of a column."""

    TEXT = "text"
    NAME = "name"
    """From a client: any text."""
    COUNT = "count"
    DECIMAL = "decimal"
    SIZE = "bytes"
    RATE = "bytes/s"
    SECONDS = "s"
    MS = "ms"
    TIME = "time"
    """ms since the epoch."""


_TEXTS = {
    Kind.COUNT: text.count,
    Kind.DECIMAL: text.decimal,
    Kind.SIZE: text.size,
    Kind.RATE: text.rate,
    Kind.SECONDS: text.duration,
    Kind.MS: text.duration_ms,
}
NUMBERS = frozenset({Kind.COUNT, Kind.DECIMAL, Kind.SIZE, Kind.RATE, Kind.SECONDS, Kind.MS})
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Column(NamedTuple):
    """One column."""

    name: str
    """Name of the field, in CSV and JSON."""
    label: str
    kind: Kind = Kind.TEXT

    @property
    def is_number(self) -> bool:
        """Whether it is aligned right."""
        return self.kind in NUMBERS


class Table(NamedTuple):
    """Rows of plain values."""

    columns: Sequence[Column]
    rows: Sequence[Row]

    def to_json(self) -> list[dict[str, Any]]:
        """Return the rows with the fields of the columns."""
        return [{column.name: row.get(column.name) for column in self.columns} for row in self.rows]

    def to_csv(self) -> str:
        """Return RFC 4180. Texts that a spreadsheet would take for a formula begin with an apostrophe."""
        out = io.StringIO()
        writer = csv.writer(out)
        writer.writerow([column.name for column in self.columns])
        writer.writerows([[_csv_cell(row.get(column.name)) for column in self.columns] for row in self.rows])
        return out.getvalue()


def cell(column: Column, value: Any) -> str:
    """Return the text of a cell."""
    if value is None or value == "":
        return text.UNKNOWN
    show = _TEXTS.get(column.kind)
    return str(value) if show is None else show(value)


def _csv_cell(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return "" if value is None else value


def matching(rows: Iterable[Row], query: str, fields: Sequence[str]) -> list[Row]:
    """Return the rows with the query in one of the fields, in any case."""
    wanted = query.strip().casefold()
    if not wanted:
        return list(rows)
    return [row for row in rows if any(wanted in str(row.get(field) or "").casefold() for field in fields)]
