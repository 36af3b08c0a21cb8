"""Screen of the question: which groups rebalance too much, and who causes it?"""

from __future__ import annotations

from muster.spark.render.screens.screen import (
    MOST,
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

_COLUMNS = (
    Lead(name="group", label="group"),
    Lead(name="rebalances", label="rebalances"),
    Lead(name="per_hour", label="per hour"),
    Lead(name="lost_partition_seconds", label="partition-seconds lost", head="lost (partition-s)"),
    Lead(name="max_seconds", label="longest", minor=True),
    Lead(name="caused_by", label="caused most by", head="caused by"),
    Lead(name="caused", label="caused", minor=True),
    Lead(name="cause", label="most often because", head="most often", minor=True),
    Lead(name="advice", label="what would help", is_text=True, minor=True),
)


def _screen(result: JobResult) -> Screen:
    triggering_members, advice = rows_of(result, "culprits"), rows_of(result, "advice")
    storms, flapping = rows_of(result, "storms"), rows_of(result, "flapping")
    groups = [_with_cause(row, triggering_members, advice) for row in rows_of(result, "groups")]
    troubled = list(dict.fromkeys(row["group"] for row in (*storms, *flapping)))
    total = total_of(result, "groups")
    sums = {"groups": len(groups), "rebalances": sum(row["rebalances"] for row in groups), **total}
    summary = _summary(sums, triggering_members, troubled, advised=bool(advice))
    waits = [_triggered_by(row) for row in triggering_members if row["waited_rebalances"]][:MOST]
    return Screen(
        level=Level.LOOK if troubled or advice else Level.WELL,
        summary=summary,
        more=[wait for wait in waits if wait not in summary]
        + [
            f"{named(row['group'])}: {row['advice']} ({row['setting']}). {_sentence(row['evidence'])}" for row in advice
        ],
        columns=_COLUMNS,
        rows=groups,
        total={**total, "group": total_line(sums["groups"], "group")} if groups and total else None,
        count=sums["groups"],
    )


def _summary(sums: Row, triggering_members: list[Row], troubled: list[str], *, advised: bool) -> str:
    if not sums["groups"]:
        return _who(triggering_members) if triggering_members else "No group rebalanced."
    whole = f"{counted(sums['rebalances'], 'rebalance')} of {counted(sums['groups'], 'group')}"
    if troubled:
        count = sums.get("troubled_groups", len(troubled))
        verb = "rebalances" if count == 1 else "rebalance"
        of = [row for row in triggering_members if row["group"] in troubled]
        who = f" {_who(of)}" if of else ""
        return f"{listed([named(group) for group in troubled], count=count)} {verb} again and again.{who}"
    return f"{whole}: {'no group again and again, but they could cost less' if advised else 'no group too often'}."


def _who(members: list[Row]) -> str:
    """Say of the most expensive member, and if it only was waited for, of the first that triggered, or vice versa."""
    first = members[0]
    others = (row for row in members[1:] if row["group"] == first["group"])
    other = next((row for row in others if bool(row["rebalances"]) != bool(first["rebalances"])), None)
    return " ".join(_triggered_by(row) for row in (first, other) if row is not None)


def _triggered_by(row: Row) -> str:
    lost = row["lost_partition_seconds"]
    cost = "" if lost is None else f"cost {lost:,.0f} partition-seconds"
    client, group = f"{named(_client(row))} at {row['host']}", named(row["group"])
    waited = lasting(row["waited_seconds"]) if row["waited_rebalances"] else ""
    if not row["rebalances"]:
        return f"{group} waited {waited} for {client}{cost and f', which {cost}'}."
    facts = " and ".join(filter(None, (waited and f"waited up to {waited} for it", cost)))
    times = counted(row["rebalances"], "rebalance")
    return f"{client} caused {times} of {group}{facts and f', which {facts}'}."


def _with_cause(group: Row, triggering_members: list[Row], advice: list[Row]) -> Row:
    of = max(
        (row for row in triggering_members if row["group"] == group["group"] and row["rebalances"]),
        key=lambda row: row["rebalances"],
        default=None,
    )
    helps = [f"{row['advice']} ({row['setting']})" for row in advice if row["group"] == group["group"]]
    return {
        **group,
        "caused_by": None if of is None else _client(of),
        "caused": None if of is None else of["rebalances"],
        "advice": "; ".join(dict.fromkeys(helps)) or None,
    }


def _client(row: Row) -> str:
    return row["group_instance_id"] or row["client_id"] or "A client without an id"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


SCREEN = JobScreen(
    job="rebalances",
    short="rebalances",
    text="Which groups rebalance too much, and who causes it?",
    plot="over_time",
    screen=_screen,
)
