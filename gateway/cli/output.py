"""Results go to stdout, everything else to stderr; all of it through :mod:`muster.actors.runtime.terminal`."""

from __future__ import annotations

import base64
import json
import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import click
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.text import Text

from muster.actors.runtime import rich_console, terminal
from muster.actors.runtime.logs.json_lines import JsonFormatter
from muster.actors.runtime.narrow import NOTHING, Column, Kind, are_alike, fit

log = logging.getLogger("muster")

F = TypeVar("F", bound=Callable[..., Any])

_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_INDENT = "  "
_WIDE = f"{__name__}.wide"


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """Write the value to stdout as JSON."""
    terminal.json_text(json.dumps(value, indent=indent, default=str))


def bytes_as_json(data: bytes | None) -> Any:
    """Return text unchanged, anything else as ``{"base64": ...}``."""
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data or b"").decode()}


def with_wide(command: F) -> F:
    """Add the option ``--wide``, which :func:`print_table` obeys. The command has no argument for it."""

    def remember(context: click.Context, _option: click.Parameter, is_given: bool) -> None:
        context.meta[_WIDE] = is_given

    return click.option(
        "--wide",
        is_flag=True,
        expose_value=False,
        callback=remember,
        help="Show all columns and whole names, in lines that may be longer than the terminal is wide.",
    )(command)


def is_wide() -> bool:
    """Return whether the running command got ``--wide``."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_WIDE))


def print_table(
    columns: Sequence[str | Column],
    rows: Iterable[Sequence[Any]],
    total: str | None = None,
    below: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> list[str]:
    """Write a table to stdout; None is shown as ``-``, numbers are right-aligned.

    On a terminal that is too narrow, ids and names are shortened and columns left out as ``columns`` allow. A line on
    stderr says so, another the total; one on stdout has the content of those whose cells are all alike. ``below`` has,
    by title, lines that are written to stdout in place of a column that is left out. What is too wide even then is
    folded (:func:`muster.actors.runtime.rich_console.print_table`). In a pipe and with ``--wide`` all is shown.
    On a terminal, the total alone is shown of a table without rows.
    Returns what is shown nowhere: titles of columns that are left out though they have content, and kinds of shortened
    cells.
    """
    console = _console()
    shown = _narrowed(console, columns, rows)
    if shown.rows or total is None or not rich_console.has_width(rich_console.console()):
        rich_console.print_table(console, shown.titles, shown.rows, shown.are_numbers)
    if shown.alike:
        print_text(f"in all rows: {', '.join(shown.alike)}")
    instead = [title for title in shown.missing if below.get(title)]
    for line in (line for title in instead for line in below[title]):
        print_text(line)
    missing = [title for title in shown.missing if title not in instead]
    if rich_console.has_width(rich_console.console()):
        if total is not None:
            print_text(total, err=True)
        if missing:
            *others, last = missing
            print_text(f"--wide shows {' and '.join(filter(None, (', '.join(others), last)))}", err=True)
    return missing


def _console() -> Console:
    """Return the console on stdout, without a width for ``--wide``."""
    return rich_console.console(wide=is_wide())


def is_folded(columns: Sequence[str | Column], rows: Iterable[Sequence[Any]]) -> bool:
    """Return whether stdout is too narrow for the whole table."""
    console = _console()
    known = [Column(each if isinstance(each, str) else each.title) for each in columns]
    return not fit(known, _printable(_in_text(known, rows)[0], console), console.width).fits


def table(columns: Sequence[str | Column], rows: Iterable[Sequence[Any]]) -> RenderableType:
    """Return the table, to be shown among other things."""
    console = rich_console.console()
    shown = _narrowed(console, columns, rows)
    return rich_console.table(console, shown.titles, shown.rows, shown.are_numbers)


def print_text(text: str, *, err: bool = False) -> None:
    """Write a line; on a terminal that is too narrow, several, which are broken between words and indented."""
    console = rich_console.console(err=err)
    whole = Text(terminal.printable(text, console.encoding))
    broken = whole.wrap(console, console.width)
    if len(broken) > 1:
        broken = whole.wrap(console, console.width - len(_INDENT))
    console.print(f"\n{_INDENT}".join(line.plain.rstrip() for line in broken), soft_wrap=True)


def print_fields(*fields: str) -> None:
    """Write a line of fields; on a terminal that is too narrow, several, which are broken between fields."""
    width = _console().width
    lines = list(fields[:1])
    for field in fields[1:]:
        longer = f"{lines[-1]}{_INDENT}{field}"
        if cell_len(longer) > width:
            lines.append(f"{_INDENT}{field}")
        else:
            lines[-1] = longer
    for line in lines:
        print_text(line)


class _Shown(NamedTuple):
    titles: list[str]
    rows: list[list[str]]
    are_numbers: list[bool]
    alike: list[str]
    """Titles and cells of columns that are left out since all their cells are alike."""
    missing: list[str]
    """Titles of columns that are left out though they have content, and kinds of shortened cells."""


def _narrowed(console: Console, columns: Sequence[str | Column], rows: Iterable[Sequence[Any]]) -> _Shown:
    known = [column if isinstance(column, Column) else Column(column) for column in columns]
    cells, are_numbers = _in_text(known, rows)
    ellipsis = "…" if console.encoding.startswith("utf") else "..."
    fitted = fit(known, _printable(cells, console), console.width, ellipsis)
    left_out = [at for at in range(len(known)) if at not in fitted.kept]
    filled = [at for at in left_out if any(row[at] != NOTHING for row in cells)]
    same = [at for at in filled if are_alike([row[at] for row in cells])]
    missing = [known[at].title for at in filled if at not in same]
    missing += ["whole names"] * bool(fitted.shortened & {Kind.ID, Kind.NAME, Kind.CONSTANT})
    missing += ["whole texts"] * bool(fitted.shortened & {Kind.LIST, Kind.TEXT})
    titles = [known[at].title for at in fitted.kept]
    alike = [f"{known[at].title} {cells[0][at]}" for at in same]
    return _Shown(titles, fitted.rows, [are_numbers[at] for at in fitted.kept], alike, missing)


def _printable(cells: Iterable[Iterable[str]], console: Console) -> list[list[str]]:
    return [[terminal.printable(cell, console.encoding) for cell in row] for row in cells]


def _in_text(columns: Sequence[Column], rows: Iterable[Sequence[Any]]) -> tuple[list[list[str]], list[bool]]:
    """Return the cells, and whether each column has numbers: a name or an id of digits is none."""
    held = [[NOTHING if cell is None else str(cell) for cell in row] for row in rows]
    cells = zip(columns, _columns(len(columns), held), strict=True)
    return held, [column.kind is Kind.WHOLE and _are_numbers(each) for column, each in cells]


def _columns(count: int, rows: Sequence[Sequence[str]]) -> list[list[str]]:
    return [[row[index] for row in rows] for index in range(count)]


def _are_numbers(cells: Sequence[str]) -> bool:
    filled = [cell for cell in cells if cell != NOTHING]
    return bool(filled) and all(map(_is_number, filled))


def _is_number(cell: str) -> bool:
    return _NUMBER.fullmatch(cell) is not None


def log_as_json(actor: str) -> None:
    """Write only JSON to stderr from now on, one object on each line: the log, the steps of progress, the error."""
    root = logging.getLogger()
    for handler in root.handlers:
        handler.setFormatter(JsonFormatter(actor))
    root.setLevel(min(root.level, logging.INFO))
    for noisy in ("kazoo", "ray"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def error_line(text: str) -> None:
    """Write why the command failed to stderr."""
    if any(isinstance(handler.formatter, JsonFormatter) for handler in logging.getLogger().handlers):
        log.error("%s", text)
    else:
        terminal.line(f"muster: {text}", err=True)


class Steps(Protocol):
    """Report of a long operation, step by step."""

    def step(self, text: str) -> None:
        """Show what is being done now."""

    def note(self, text: str) -> None:
        """Show something that has happened meanwhile."""

    def rest(self) -> None:
        """Show that nothing is being done for now."""


class LoggedSteps:
    """The steps of a long operation as lines of the log."""

    def step(self, text: str) -> None:
        """Log it."""
        log.info("%s", text)

    def note(self, text: str) -> None:
        """Log it as a warning."""
        log.warning("%s", text)

    def rest(self) -> None:
        """Write no line."""


class Progress:
    """The steps of a long operation, on stderr: a spinner on a terminal, one line for each step."""

    def __init__(self) -> None:
        self._console = rich_console.console(err=True)
        self._started = time.monotonic()
        spinner = "dots" if self._console.encoding.startswith("utf") else "line"
        self._spinner = self._console.status("", spinner=spinner) if rich_console.is_live(self._console) else None

    def step(self, text: str) -> None:
        """Show what is being done now."""
        text = self._line(text)
        if self._spinner:
            self._spinner.update(Text(text))
            self._spinner.start()

    def note(self, text: str) -> None:
        """Show something that has happened meanwhile, from any thread."""
        self._line(text)

    def _line(self, text: str) -> str:
        text = terminal.printable(text, self._console.encoding)
        self._console.print(f"{time.monotonic() - self._started:6.1f} s  {text}")
        return text

    def rest(self) -> None:
        """Show that nothing is being done for now."""
        if self._spinner:
            self._spinner.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.rest()
