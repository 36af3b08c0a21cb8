"""Answers on a terminal: a question per job, its answer in a sentence or two, and one line for each of the worst."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from muster.actors.runtime.rich_console import print_table
from muster.spark.render.narrow import fitted
from muster.spark.render.screens import screen_of
from muster.spark.render.screens.screen import MOST, Lead, Row, listed
from muster.spark.result import JobResult, Shown

SCREEN_ROWS = 60
"""The limit per answer; JSON has all."""
DETAIL_ROWS = 12
"""Limit per further table."""
_DECISIVE = (
    *("group", "actor", "gateway", "verdict", "topic", "partition"),
    *("lag_messages", "lag_seconds", "catch_up_seconds", "rule"),
)
"""First in a wide table, in this order, since its other end may not be visible."""
_SENTENCES = ("rule", "evidence")
"""Columns with values that may wrap."""
_FEW_COLUMNS = 6


def print_screens(results: Sequence[JobResult], console: Console, *, details: bool = False) -> list[str]:
    """Print the answers, with ``details`` all tables of the jobs, too, in the columns that fit.

    Returns what is left out, in sentences that name the option which shows it.
    """
    left_out: list[str] = []
    for result in results:
        left_out += _print_screen(result, console)
        for section in result.sections if details else ():
            left_out += _print_section(section, console)
    said = []
    if left_out:
        heads = ["some columns"] if details else list(dict.fromkeys(left_out))
        are = "are" if details or len(heads) > 1 else "is"
        said.append(f"{listed(heads, most=len(heads))} {are} hidden; --wide shows {'them' if are == 'are' else 'it'}")
    if not details:
        said.append("--details shows all tables, --json all rows")
    return said


def _print_screen(result: JobResult, console: Console) -> Sequence[str]:
    heading, screen = screen_of(result)
    console.print(Text(f"\n{result.job}: {heading}", style="bold"))
    console.print(Text(f"{screen.level.upper()}: {screen.summary}"))
    for text in screen.more[:MOST]:
        console.print(Text(text))
    if not screen.rows:
        return ()
    console.print()
    total = screen.total if len(screen.rows) > 1 else None
    left_out = _print_rows(screen.columns, screen.rows[:SCREEN_ROWS], console, total)
    _print_hidden((screen.count or len(screen.rows)) - SCREEN_ROWS, console)
    return left_out


def _print_section(section: Shown, console: Console) -> Sequence[str]:
    console.print(Text(f"\n{section.title}", style="bold"))
    if not section.rows:
        console.print(Text("nothing", style="dim"))
        return ()
    names = [column.name for column in section.columns]
    rows = [dict(zip(names, row, strict=True)) for row in section.rows[:DETAIL_ROWS]]
    left_out = _print_rows(leads_of(names), rows, console, None)
    _print_hidden(len(section.rows) - DETAIL_ROWS, console)
    return left_out


def _print_rows(columns: Sequence[Lead], rows: Sequence[Row], console: Console, total: Row | None) -> Sequence[str]:
    table = fitted(columns, rows, console.width, total=total)
    print_table(console, table.heads, table.rows, table.are_numbers)
    return table.left_out


def _print_hidden(count: int, console: Console) -> None:
    if count > 0:
        console.print(Text(f"{count:,} more", style="dim"))


def leads_of(names: Sequence[str]) -> list[Lead]:
    """Return the columns of a section's table, those that decide first if there are many."""
    order = list(names)
    if len(names) > _FEW_COLUMNS:
        order.sort(key=lambda name: _DECISIVE.index(name) if name in _DECISIVE else len(_DECISIVE))
    return [Lead(name=name, label=name.replace("_", " "), is_text=name in _SENTENCES) for name in order]
