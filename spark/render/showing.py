"""Shows an answer on a terminal or as JSON, and writes a job's sections as Parquet."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from rich.console import Console
from rich.text import Text

from muster.actors.runtime.rich_console import print_table
from muster.actors.runtime.terminal import printable
from muster.spark.jobs.job import Options, Section
from muster.spark.out import require_parts
from muster.spark.result import JobResult, Shown

TABLE_ROWS = 60
"""Limit per section on a terminal; JSON and Parquet have all."""
_SHORTEST_DECIMALS = 1e-3


def print_results(results: Sequence[JobResult], console: Console) -> None:
    for result in results:
        console.print(Text(f"\n{result.job}: {result.title}", style="bold"))
        for section in result.sections:
            _print_section(section, console)


def to_json(results: Sequence[JobResult], options: Options, *, indent: int | None = 2) -> str:
    """Return one object: the request, and by job and section the rows as objects. Times are ISO 8601 with offset.

    Without ``indent`` it is one line.
    """
    value = {
        "from": options.start,
        "to": options.end,
        "now": options.now,
        "groups": sorted(options.groups),
        "timezone": options.timezone,
        "cluster": options.cluster or None,
        "stopped": options.stopped,
        "jobs": {
            result.job: {
                section.name: {
                    "title": section.title,
                    "note": section.note,
                    "types": {column.name: column.kind for column in section.columns},
                    "complete": not section.cut,
                    **({} if section.total is None else {"total": section.total}),
                    "rows": [
                        dict(zip((column.name for column in section.columns), row, strict=True)) for row in section.rows
                    ],
                }
                for section in result.sections
            }
            for result in results
        },
    }
    return json.dumps(value, indent=indent, default=_json, allow_nan=False)


def write_parquet(sections: Sequence[Section], folder: Path) -> None:
    """Write ``folder/<section>/``, one file each. The folder must not contain such a sub-folder yet.

    Raises FileNotFoundError if the written files are missing: an executor wrote them on a node with a different folder.
    """
    for section in sections:
        written = folder / section.name
        _one_file(section.frame).write.parquet(str(written))
        require_parts(written)


def _one_file(frame: DataFrame) -> DataFrame:
    return frame.coalesce(1)


def _json(value: Any) -> Any:
    match value:
        case datetime() | date():
            return value.isoformat()
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case bytes() | bytearray():
            return value.hex()
        case _:
            return str(value)


def _print_section(section: Shown, console: Console) -> None:
    console.print(Text(f"\n{section.title}"))
    if section.note:
        console.print(Text(section.note, style="dim"))
    if not section.rows:
        console.print(Text("  nothing", style="dim"))
        return
    rows = [[cell(value) for value in row] for row in section.rows[:TABLE_ROWS]]
    columns = section.columns
    print_table(console, [column.name for column in columns], rows, [column.is_number for column in columns])
    if (hidden := len(section.rows) - TABLE_ROWS) > 0:
        more = f"{hidden:,} more rows and others; --format parquet has them"
        if not section.cut:
            more = f"{hidden:,} more rows; --format json or parquet has them"
        console.print(Text(more, style="dim"))


def cell(value: Any) -> str:
    """Format a value for users: numbers with thousands' commas, times without their zone, null as a dash.

    Texts come from clients: characters that would move a terminal's cursor or reverse text are escaped.
    """
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float() | Decimal():
            return _decimal(float(value))
        case datetime():
            return value.strftime("%Y-%m-%d %H:%M:%S")
        case list() if all(isinstance(part, str) for part in value):
            return ", ".join(map(printable, value))
        case list() | dict():
            return printable(json.dumps(value, default=_json, ensure_ascii=False))
        case _:
            return printable(str(value))


def _decimal(value: float) -> str:
    if value == int(value) and abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:,.3g}" if abs(value) < _SHORTEST_DECIMALS else f"{value:,.3f}".rstrip("0").rstrip(".")
