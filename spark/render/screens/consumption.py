"""Screen of the question: who reads how much?"""

from __future__ import annotations

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
from muster.spark.units import cell_in

NOBODY = "(no group)"

_COLUMNS = (
    Lead(name="group", label="group"),
    Lead(name="bytes", label="sent"),
    Lead(name="share_percent", label="of all"),
    Lead(name="messages", label="messages"),
    Lead(name="resent", label="of them sent again", head="sent again"),
    Lead(name="resent_percent", label="sent again %", minor=True),
    Lead(name="mean_bytes", label="mean message", minor=True),
)
_COST = Lead(name="cost", label="cost")


def _screen(result: JobResult) -> Screen:
    again = {row["group"]: row for row in rows_of(result, "groups")}
    charged = rows_of(result, "chargeback")
    rows = sorted((_row(row, again.get(row["group"])) for row in charged), key=lambda row: -row["bytes"])
    has_cost = any(row["cost"] is not None for row in charged)
    total = total_of(result, "chargeback")
    groups = total.get("groups", sum(row["has_group"] for row in rows))
    whole = total.get("bytes", sum(row["bytes"] for row in rows)) or 0
    of_groups = total.get("group_bytes", sum(row["bytes"] for row in rows if row["has_group"])) or 0
    sums = total_line(groups, "group") if of_groups == whole else f"{total_line(groups, 'group')} and {NOBODY}"
    return Screen(
        level=Level.INFO,
        summary=_summary(rows, groups, whole, of_groups),
        columns=(*_COLUMNS, *((_COST,) if has_cost else ())),
        rows=rows,
        total={**total, "group": sums, "share_percent": 100.0} if whole and total else None,
        count=groups + sum(not row["has_group"] for row in rows),
    )


def _row(charge: Row, group: Row | None) -> Row:
    messages = charge["messages"]
    return {
        **charge,
        "group": NOBODY if charge["group"] is None else charge["group"],
        "has_group": charge["group"] is not None,
        "resent": group["resent"] if group else None,
        "resent_percent": 100 * group["resent"] / group["distinct"] if group and group["distinct"] else None,
        "mean_bytes": charge["bytes"] / messages if messages else None,
    }


def _summary(rows: list[Row], count: int, whole: int, of_groups: int) -> str:
    if not whole:
        return "Nothing was sent."
    most = [f"{named(row['group'])} {row['bytes'] / whole:.0%}" for row in rows if row["has_group"]]
    sent = f"{cell_in(whole, 'bytes')} sent"
    if not most:
        return f"{sent}, all to readers without a group."
    to_groups = f"to {counted(count, 'group')} ({listed(most, count=count)})"
    if of_groups == whole:
        return f"{sent} {to_groups}."
    nobody = f"{cell_in(whole - of_groups, 'bytes')} to readers without a group"
    return f"{sent}: {cell_in(of_groups, 'bytes')} {to_groups}, {nobody}."


SCREEN = JobScreen(job="consumption", short="who reads", text="Who reads how much?", plot="per_bucket", screen=_screen)
