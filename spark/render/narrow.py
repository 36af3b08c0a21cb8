"""Tables that fit a terminal: the columns that decide first, long names shortened and still different. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from rich.cells import cell_len

from muster.spark.render.page_tables import common_beginning
from muster.spark.render.screens.screen import Lead, Row
from muster.spark.units import cell_in

_GAP = 2
_MEMBER_ID = "member_id"
_UUID_TAIL = re.compile(r"(?<=-[0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
_NAME, _SHORT_NAME = 32, 16
"""Width of a shortened name, before and after columns are left out for it."""
_BEGIN, _END, _BEFORE = 4, 6, 3
"""Characters shown of the beginning and end of a name, and before the place where it differs from others."""
_KEPT = 3
"""Columns that are never left out."""
_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A table of texts."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    are_numbers: Sequence[bool]
    """Whether each column is right-aligned."""
    left_out: Sequence[str]
    """Heads of columns for which there is no room."""


@dataclass(slots=True)
class _Column:
    lead: Lead
    cells: list[str]
    total: str
    is_right: bool

    @property
    def head(self) -> str:
        return (self.lead.head or self.lead.label).upper()

    @property
    def width(self) -> int:
        return max(map(cell_len, (self.head, self.total, *self.cells)))

    def shorten(self, width: int) -> None:
        if not self.is_right and not self.lead.is_text:
            short = shortened(self.cells, width)
            self.cells = [short[cell] for cell in self.cells]


def fitted(columns: Sequence[Lead], rows: Sequence[Row], width: int, *, total: Row | None = None) -> Fitted:
    """Fit the table to a terminal of that width, with ``total`` as its last row.

    Columns without a value are left out, then, for lack of room, sentences, minor columns, and others from the end.
    """
    found = [
        _column(lead, rows, total or {}) for lead in columns if any(row.get(lead.name) is not None for row in rows)
    ]
    if not _fits(found, width):
        _shorten(found, _NAME)
    left_out = _leave_out([column for column in found if column.lead.is_text or column.lead.minor], found, width)
    if not _fits(found, width):
        _shorten(found, _SHORT_NAME)
    left_out += _leave_out(found[_KEPT:], found, width)
    cells = [column.cells + ([column.total] if total else []) for column in found]
    return Fitted(
        heads=[column.head for column in found],
        rows=list(zip(*cells, strict=True)),
        are_numbers=[column.is_right for column in found],
        left_out=[column.head for column in left_out],
    )


def _column(lead: Lead, rows: Sequence[Row], total: Row) -> _Column:
    values = [row.get(lead.name) for row in rows]
    cells = [cell_in(value, lead.name) for value in values]
    if lead.name == _MEMBER_ID:
        cells = _without_uuid_tails(cells)
    is_right = lead.is_right or any(isinstance(value, int | float | Decimal) for value in values)
    last = total.get(lead.name)
    return _Column(lead, cells, "" if last is None else cell_in(last, lead.name), is_right)


def _fits(columns: Sequence[_Column], width: int) -> bool:
    return sum(column.width + _GAP for column in columns) - _GAP <= width


def _shorten(columns: Sequence[_Column], width: int) -> None:
    for column in columns:
        column.shorten(width)


def _leave_out(candidates: Sequence[_Column], columns: list[_Column], width: int) -> list[_Column]:
    """Remove candidates from ``columns`` until these fit: sentences first, then the last. Returns them in order."""
    gone: list[_Column] = []
    for column in sorted(candidates, key=lambda column: (column.lead.is_text, columns.index(column)), reverse=True):
        if _fits(columns, width):
            break
        columns.remove(column)
        gone.insert(0, column)
    return gone


def _without_uuid_tails(ids: Sequence[str]) -> list[str]:
    """Leave of the UUIDs of member ids the first part only, as far as these are still different."""
    short = {text: _UUID_TAIL.sub("", text) for text in ids}
    short |= {text: text for same in _alike(short) for text in same}
    return [short[text] for text in ids]


def shortened(texts: Sequence[str], width: int) -> Mapping[str, str]:
    """Show each text in at most ``width`` characters: without its middle, or, if that makes it look like another one,
    with what differs in between; in full if that does not suffice."""
    short = {text: _without_middle(text, width) for text in texts}
    for same in _alike(short):
        differs = common_beginning(same)
        short |= {text: _around(text, differs, width) for text in same}
    return short | {text: text for same in _alike(short) for text in same}


def _alike(short: Mapping[str, str]) -> list[list[str]]:
    """Group those that look the same."""
    by_look = defaultdict(list)
    for text, look in short.items():
        by_look[look].append(text)
    return [same for same in by_look.values() if len(same) > 1]


def _without_middle(text: str, width: int) -> str:
    """Cut texts that are not ASCII at their end: a sign may be of several characters."""
    if cell_len(text) <= width:
        return text
    if text.isascii():
        return f"{text[: width - _END - 1]}{_ELLIPSIS}{text[-_END:]}"
    begin = text
    while cell_len(begin) >= width:
        begin = begin[:-1]
    return f"{begin}{_ELLIPSIS}"


def _around(text: str, differs: int, width: int) -> str:
    """Show its beginning, and the part around the place where it differs from others."""
    part = text[differs - _BEFORE :]
    room = width - _BEGIN - 1
    shown = part if len(part) <= room else f"{part[: room - 1]}{_ELLIPSIS}"
    return f"{text[:_BEGIN]}{_ELLIPSIS}{shown}"
