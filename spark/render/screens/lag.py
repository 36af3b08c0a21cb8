"""Screen of the question: who is behind, and will they catch up?"""

from __future__ import annotations

from collections.abc import Sequence

from muster.spark.jobs.lag_verdicts import ENDED, OK, REWIND, RULES, STALLED, STOPPED, WARNING
from muster.spark.render.screens.screen import (
    JobScreen,
    Lead,
    Level,
    Row,
    Screen,
    counted,
    listed,
    named,
    rows_of,
    total_line,
    total_of,
)
from muster.spark.result import JobResult
from muster.spark.units import lasting

_BAD = (REWIND, STALLED, STOPPED)
_BEHIND_S = RULES.recent_ms / 1000
"""Limit of the lag of a group that keeps up, which varies and is younger than this."""
_COLUMNS = (
    Lead(name="group", label="group"),
    Lead(name="verdict", label="verdict"),
    Lead(name="lag_messages", label="messages behind", head="lag"),
    Lead(name="lag_seconds", label="oldest of them", head="oldest"),
    Lead(name="catches_up", label="caught up in", head="catches up", is_right=True),
    Lead(name="consumed_per_second", label="consumed per s", head="consumed/s", minor=True),
    Lead(name="produced_per_second", label="produced per s", head="produced/s", minor=True),
    Lead(name="lost_messages", label="deleted unread", minor=True),
    Lead(name="rule", label="why", is_text=True, minor=True),
)


def _screen(result: JobResult) -> Screen:
    groups = sorted(
        ({**row, "catches_up": _catches_up(row)} for row in rows_of(result, "groups")),
        key=lambda row: (_rank(row), -(row["lag_messages"] or 0), row["group"]),
    )
    total = total_of(result, "groups")
    lost = [row for row in groups if row["lost_messages"] and row["verdict"] != ENDED]
    bad = [row for row in groups if row["verdict"] in _BAD and not row["left"]]
    left = [row for row in groups if row["verdict"] in _BAD and row["left"]]
    behind = [row for row in groups if row["falls_behind"]]
    ended = [row for row in groups if row["verdict"] == ENDED]
    waiting = [row for row in groups if _is_waiting(row)]
    count = total.get("groups", len(groups))
    return Screen(
        level=_level(bad, [*behind, *left, *lost], waiting),
        summary=_summary(
            count,
            _Some(bad, total.get("stuck_groups")),
            _Some(behind, total.get("behind_groups")),
            _Some(left, total.get("left_groups")),
            _waiting(waiting, total, count),
        ),
        more=_more(lost, ended),
        columns=[lead for lead in _COLUMNS if lost or lead.name != "lost_messages"],
        rows=groups,
        total={**total, "group": total_line(count, "group")} if total else None,
        count=count,
    )


class _Some:
    """Groups that have something in common, the worst first, and how many there are in all."""

    def __init__(self, rows: Sequence[Row], count: int | None) -> None:
        self.count = len(rows) if count is None else count
        self.names = listed([_standing(row) for row in rows], most=2, count=self.count)

    def sentence(self, verb: str, of: str, rest: str) -> str:
        return f"{self.count:,}{of} {verb}{'s' if self.count == 1 else ''} {rest}: {self.names}."


def _level(bad: Sequence[Row], look: Sequence[Row], waiting: Sequence[Row]) -> Level:
    """Return the level; a group without members is not yet to be looked at while it may be only restarting."""
    if bad:
        return Level.ACT
    if look or any((row["lag_seconds"] or 0) >= _BEHIND_S for row in waiting):
        return Level.LOOK
    return Level.INFO if waiting else Level.WELL


def _is_waiting(row: Row) -> bool:
    """Return whether a group has unread messages and nobody to read them, and no other sentence says so."""
    is_other = row["falls_behind"] or row["verdict"] in (*_BAD, ENDED)
    return bool(row["without_members"] and row["lag_messages"] and not is_other)


def _summary(count: int, bad: _Some, behind: _Some, left: _Some, waiting: str) -> str:
    if not count:
        return "No group has committed anything."
    whole = counted(count, "group")
    said = []
    if bad.count:
        said.append(bad.sentence("get", f" of {whole}", "no further"))
    if behind.count:
        said.append(behind.sentence("fall", "" if bad.count else f" of {whole}", "behind"))
    if left.count:
        said.append(f"Left by their members before the end of their topics: {left.names}.")
    if waiting:
        said.append(waiting)
    return " ".join(said) or f"No group falls behind: {whole}."


def _waiting(rows: Sequence[Row], total: Row, groups: int) -> str:
    """Return the sentence on the groups that wait for a member; empty if there are none."""
    if not rows:
        return ""
    count = total.get("waiting_groups", len(rows))
    behind = total.get("waiting_lag_messages", sum(row["lag_messages"] for row in rows))
    names = listed([named(row["group"]) for row in rows], count=count)
    verbs = "has no members and is" if count == 1 else "have no members and are"
    return f"{count:,} of {counted(groups, 'group')} {verbs} {behind:,} behind: {names}."


def _more(lost: Sequence[Row], ended: Sequence[Row]) -> list[str]:
    said = []
    if lost:
        names = [f"{named(row['group'])} {row['lost_messages']:,}" for row in lost]
        said.append(f"Deleted before they were consumed: {listed(names)} messages.")
    if ended:
        names = [named(row["group"]) for row in ended]
        reading = f"its members left when they had read everything older than {_BEHIND_S:g} s"
        said.append(f"{ENDED}, {reading}: {listed(names)}.")
    return said


def _standing(row: Row) -> str:
    """Return the standing of a group: its lag is unknown if there is no row of the log's end yet."""
    facts = [row["verdict"]] if row["verdict"] in _BAD else []
    if row["lag_messages"] is not None:
        facts.append(f"{row['lag_messages']:,} behind")
    return f"{named(row['group'])} ({', '.join(facts)})" if facts else named(row["group"])


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
    if row["without_members"]:
        return "never without members"
    if row["catch_up_seconds"] is not None:
        return lasting(round(row["catch_up_seconds"]))
    if row["verdict"] == OK and row["lag_seconds"] is not None and row["lag_seconds"] < _BEHIND_S:
        return "keeps up"
    return "never" if _is_slower(row) else "not known"


def _rank(row: Row) -> int:
    """Rank from the worst on: stuck, left by its members before the end, falling behind, behind, ended, at the end."""
    if row["verdict"] in _BAD:
        return len(_BAD) if row["left"] else _BAD.index(row["verdict"])
    after = len(_BAD) + 1
    if row["falls_behind"]:
        return after + (0 if row["verdict"] == WARNING else 1)
    return after + (3 if row["verdict"] == ENDED else 2 if row["lag_messages"] else 4)


SCREEN = JobScreen(
    job="lag", short="lag", text="Who is behind, and will they catch up?", plot="over_time", screen=_screen
)
