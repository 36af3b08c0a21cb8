"""Tables of jobs that fit a terminal, by :mod:`muster.actors.runtime.narrow`. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from muster.actors.runtime.narrow import Column, Kind, fit
from muster.spark.render.screens.screen import Lead, Row
from muster.spark.units import cell_in

_MEMBER_ID = "member_id"
_KEPT = 3
"""Columns that are never left out."""
_SHORT_NAME, _MIN_NAME = 16, 10
"""Minimum width of a name, and where nothing else helps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A table of texts."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    are_numbers: Sequence[bool]
    """Whether each column is right-aligned."""
    left_out: Sequence[str]
    """Heads of columns for which there is no room."""


def fitted(columns: Sequence[Lead], rows: Sequence[Row], width: int, *, total: Row | None = None) -> Fitted:
    """Fit the table to a terminal of that width, with ``total`` as its last row.

    Columns without a value are left out, then, for lack of room, sentences and minor columns, and others only if
    short names make no room for them; of these the last one first.
    """
    leads = [lead for lead in columns if any(row.get(lead.name) is not None for row in rows)]
    are_numbers = [lead.is_right or any(_is_number(row.get(lead.name)) for row in rows) for lead in leads]
    heads = [(lead.head or lead.label).upper() for lead in leads]
    cells = [[cell_in(row.get(lead.name), lead.name) for lead in leads] for row in rows]
    if total:
        cells.append(["" if total.get(lead.name) is None else cell_in(total[lead.name], lead.name) for lead in leads])
    for others, least in ((False, _SHORT_NAME), (True, _MIN_NAME)):
        fitting = [
            Column(head, _kind(lead, is_number=right), _rank(place, lead, len(leads), others=others))
            for place, (head, lead, right) in enumerate(zip(heads, leads, are_numbers, strict=True))
        ]
        found = fit(fitting, cells, width, comfort=_SHORT_NAME, least=least)
        if found.fits:
            break
    return Fitted(
        heads=[heads[at] for at in found.kept],
        rows=found.rows,
        are_numbers=[are_numbers[at] for at in found.kept],
        left_out=[head for at, head in enumerate(heads) if at not in found.kept],
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal)


def _kind(lead: Lead, *, is_number: bool) -> Kind:
    if lead.is_text:
        return Kind.TEXT
    if is_number:
        return Kind.WHOLE
    return Kind.ID if lead.name == _MEMBER_ID else Kind.NAME


def _rank(place: int, lead: Lead, count: int, *, others: bool) -> int:
    """Return the column's ``optional``: sentences go first, then minor columns, then ``others``; the last one first."""
    if lead.is_text:
        return 2 * count + place + 1
    if lead.minor:
        return count + place + 1
    return place + 1 if others and place >= _KEPT else 0
