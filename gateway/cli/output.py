"""Results go to stdout, everything else to stderr; all of it through :mod:`muster.actors.runtime.terminal`."""

from __future__ import annotations

import base64
import json
import logging
import re
import time
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, Self

from rich.console import RenderableType
from rich.text import Text

from muster.actors.runtime import rich_console, terminal
from muster.actors.runtime.logs.json_lines import JsonFormatter

log = logging.getLogger("muster")

_NUMBER = re.compile(r"-?\d+(\.\d+)?")


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """Write the value to stdout as JSON."""
    terminal.json_text(json.dumps(value, indent=indent, default=str))


def bytes_as_json(data: bytes | None) -> Any:
    """Text unchanged, anything else as ``{"base64": ...}``."""
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data or b"").decode()}


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], optional: Sequence[str] = ()) -> list[str]:
    """Write a table to stdout; None is shown as ``-``, numbers are right-aligned.

    See :func:`muster.actors.runtime.rich_console.print_table` for the handling of long cells. On a terminal that is too
    narrow for the table, ``optional`` columns are left out, the last of them first. Returns which.
    """
    console = rich_console.console()
    cells, are_numbers = _in_text(columns, rows)
    names, left_out = list(columns), list[str]()
    for name in reversed(optional):
        if not rich_console.is_folded(console, names, cells):
            break
        at = names.index(name)
        left_out.insert(0, names.pop(at))
        are_numbers.pop(at)
        cells = [row[:at] + row[at + 1 :] for row in cells]
    rich_console.print_table(console, names, cells, are_numbers)
    return left_out


def is_folded(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> bool:
    """Whether stdout is a terminal that is too narrow for the table."""
    return rich_console.is_folded(rich_console.console(), columns, _in_text(columns, rows)[0])


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> RenderableType:
    """The same table, to be shown among other things."""
    return rich_console.table(rich_console.console(), columns, *_in_text(columns, rows))


def _in_text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> tuple[list[list[str]], list[bool]]:
    """The cells, and whether each column has numbers."""
    held = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    return held, [_are_numbers(cells) for cells in _columns(len(columns), held)]


def _columns(count: int, rows: Sequence[Sequence[str]]) -> list[list[str]]:
    return [[row[index] for row in rows] for index in range(count)]


def _are_numbers(cells: Sequence[str]) -> bool:
    filled = [cell for cell in cells if cell != "-"]
    return bool(filled) and all(map(_is_number, filled))


def _is_number(cell: str) -> bool:
    return _NUMBER.fullmatch(cell) is not None


def counted(number: int, noun: str) -> str:
    """``1 offset``, ``2 offsets``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def log_as_json(actor: str) -> None:
    """From now on stderr has JSON only, one object on each line: the log, the steps of progress, the error."""
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
    """What a long operation does, step by step."""

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
        """No line."""


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
