"""What matters of the jobs' answers, in a few sentences per job. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from actors.terminal import printable
from spark.answer import Answer

MOST = 3
"""Of one kind; the tables have the others."""
SKEWED_MAX_OVER_MEAN = 2.0

_Row = Mapping[str, Any]


def findings(answer: Answer) -> list[str]:
    """Sentences, the worst first; none where nothing is out of the ordinary."""
    return [text for section, tell in _TOLD.get(answer.job, ()) for text in _first(_rows(answer, section), tell)]


def _first(rows: Sequence[_Row], tell: Callable[[_Row], str | None]) -> list[str]:
    return [text for text in map(tell, rows) if text is not None][:MOST]


def _rows(answer: Answer, name: str) -> list[_Row]:
    return list(_of_section(answer, name))


def _of_section(answer: Answer, name: str) -> Iterator[_Row]:
    for section in answer.sections:
        if section.name == name:
            for row in section.rows:
                yield dict(zip((column.name for column in section.columns), row, strict=True))


def _standing(row: _Row) -> str | None:
    if row["verdict"] == "OK":
        return None
    behind = "" if row["lag_messages"] is None else f", {row['lag_messages']:,} behind"
    return f"{_name(row['group'])} is {row['verdict']} on {_name(row['topic'])}-{row['partition']}{behind}."


def _culprit(row: _Row) -> str:
    who = _name(row["group_instance_id"] or row["client_id"] or "A client without an id")
    count, lost_s = row["rebalances"], row["lost_partition_seconds"]
    cost = "" if lost_s is None else f", which cost {lost_s:,.0f} partition-seconds"
    times = f"{count:,} rebalance{'' if count == 1 else 's'}"
    return f"{who} at {row['host']} caused {times} of {_name(row['group'])}{cost}."


def _hole(row: _Row) -> str:
    cause = row["cause"].replace("_", " ")
    usual = "" if row["expected_share"] is None else f", where {row['expected_share']:.0%} was usual"
    began = f"{row['began']:%Y-%m-%d %H:%M}"
    return f"Gateway {row['gateway']} sent {row['share']:.0%} without a group from {began} on{usual}: {cause}."


def _uneven(row: _Row) -> str | None:
    if (row["max_over_mean"] or 0) < SKEWED_MAX_OVER_MEAN:
        return None
    place = f"{row['level'].capitalize()} {row['highest_name']}"
    return (
        f"{place} has {row['max_over_mean']:.1f} times the {row['load'].replace('_', ' ')} of the mean {row['level']}."
    )


def _recovered(row: _Row) -> str:
    fault = " after a " + row["fault"] if row["fault"] else ""
    return f"{row['actor']} did not serve for {row['seconds']:.1f} s{fault}."


def _open(row: _Row) -> str:
    return f"{row['actor']} has not served for {row['open_seconds']:,.0f} s."


def _name(text: str) -> str:
    """In a sentence: set apart from it where it may be written from right to left."""
    shown = printable(text)
    return shown if shown.isascii() else f"\N{FIRST STRONG ISOLATE}{shown}\N{POP DIRECTIONAL ISOLATE}"


_TOLD: Mapping[str, Sequence[tuple[str, Callable[[_Row], str | None]]]] = {
    "lag": (("partitions", _standing),),
    "rebalances": (("culprits", _culprit),),
    "attribution": (("holes", _hole),),
    "placement": (("skew", _uneven),),
    "failover": (("open", _open), ("longest", _recovered)),
}
"""By job: sections, and what is said of each of their rows."""
