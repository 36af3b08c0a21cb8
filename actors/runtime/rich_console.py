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

NO_WIDTH = 1 << 20
"""Width of a console in columns that has no end of a line, as a pipe."""
_GAP = "  "
_READABLE = 12
"""Minimum width of a column on a terminal, unless its texts are shorter."""


def console(*, err: bool = False, file: IO[str] | None = None, wide: bool = False) -> Console:
    """Return a console on stdout, stderr or the file: rich's styles, printable texts, no markup.

    A pipe has no width, nor has a terminal if ``wide``: it wraps lines that are too long.
    """
    stream = file or (sys.stderr if err else sys.stdout)
    raw: Any = getattr(stream, "unguarded", stream)
    size = (None, None) if raw.isatty() and not wide else (NO_WIDTH, NO_WIDTH)
    return _Console(file=raw, width=size[0], height=size[1], highlight=False, markup=False, emoji=False)


def is_live(console: Console) -> bool:
    """Whether output can be overwritten, as progress bars and spinners are. FORCE_COLOR does not make a pipe live."""
    return console.is_terminal and console.file.isatty()


def has_width(console: Console) -> bool:
    """Whether lines can be too long for it. FORCE_COLOR does not give a pipe a width."""
    return bool(console.width < NO_WIDTH)


def print_table(
    console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]], is_number: Sequence[bool]
) -> None:
    """Print a table in full. In a pipe each row is one line, however long; a terminal folds cells, or gets one line
    for each cell if it is too narrow for that. Numbers are aligned to the right.
    """
    shown = _printable(console, rows)
    widths = _widths(columns, shown)
    if _is_wider(widths, console):
        console.print(_folded(console, columns, shown, is_number, widths))
        return
    # Rich takes half a millisecond for a row, and there may be thousands.
    head, *lines = (_aligned(row, widths, is_number) for row in (columns, *shown))
    console.print(Text(head, style="bold"), soft_wrap=True)
    if lines:
        console.out("\n".join(lines), highlight=False)


def table(
    console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]], is_number: Sequence[bool]
) -> Text | Table | Padding:
    """Return the table that :func:`print_table` prints.

    Where cells are folded, each line begins with a space, so that no name can look like a message of ``muster``.
    """
    shown = _printable(console, rows)
    widths = _widths(columns, shown)
    if _is_wider(widths, console):
        return _folded(console, columns, shown, is_number, widths)
    head, *lines = (_aligned(row, widths, is_number) for row in (columns, *shown))
    return Text.assemble((head, "bold"), *(f"\n{line}" for line in lines), no_wrap=True)


def _folded(
    console: Console,
    columns: Sequence[str],
    shown: Sequence[Sequence[str]],
    is_number: Sequence[bool],
    widths: Sequence[int],
) -> Table | Padding:
    if sum(min(width, _READABLE) + len(_GAP) for width in widths) - len(_GAP) > console.width:
        return Padding(Text("\n\n".join(_lines(columns, row) for row in shown)), (0, 0, 0, 1), expand=False)
    found = Table(box=None, header_style="bold", padding=(0, 1, 0, len(_GAP) - 1))
    for column, right in zip(columns, is_number, strict=True):
        found.add_column(column, justify="right" if right else "left", overflow="fold")
    for row in shown:
        found.add_row(*map(Text, row))
    return found


def _is_wider(widths: Sequence[int], console: Console) -> bool:
    return sum(widths) + len(_GAP) * (len(widths) - 1) > console.width


def _printable(console: Console, rows: Iterable[Sequence[str]]) -> list[list[str]]:
    encoding = console.encoding
    return [[terminal.printable(cell, encoding) for cell in row] for row in rows]


def _widths(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(_width, cells)) for cells in zip(columns, *rows, strict=True)]


def _width(cell: str) -> int:
    return len(cell) if cell.isascii() else cell_len(cell)


def _aligned(row: Sequence[str], widths: Sequence[int], is_number: Sequence[bool]) -> str:
    cells = []
    for cell, width, right in zip(row, widths, is_number, strict=True):
        padding = " " * (width - _width(cell))
        cells.append(f"{padding}{cell}" if right else f"{cell}{padding}")
    return _GAP.join(cells).rstrip(" ")


def _lines(columns: Sequence[str], row: Sequence[str]) -> str:
    width = max(map(len, columns))
    return "\n".join(f"{column:{width}}{_GAP}{cell}" for column, cell in zip(columns, row, strict=True))


class _Console(Console):
    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=terminal.in_shape(segment.text, self.encoding))
