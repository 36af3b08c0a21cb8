"""Figures, and their presentation."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.table import Table

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Figure:
    part: str
    what: str
    value: float
    unit: str
    limit: float | None = None
    """Upper limit of the figure."""

    @property
    def met(self) -> bool:
        return self.limit is None or self.value <= self.limit

    @property
    def shown(self) -> str:
        return f"{format_number(self.value)} {self.unit}".strip()

    @property
    def verdict(self) -> str:
        if self.limit is None:
            return ""
        return f"{'at most' if self.met else 'MISSED:'} {format_number(self.limit)} {self.unit}".strip()


class Figures(list[Figure]):
    """All figures of a run, in the order of measurement."""

    def add(self, part: str, what: str, value: float, unit: str, limit: float | None = None) -> None:
        self.append(Figure(part, what, value, unit, limit))

    @property
    def met(self) -> bool:
        """Whether every limit holds."""
        return all(figure.met for figure in self)


def format_number(value: float) -> str:
    """Format with three significant digits; whole numbers stay whole, with a thousands separator."""
    if value == int(value) or abs(value) >= 1000:
        return f"{round(value):,}"
    return f"{value:.3g}"


def percentile(values: Sequence[float], percent: int) -> float:
    """Return a percentile: ``percent`` from 1 to 99, of at least two values."""
    return statistics.quantiles(values, n=100)[percent - 1]


def print_table(figures: Figures, machine: dict[str, Any]) -> None:
    table = Table(title=describe(machine), title_justify="left", box=None, pad_edge=False, header_style="bold")
    table.add_column("PART")
    table.add_column("FIGURE")
    table.add_column("VALUE", justify="right")
    table.add_column("LIMIT")
    part = ""
    for figure in figures:
        table.add_row(figure.part if figure.part != part else "", figure.what, figure.shown, figure.verdict)
        part = figure.part
    console = Console(highlight=False)
    (console if console.is_terminal else Console(highlight=False, width=160)).print(table)


def markdown(figures: Figures, machine: dict[str, Any]) -> str:
    """Return a heading line and a table, for docs/benchmarks.md."""
    rows = [f"| {f.part} | {f.what} | {f.shown} | {f.verdict} |" for f in figures]
    return "\n".join([describe(machine), "", "| part | figure | value | limit |", "|---|---|--:|---|", *rows])


def describe(machine: dict[str, Any]) -> str:
    return (
        f"{machine['cores']} cores, {machine['memory_gib']} GiB, Python {machine['python']}, "
        f"load average before the run {machine['load_average_1min_before']}"
    )


def write_json(path: Path, figures: Figures, machine: dict[str, Any]) -> None:
    path.write_text(json.dumps({"machine": machine, "figures": [asdict(figure) for figure in figures]}, indent=2))


def output_options(command: _Command) -> _Command:
    """Add ``--json`` and ``--markdown``, for :func:`output`: the arguments ``json_file`` and ``as_markdown``."""
    json_type = click.Path(dir_okay=False, path_type=Path)
    to_file = click.option("--json", "json_file", type=json_type, help="Write all figures there.")
    as_page = click.option(
        "--markdown", "as_markdown", is_flag=True, help="Print the table as docs/benchmarks.md has it."
    )
    return to_file(as_page(command))


def output(figures: Figures, machine: dict[str, Any], json_file: Path | None, as_markdown: bool) -> None:
    """Print the table, and write the file."""
    if as_markdown:
        click.echo(markdown(figures, machine))
    else:
        print_table(figures, machine)
    if json_file is not None:
        write_json(json_file, figures, machine)
