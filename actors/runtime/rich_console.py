"""Rich consoles that follow the rules of :mod:`muster.actors.runtime.terminal`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import IO, Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from muster.actors.runtime import terminal

_NO_WIDTH = 1 << 20
_GAP = "  "
_READABLE = 12
"""Minimum width of a column on a terminal, unless its texts are shorter."""


def console(*, err: bool = False, file: IO[str] | None = None, wide: bool = False) -> Console:
    """Return a console on stdout, stderr or the file: rich's styles, printable texts, no markup.

    A pipe has no width, nor has a terminal if ``wide``: it wraps lines that are too long.
    """
    stream = file or (sys.stderr if err else sys.stdout)
    raw: Any = getattr(stream, "unguarded", stream)
    size = (None, None) if raw.isatty() and not wide else (_NO_WIDTH, _NO_WIDTH)
    return _Console(file=raw, width=size[0], height=size[1], highlight=False, markup=False, emoji=False)


def is_live(console: Console) -> bool:
    """Whether output can be overwritten, as progress bars and spinners are. FORCE_COLOR does not make a pipe live."""
    return console.is_terminal and console.file.isatty()


def has_width(console: Console) -> bool:
    """Whether lines can be too long for it. FORCE_COLOR does not give a pipe a width."""
    return console.width < _NO_WIDTH


def print_table(
    console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]], is_number: Sequence[bool]
) -> None:
    """Print a table in full. In a pipe each row is one line, however long; a terminal folds cells, or gets one line
    for each cell if it is too narrow for that. Numbers are aligned to the right.
    """
    shown = table(console, columns, rows, is_number)
    if console.is_terminal or not isinstance(shown, Table):
        console.print(shown)
        return
    with console.capture() as captured:
        console.print(shown)
    console.print(Text("\n".join(line.rstrip(" ") for line in captured.get().splitlines())))


def table(
    console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]], is_number: Sequence[bool]
) -> Table | Padding:
    """Return the table that :func:`print_table` prints.

    Where cells are folded, each line begins with a space, so that no name can look like a message of ``muster``.
    """
    shown = [[terminal.printable(cell, console.encoding) for cell in row] for row in rows]
    widths = _widths(columns, shown)
    if sum(min(width, _READABLE) + len(_GAP) for width in widths) - len(_GAP) > console.width:
        return Padding(Text("\n\n".join(_lines(columns, row) for row in shown)), (0, 0, 0, 1), expand=False)
    found = Table(box=None, pad_edge=_is_wider(widths, console), header_style="bold", padding=(0, 1, 0, len(_GAP) - 1))
    for column, right in zip(columns, is_number, strict=True):
        found.add_column(column, justify="right" if right else "left", overflow="fold")
    for row in shown:
        found.add_row(*map(Text, row))
    return found


def is_folded(console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether the console is too narrow for the table, so that its cells are folded."""
    shown = [[terminal.printable(cell, console.encoding) for cell in row] for row in rows]
    return _is_wider(_widths(columns, shown), console)


def _is_wider(widths: Sequence[int], console: Console) -> bool:
    return sum(widths) + len(_GAP) * (len(widths) - 1) > console.width


def _widths(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(cell_len, cells)) for cells in zip(columns, *rows, strict=True)]


def _lines(columns: Sequence[str], row: Sequence[str]) -> str:
    width = max(map(len, columns))
    return "\n".join(f"{column:{width}}{_GAP}{cell}" for column, cell in zip(columns, row, strict=True))


class _Console(Console):
    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=terminal.in_shape(segment.text, self.encoding))
