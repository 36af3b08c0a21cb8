"""Results go to stdout, everything else to stderr."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from typing import Any, Self

import click
from rich.console import Console
from rich.table import Table

_PIPED_WIDTH = 200


def print_json(value: Any) -> None:
    """Write the value to stdout as indented JSON."""
    click.echo(json.dumps(value, indent=2, default=str))


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None, piped_width: int = _PIPED_WIDTH
) -> None:
    """Write a table to stdout; cells that are None show as ``-``, numbers stand to the right.

    Cells are text, whatever it says. Where stdout is no terminal, lines are as long as ``piped_width`` at most.
    """
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, width=piped_width)
    held = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        numeric = bool(held) and all(row[index].lstrip("-").isdigit() or row[index] == "-" for row in held)
        table.add_column(column, justify="right" if numeric else "left", no_wrap=not console.is_terminal)
    for row in held:
        table.add_row(*row)
    console.print(table)


def counted(number: int, noun: str) -> str:
    """``1 offset``, ``2 offsets``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class Progress:
    """Steps of something long, on stderr: a spinner on a terminal, one line for each step."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._started = time.monotonic()
        self._spinner = self._console.status("") if self._console.is_terminal else None

    def step(self, text: str) -> None:
        """Say what is being done now."""
        self._console.print(f"{time.monotonic() - self._started:6.1f} s  {text}", markup=False)
        if self._spinner:
            self._spinner.update(text)
            self._spinner.start()

    def rest(self) -> None:
        """Nothing is being done for now."""
        if self._spinner:
            self._spinner.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.rest()
