"""The list of groups: filtered, sorted and cut into pages, for 10,000 of them each second."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from muster.gateway.console.model import text
from muster.gateway.console.model.snapshot import GroupRow
from muster.gateway.console.model.table import Column, Kind, Table

SHOW: Mapping[str, str] = {
    "": "All groups",
    "behind": "Behind by a minute or more",
    "idle": "With lag, without members",
    "uncommitted": "With partitions without a commit",
}
_SHOWN: Mapping[str, Callable[[GroupRow], bool]] = {
    "behind": lambda row: (row.lag_s or 0) >= 60,
    "idle": lambda row: not row.members and bool(row.lag),
    "uncommitted": lambda row: row.messages_without_commit > 0,
}
COLUMNS = (
    Column("group", "Group", Kind.NAME),
    Column("state", "State"),
    Column("type", "Type"),
    Column("members", "Members", Kind.COUNT),
    Column("lag", "Lag", Kind.COUNT),
    Column("lag_s", "Lag, time", Kind.SECONDS),
    Column("behind", "Behind", Kind.COUNT),
    Column("partitions", "Partitions", Kind.COUNT),
    Column("without_commit", "No commit", Kind.COUNT),
    Column("bytes_s", "Bytes/s", Kind.RATE),
)
LARGEST_FIRST = frozenset({"members", "lag", "lag_s", "behind", "partitions", "without_commit", "bytes_s"})


class Choice(NamedTuple):
    """Filter and order of the list, as in the URL's query."""

    query: str = ""
    state: str = ""
    show: str = ""
    sort: str = ""
    """Name of a column; empty: the worst first."""
    descending: bool = False

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Choice:
        """Read the choice from a URL's query; what is not known is left out."""
        sort = query.get("sort", "")
        return cls(
            query.get("q", "")[:256],
            query.get("state", "")[:64],
            query.get("show", "") if query.get("show", "") in _SHOWN else "",
            sort if any(column.name == sort for column in COLUMNS) else "",
            query.get("desc", "") == "1",
        )


def chosen(rows: Sequence[GroupRow], choice: Choice, rates: Mapping[str, float]) -> list[GroupRow]:
    """Return the groups of the choice, in its order. Unknown values come last in both directions."""
    found = list(rows)
    if choice.show:
        found = list(filter(_SHOWN[choice.show], found))
    if choice.state:
        found = [row for row in found if row.state == choice.state]
    if wanted := choice.query.strip().casefold():
        found = [row for row in found if wanted in row.group.casefold()]
    if not choice.sort:
        return sorted(found, key=_worst)
    if choice.sort == "bytes_s":
        values = {row.group: rates.get(row.group) for row in found}
    else:
        values = {row.group: getattr(row, choice.sort) for row in found}
    known = sorted((row for row in found if values[row.group] is not None), key=lambda row: row.group)
    known.sort(key=lambda row: cast(Any, values[row.group]), reverse=choice.descending)
    return known + sorted((row for row in found if values[row.group] is None), key=lambda row: row.group)


def _worst(row: GroupRow) -> tuple[Any, ...]:
    seconds, lag = row.lag_s, row.lag
    return -row.messages_without_commit, seconds is None, -(seconds or 0), lag is None, -(lag or 0), row.group


def page(rows: Sequence[GroupRow], rates: Mapping[str, float], start: int, end: int) -> list[dict[str, Any]]:
    """Return rows of the list as the grid shows them: texts only."""
    return [_shown(row, rates.get(row.group)) for row in rows[max(start, 0) : max(end, 0)]]


def _shown(row: GroupRow, rate: float | None) -> dict[str, Any]:
    return {
        "group": row.group,
        "state": row.state,
        "type": row.type,
        "members": text.count(row.members),
        "lag": text.count(row.lag),
        "lag_s": text.duration(row.lag_s),
        "behind": f"{text.count(row.behind)} / {text.count(row.partitions)}",
        "without_commit": text.count(row.without_commit) if row.without_commit else text.UNKNOWN,
        "bytes_s": text.rate(rate),
    }


def table(rows: Sequence[GroupRow], rates: Mapping[str, float]) -> Table:
    """Return the list for a download."""
    return Table(COLUMNS, [row._asdict() | {"bytes_s": rates.get(row.group)} for row in rows])
