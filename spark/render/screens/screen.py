"""The top of a job's page: a question, its answer in a sentence or two, and the rows that decide it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from muster.actors.runtime.terminal import printable
from muster.spark.result import JobResult

Row = Mapping[str, Any]

MOST = 3
"""Limit on items of one kind in a sentence; the tables have the others."""
_MAX_NAME, _END = 48, 12
"""Lengths in a sentence; the tables have the whole name."""


class Level(StrEnum):
    """Urgency for a reader."""

    ACT = "act"
    LOOK = "look"
    WELL = "well"
    INFO = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """A column of a screen's table."""

    name: str
    """Column in the rows; its suffix is the unit."""
    label: str
    head: str = ""
    """Label on a terminal, if shorter."""
    minor: bool = False
    """Left out on a narrow page or terminal."""
    is_right: bool = False
    """Right-aligned as numbers are, even if words replace them."""
    is_text: bool = False
    """A sentence, which may wrap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    level: Level
    summary: str
    """One or two sentences."""
    more: Sequence[str] = ()
    """Further sentences, the worst first."""
    columns: Sequence[Lead] = ()
    rows: Sequence[Row] = ()
    """Worst first."""
    total: Row | None = None
    """Last line of the table: a :func:`total_line`, and sums by column. None: sums would mean nothing."""
    folded: bool = False
    """Whether the page has the plot and these rows only among the folded tables: they show nothing yet."""
    count: int | None = None
    """Number of rows, if ``rows`` may be only the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobScreen:
    """Question of a job, and the conversion of its answer to a screen."""

    job: str
    short: str
    """In a word or two, for links."""
    text: str
    plot: str
    """Section whose plot is on the screen."""
    screen: Callable[[JobResult], Screen]


def rows_of(result: JobResult, name: str) -> list[Row]:
    """Return the rows of the section with that name; none if the answer has no such section."""
    return list(_of_section(result, name))


def _of_section(result: JobResult, name: str) -> Iterator[Row]:
    for section in result.sections:
        if section.name == name:
            for row in section.rows:
                yield dict(zip((column.name for column in section.columns), row, strict=True))


def total_of(result: JobResult, name: str) -> Row:
    """Return the sums over all rows of the section with that name; empty if the answer has no such section."""
    return next((section.total or {} for section in result.sections if section.name == name), {})


def named(text: str) -> str:
    """Return the name for use in a sentence: shortened, and isolated from it if it may be written from right to
    left."""
    shown = printable(text)
    if len(shown) > _MAX_NAME:
        shown = f"{shown[: _MAX_NAME - _END - 1]}\N{HORIZONTAL ELLIPSIS}{shown[-_END:]}"
    return (
        shown
        if shown.replace("\N{HORIZONTAL ELLIPSIS}", "").isascii()
        else f"\N{FIRST STRONG ISOLATE}{shown}\N{POP DIRECTIONAL ISOLATE}"
    )


def listed(texts: Sequence[str], *, most: int = MOST, count: int | None = None) -> str:
    """Format a list: ``a, b and 3 more``; ``count``: how many there are, if ``texts`` are only the first."""
    shown = texts[:most]
    left = (len(texts) if count is None else count) - len(shown)
    if left > 0:
        return f"{', '.join(shown)} and {left:,} more"
    return " and ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))


def total_line(number: int, thing: str) -> str:
    """Begin a line of sums: ``total: 2 groups``."""
    return f"total: {counted(number, thing)}"


def counted(number: int, thing: str) -> str:
    """Format a count: ``1 group``, ``2 groups``."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
