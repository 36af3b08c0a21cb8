"""Who is behind, and will they catch up?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from muster.spark.jobs.lag import RULES
from muster.spark.jobs.lag_verdicts import ENDED, OK, REWIND, STALLED, STOPPED, WARNING
from muster.spark.render.screens.screen import (
    JobScreen,
    Lead,
    Level,
    Row,
    Screen,
    counted,
    is_cut,
    listed,
    named,
    rows_of,
)
from muster.spark.result import JobResult
from muster.spark.units import lasting

_BAD = (REWIND, STALLED, STOPPED)
_BEHIND_S = RULES.recent_ms / 1000
"""The lag of a group that keeps up varies, and is younger than this."""
_COLUMNS = (
    Lead(name="group", label="group"),
    Lead(name="verdict", label="verdict"),
    Lead(name="lag_messages", label="messages behind"),
    Lead(name="lag_seconds", label="oldest of them"),
    Lead(name="catches_up", label="caught up in", is_right=True),
    Lead(name="consumed_per_second", label="consumed per s", minor=True),
    Lead(name="produced_per_second", label="produced per s", minor=True),
    Lead(name="lost_messages", label="deleted unread", minor=True),
    Lead(name="rule", label="why", is_text=True, minor=True),
)


def _screen(result: JobResult) -> Screen:
    groups = sorted(
        ({**row, "catches_up": _catches_up(row)} for row in rows_of(result, "groups")),
        key=lambda row: (_rank(row), -(row["lag_messages"] or 0), row["group"]),
    )
    lost = [row for row in groups if row["lost_messages"] and row["verdict"] != ENDED]
    bad = [row for row in groups if row["verdict"] in _BAD]
    behind = [row for row in groups if _falls_behind(row)]
    ended = [row for row in groups if row["verdict"] == ENDED]
    return Screen(
        level=Level.ACT if bad else Level.LOOK if behind or lost else Level.WELL,
        summary=_summary(groups, bad, behind, cut=is_cut(result, "groups")),
        more=_more(lost, ended),
        columns=[lead for lead in _COLUMNS if lost or lead.name != "lost_messages"],
        rows=groups,
    )


def _summary(groups: Sequence[Row], bad: Sequence[Row], behind: Sequence[Row], *, cut: bool) -> str:
    if not groups:
        return "No group has committed anything."
    whole = counted(len(groups), "group") + (" and more" if cut else "")
    if not bad and not behind:
        return f"No group falls behind: {whole}."
    said = []
    if bad:
        names = listed([_standing(row) for row in bad], most=2)
        said.append(f"{len(bad):,} of {whole} {_gets('get', bad)} no further: {names}.")
    if behind:
        verb = _gets("fall", behind)
        of = "" if bad else f" of {whole}"
        said.append(f"{len(behind):,}{of} {verb} behind: {listed([_standing(row) for row in behind], most=2)}.")
    return " ".join(said)


def _more(lost: Sequence[Row], ended: Sequence[Row]) -> list[str]:
    said = []
    if lost:
        names = [f"{named(row['group'])} {row['lost_messages']:,}" for row in lost]
        said.append(f"Deleted before they were consumed: {listed(names)} messages.")
    if ended:
        names = [named(row["group"]) for row in ended]
        said.append(f"{ENDED}, its members left when they had read to the end: {listed(names)}.")
    return said


def _standing(row: Row) -> str:
    """Its lag is unknown if there is no row of the log's end yet."""
    facts = [row["verdict"]] if row["verdict"] in _BAD else []
    if row["lag_messages"] is not None:
        facts.append(f"{row['lag_messages']:,} behind")
    return f"{named(row['group'])} ({', '.join(facts)})" if facts else named(row["group"])


def _gets(verb: str, rows: Sequence[Row]) -> str:
    return f"{verb}s" if len(rows) == 1 else verb


def _falls_behind(row: Row) -> bool:
    """By Burrow's rules, or because it is late and produces faster than it consumes."""
    if row["verdict"] == WARNING:
        return True
    return row["verdict"] == OK and (row["lag_seconds"] or 0) >= _BEHIND_S and _is_slower(row)


def _is_slower(row: Row) -> bool:
    consumed, produced = row["consumed_per_second"], row["produced_per_second"]
    return row["catch_up_seconds"] is None and consumed is not None and produced is not None and consumed < produced


def _catches_up(row: Row) -> str:
    match row["verdict"]:
        case "ENDED":
            return "ended"
        case "STOPPED" | "STALLED":
            return "never"
    if row["lag_messages"] == 0:
        return "now"
    if row["catch_up_seconds"] is not None:
        return lasting(round(row["catch_up_seconds"]))
    if row["verdict"] == OK and row["lag_seconds"] is not None and row["lag_seconds"] < _BEHIND_S:
        return "keeps up"
    return "never" if _is_slower(row) else "not known"


def _rank(row: Row) -> Any:
    order = (*_BAD, WARNING)
    if row["verdict"] in order:
        return order.index(row["verdict"])
    if _falls_behind(row):
        return len(order)
    return len(order) + (2 if row["verdict"] == ENDED else 1 if row["lag_messages"] else 3)


SCREEN = JobScreen(
    job="lag", short="lag", text="Who is behind, and will they catch up?", plot="over_time", screen=_screen
)
