"""Fits a table to the width of a terminal: ids and names are shortened, columns left out. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from enum import Enum
from itertools import pairwise, takewhile
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

ONLY_ALIKE = -1
"""A column's ``optional`` if it may be left out only where all its cells are alike."""
NOTHING = "-"
"""A cell without content."""
GAP = 2
"""Blanks between two columns."""
_COMFORT = 28
_LEAST = 10
_DIGITS = 7
"""Digits of an id that are shown at least, as git shows of a commit."""
_ID = re.compile(r"(.*-)?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32,})", re.DOTALL)
"""A UUID or a longer hash, after the client id or instance id with which Kafka's member ids begin."""
_BASE64 = re.compile(r"(?=.*[A-Z])(?=.*[a-z])(?=.*[0-9])()([0-9A-Za-z+/_-]{22})")
"""A UUID as clients of the consumer protocol (KIP-848) write it."""
_PASSES = 3
"""Passes over names that look alike: each may tell apart what the one before did not."""
_MORE_DIGITS = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{1,4}){1,3}(-[0-9a-f]{1,12})?$")
"""Digits of an id that its first eight do not tell apart."""
_TAILS = (1 / 2, 3 / 4, 1 / 4)
"""Shares of a shortened name that its end may have, the first that tells the names apart."""
_HEAD, _BEFORE = 4, 3
"""Cells of the beginning, and characters before the place that tells a name apart, where its ends do not."""


class Kind(Enum):
    """How the cells of a column may be shortened."""

    WHOLE = "not at all"
    ID = "to its first digits, unique in the table; what is in front of them as a name"
    NAME = "in the middle; different names stay different"
    CONSTANT = "as a name, but only after all others"
    LIST = "to its first items, separated by commas, and the number of the others"
    TEXT = "at the end"


class Column(NamedTuple):
    """A column of a table, and what may happen to it where there is no room."""

    title: str
    kind: Kind = Kind.WHOLE
    optional: int = 0
    """Above 0, or ONLY_ALIKE, if it may be left out. Of several, one without content goes first, then one whose cells
    are all alike, then that with the largest number, of equal ones the rightmost.
    """


class Fitted(NamedTuple):
    """A table that is as wide as the terminal, or less; if ``fits`` is false, its cells are whole, and wider."""

    kept: list[int]
    """Indexes of the columns that are left."""
    rows: list[list[str]]
    """Cells of these columns."""
    shortened: frozenset[Kind]
    """Kinds of the columns that have shortened cells."""
    fits: bool


def fit(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    width: int,
    ellipsis: str = "…",
    *,
    comfort: int = _COMFORT,
    least: int = _LEAST,
) -> Fitted:
    """Shorten ids; then leave out columns until the others are readable; then shorten names and texts.

    ``comfort``: columns are left out rather than names shortened to less. ``least``: no name is shortened to less.
    """
    kept = list(range(len(columns)))
    whole = [[row[index] for row in rows] for index in kept]
    ids = _abbreviations(cell for index in kept if columns[index].kind is Kind.ID for cell in whole[index])
    short = [
        [ids.get(cell, cell) for cell in whole[index]] if columns[index].kind is Kind.ID else whole[index]
        for index in kept
    ]
    if _width(columns, whole, kept) <= width:
        return Fitted(kept, _rows(whole, kept, len(rows)), shortened=frozenset(), fits=True)
    alike = [are_alike(cells) for cells in whole]

    def rank(index: int) -> tuple[bool, bool, int, int]:
        return {*whole[index]} <= {NOTHING}, alike[index], columns[index].optional, index

    for floor, constants, may_leave_out in ((comfort, True, True), (least, True, False), (least, False, False)):
        stay = [_stays_whole(column, constants=constants) for column in columns]
        while (found := _shrunk(columns, short, kept, width, floor, ellipsis, stay)) is None and may_leave_out:
            optional = [each for each in kept if columns[each].optional > 0 or (columns[each].optional and alike[each])]
            if not optional:
                break
            kept.remove(max(optional, key=rank))
        if found is not None:
            shortened = {columns[at].kind for at, cells in zip(kept, found, strict=True) if cells != whole[at]}
            return Fitted(kept, _rows(found, range(len(kept)), len(rows)), frozenset(shortened), fits=True)
    return Fitted(kept, _rows(whole, kept, len(rows)), shortened=frozenset(), fits=False)


def are_alike(cells: Sequence[str]) -> bool:
    """Whether there are several, and all have the same content."""
    return len(cells) > 1 and len({*cells}) == 1


def is_abbreviation(text: str, whole: str) -> bool:
    """Whether the text is what a table may show of the id.

    It has at least the first digits, after all that is in front of them, or after an ellipsis for some of that.
    """
    front, digits = _parts(whole)
    form = re.compile(".*".join(map(re.escape, text.replace("...", "…").split("…"))), re.DOTALL)
    shown = (digits[:count] for count in range(_DIGITS, len(digits)))
    return any(text.endswith(each) and form.fullmatch(front + each) for each in shown)


def _shrunk(
    columns: Sequence[Column],
    cells: Sequence[Sequence[str]],
    kept: Sequence[int],
    width: int,
    least: int,
    ellipsis: str,
    stay: Sequence[bool],
) -> list[list[str]] | None:
    """Return the columns, the widest shortened as far as necessary; None if that is not possible."""
    widths = [_widest(columns[index], cells[index]) for index in kept]
    floors = [
        size if stay[index] else min(size, max(least, cell_len(columns[index].title)))
        for index, size in zip(kept, widths, strict=True)
    ]
    room = width - GAP * (len(kept) - 1)
    while sum(floors) <= room:
        found: list[list[str]] = []
        for place, (index, size) in enumerate(zip(kept, _shares(widths, floors, room), strict=True)):
            shortened = _shortened(columns[index], cells[index], size, ellipsis)
            if shortened is None:  # a column that has to be wider, so others have to be narrower
                floors[place] = size + 1
                break
            found.append(shortened)
        else:
            return found
    return None


def _stays_whole(column: Column, *, constants: bool) -> bool:
    """Whether its cells are not shortened; a text that may be left out is left out instead."""
    return (
        column.kind is Kind.WHOLE
        or (column.kind is Kind.CONSTANT and constants)
        or (column.kind is Kind.TEXT and column.optional > 0)
    )


def _shares(widths: Sequence[int], floors: Sequence[int], room: int) -> list[int]:
    """Return widths that fit into the room: those above a common limit are cut to it, none below its floor."""
    low, high = 0, max(widths, default=0)
    while low < high:
        limit = (low + high + 1) // 2
        if sum(max(floor, min(size, limit)) for size, floor in zip(widths, floors, strict=True)) <= room:
            low = limit
        else:
            high = limit - 1
    shares = [max(floor, min(size, low)) for size, floor in zip(widths, floors, strict=True)]
    for place, size in enumerate(widths):
        if shares[place] < size and sum(shares) < room:
            shares[place] += 1
    return shares


def _shortened(column: Column, cells: Sequence[str], width: int, ellipsis: str) -> list[str] | None:
    """Return the cells in this width; None if two that differ would look the same."""
    distinct = [cell for cell in dict.fromkeys(cells) if cell_len(cell) > width]
    if not distinct:
        return list(cells)
    room = width - cell_len(ellipsis)
    if column.kind is Kind.TEXT:
        return [_cut(cell, width, room, 0, ellipsis) for cell in cells]
    if column.kind is Kind.LIST:
        return [cell if cell_len(cell) <= width else _first_items(cell, width, ellipsis) for cell in cells]
    others = {*cells} - {*distinct}
    least = max(map(_digits_of, distinct)) if column.kind is Kind.ID else 0
    apart = () if column.kind is Kind.ID else (None,)
    for share in (*_TAILS, *apart, 1, 0):
        if share is None:
            found = _apart(distinct, width, ellipsis)
        else:
            tail = min(room, max(round(room * share), least))
            found = {cell: _cut(cell, width, room, tail, ellipsis) for cell in distinct}
        if len({*found.values()} | others) == len(distinct) + len(others):
            return [found.get(cell, cell) for cell in cells]
    return None


def _apart(cells: Sequence[str], width: int, ellipsis: str) -> dict[str, str]:
    """Return each cell's beginning and the part around the first place where it differs from those that look alike."""
    room = width - cell_len(ellipsis)
    found = {cell: _cut(cell, width, room, room // 2, ellipsis) for cell in cells}
    for _ in range(_PASSES):
        by_look = defaultdict(list)
        for cell, look in found.items():
            by_look[look].append(cell)
        for same in by_look.values():
            if len(same) > 1:
                differs = common_beginning(same)
                found |= {cell: _around(cell, differs, width, ellipsis) for cell in same}
    return found


def common_beginning(texts: Collection[str]) -> int:
    """Return its length; the first and last in order share the least."""
    pairs = zip(min(texts), max(texts), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _around(cell: str, differs: int, width: int, ellipsis: str) -> str:
    part = cell[max(differs - _BEFORE, 0) :]
    room = width - _HEAD - cell_len(ellipsis)
    if cell_len(part) > room:
        part = f"{set_cell_size(part, room - cell_len(ellipsis)).rstrip()}{ellipsis}"
    return f"{set_cell_size(cell, _HEAD).rstrip()}{ellipsis}{part}"


def _cut(cell: str, width: int, room: int, tail: int, ellipsis: str) -> str:
    if cell_len(cell) <= width:
        return cell
    head, end = set_cell_size(cell, room - tail), set_cell_size(cell[::-1], tail)[::-1]
    return f"{head.rstrip()}{ellipsis}{end.lstrip()}"


def _first_items(cell: str, width: int, ellipsis: str) -> str:
    """``flights-0, flights-1 +4``; if not even the first fits, it is shortened as a name."""
    first, *others = re.split(r",\s*", cell)
    more = f" +{len(others)}" * bool(others)
    room = width - len(more) - cell_len(ellipsis)
    shown = _cut(first, width - len(more), room, room // 2, ellipsis) + more
    text = first
    for count, item in enumerate(others, 1):
        text = f"{text}, {item}"
        if cell_len(longer := f"{text} +{len(others) - count}") > width:
            break
        shown = longer
    return shown


def _abbreviations(ids: Iterable[str]) -> dict[str, str]:
    """Return the text for each id: what is in front, and as many of its digits as tell it apart, as git does."""
    parts = {each: found for each in ids if (found := _parts(each))[1]}
    ordered = sorted({digits for _, digits in parts.values()})
    shared = [-1, *(common_beginning(pair) for pair in pairwise(ordered)), -1]
    counts = {digits: max(_DIGITS, *(each + 1 for each in shared[at : at + 2])) for at, digits in enumerate(ordered)}
    return {each: front + digits[: counts[digits]] for each, (front, digits) in parts.items()}


def _digits_of(abbreviation: str) -> int:
    """Return the length of the digits at the end, with the hyphen before them; 0 if there are none of an id."""
    if found := _MORE_DIGITS.search(abbreviation):
        return len(found[0])
    length = len(abbreviation) - abbreviation.rfind("-")
    return length if length <= _DIGITS + 2 else 0


def _parts(whole: str) -> tuple[str, str]:
    """Return what is in front of the digits, and the digits; none if it is no such id."""
    found = _ID.fullmatch(whole) or _BASE64.fullmatch(whole)
    return (found[1] or "", found[2]) if found else (whole, "")


def _widest(column: Column, cells: Iterable[str]) -> int:
    return max(map(cell_len, (column.title, *cells)))


def _width(columns: Sequence[Column], cells: Sequence[Sequence[str]], kept: Sequence[int]) -> int:
    return sum(_widest(columns[index], cells[index]) for index in kept) + GAP * (len(kept) - 1)


def _rows(cells: Sequence[Sequence[str]], kept: Sequence[int], count: int) -> list[list[str]]:
    return [[cells[index][row] for index in kept] for row in range(count)]
