"""Screen of the question: can the numbers per group be trusted?"""

from __future__ import annotations

from collections.abc import Sequence

from muster.spark.jobs.attribution_holes import INTERNAL
from muster.spark.render.screens.screen import JobScreen, Lead, Level, Row, Screen, rows_of, total_line
from muster.spark.result import JobResult

TOLERABLE_SHARE = 0.01
"""Share of bytes with an unknown group above which an operator should investigate."""

_HAS_GROUP = "has a group"
_MEANS = {
    _HAS_GROUP: "counted for its group",
    "no_group": "readers without a group: no group is known to have such a client; nothing to mend",
    "ambiguous": "several groups may have read it; a client.id of its own for each service helps",
    "unknown": "there are groups with such a client, and none owns the partition; a reader with a borrowed id?",
    "not_member": "a reader beside a group's owner; a client.id of its own for it helps",
    "expired": "given up early, since too much was waiting",
    "overflow": "the group is known, but has no series of its own (metrics.max.group.series)",
    "pending": "not decided yet when this was written",
    INTERNAL: "Muster's own readers, which are in no share",
}
_NOT_IN_DOUBT = (_HAS_GROUP, "no_group", INTERNAL)
_COLUMNS = (
    Lead(name="reason", label="why it has no group", head="reason"),
    Lead(name="bytes", label="sent"),
    Lead(name="share", label="of all"),
    Lead(name="messages", label="messages"),
    Lead(name="means", label="what that means", is_text=True, minor=True),
)


def _screen(result: JobResult) -> Screen:
    reasons = [
        {**row, "reason": reason, "means": _MEANS.get(reason)}
        for row in rows_of(result, "reasons")
        for reason in (row["reason"] or _HAS_GROUP,)
    ]
    holes = rows_of(result, "holes")
    doubtful = sum(row["share"] or 0 for row in reasons if row["reason"] not in _NOT_IN_DOUBT)
    return Screen(
        level=Level.LOOK if holes or doubtful > TOLERABLE_SHARE else Level.WELL,
        summary=_summary(reasons, doubtful, holes),
        more=[_hole(row) for row in holes] if len(holes) > 1 else [],
        columns=_COLUMNS,
        rows=sorted(reasons, key=lambda row: (row["reason"] == _HAS_GROUP, -row["bytes"])),
        total=_total(reasons),
    )


def _total(reasons: Sequence[Row]) -> Row:
    sums = {name: sum(row[name] or 0 for row in reasons) for name in ("bytes", "share", "messages")}
    return {**sums, "reason": total_line(len(reasons), "row")}


def _summary(reasons: Sequence[Row], doubtful: float, holes: Sequence[Row]) -> str:
    shares = {row["reason"]: row["share"] or 0 for row in reasons}
    if not any(shares.values()):
        return "Nothing was sent." if not holes else _hole(holes[0])
    said = [f"{shares.get(_HAS_GROUP, 0):.1%} of the bytes have a group"]
    if shares.get("no_group"):
        said.append(f"{shares['no_group']:.1%} went to readers without one")
    if doubtful or not holes:
        said.append(f"with {doubtful:.1%} in doubt" if doubtful else "none is in doubt")
    jumps = f" At {len(holes):,} times a gateway's share without a group jumped." if len(holes) > 1 else ""
    return f"{', '.join(said)}.{jumps or (' ' + _hole(holes[0]) if holes else '')}"


def _hole(row: Row) -> str:
    cause = row["cause"].replace("_", " ")
    usual = "" if row["expected_share"] is None else f", where {row['expected_share']:.0%} was usual"
    began = f"{row['began']:%Y-%m-%d %H:%M}"
    return f"Gateway {row['gateway']} sent {row['share']:.0%} without a group from {began} on{usual}: {cause}."


SCREEN = JobScreen(
    job="attribution",
    short="attribution",
    text="Can the numbers per group be trusted?",
    plot="shares",
    screen=_screen,
)
