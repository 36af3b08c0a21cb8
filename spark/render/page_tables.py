"""Tables of a page: cells with units, numbers right-aligned, long names in one line and complete when copied. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from html import escape
from itertools import pairwise

from markupsafe import Markup

from muster.actors.runtime.narrow import common_beginning
from muster.spark.render.screens.screen import Lead, Row
from muster.spark.units import cell_in

LONGEST = 28
"""Maximum number of characters that are shown unchanged."""
_BEGIN, _END = 12, 9
"""Minimum shown of a longer one: a member id differs from others at its end."""
_BEFORE_THE_DIFFERENCE = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    text: Markup
    classes: str
    """For the style sheet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTable:
    caption: str
    heads: Sequence[Cell]
    rows: Sequence[Sequence[Cell]]
    """The first cell of a row is its heading."""


def page_table(caption: str, columns: Sequence[Lead], rows: Sequence[Row]) -> PageTable:
    """Return the table without columns that have no value in any row."""
    columns = [lead for lead in columns if any(row.get(lead.name) is not None for row in rows)]
    cells = [_column(lead, [row.get(lead.name) for row in rows]) for lead in columns]
    heads = [Cell(text=Markup(escape(lead.label)), classes=_classes(lead, rows)) for lead in columns]
    return PageTable(caption=caption, heads=heads, rows=list(zip(*cells, strict=True)))


def _column(lead: Lead, values: Sequence[object]) -> list[Cell]:
    classes = _classes(lead, [{lead.name: value} for value in values])
    texts = [cell_in(value, lead.name) for value in values]
    alike = shared_beginnings(texts)
    return [
        Cell(text=_text(lead, text, alike.get(text, 0)), classes=_of_verdict(lead, text, classes)) for text in texts
    ]


def _text(lead: Lead, text: str, alike: int) -> Markup:
    whole = escape(text)
    return Markup(f'<span title="{whole}">{whole}</span>') if lead.is_text else shortened(text, alike)


def _classes(lead: Lead, rows: Sequence[Row]) -> str:
    is_right = lead.is_right or any(isinstance(row.get(lead.name), int | float | Decimal) for row in rows)
    return " ".join(name for name, has in (("n", is_right), ("minor", lead.minor), ("text", lead.is_text)) if has)


def _of_verdict(lead: Lead, text: str, classes: str) -> str:
    return f"{classes} verdict-{text.lower()}".strip() if lead.name == "verdict" else classes


def shared_beginnings(texts: Sequence[str]) -> Mapping[str, int]:
    """Return by long name the length of the beginning that it shares with others that would look alike when
    shortened."""
    alike: dict[str, set[str]] = defaultdict(set)
    for text in texts:
        if len(text) > LONGEST and text.isascii():
            alike[text[:_BEGIN]].add(text)
    return {text: common_beginning(same) for same in alike.values() if len(same) > 1 for text in same}


def shortened(text: str, alike: int = 0) -> Markup:
    """Return the name as HTML. Part of a long name is hidden and nothing is removed: copying and searching find all of
    it. The middle is hidden, or the part before the place where it differs from others, ``alike`` characters from its
    beginning. Non-ASCII text is cut at its end, since a cut between two characters of one sign is not possible."""
    whole = escape(text)
    if len(text) <= LONGEST:
        return Markup(whole if text.isascii() else f"<bdi>{whole}</bdi>")
    if not text.isascii():
        return Markup(f'<bdi class="id end" title="{whole}">{whole}</bdi>')
    differs = min(alike, len(text) - _END) - _BEFORE_THE_DIFFERENCE
    cuts = [0, *([differs] if differs > _BEGIN else []), len(text) - _END, len(text)]
    parts = (escape(text[start:end]) for start, end in pairwise(cuts))
    kind = "id two" if differs > _BEGIN else "id"
    return Markup(f'<span class="{kind}" title="{whole}">{"".join(f"<span>{part}</span>" for part in parts)}</span>')
