"""Results of jobs for tests of the page, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from muster.spark.result import Column, JobResult, Shown


def section(
    name: str, *rows: dict[str, Any], columns: Sequence[str] = (), total: dict[str, Any] | None = None
) -> Shown:
    names = list(rows[0]) if rows else list(columns)
    return Shown(
        name=name,
        title=name,
        note="",
        columns=[Column(column, "string", bool(rows) and isinstance(rows[0][column], int | float)) for column in names],
        rows=[tuple(row.values()) for row in rows],
        cut=False,
        total=total,
    )


def result(job: str, *sections: Shown) -> JobResult:
    return JobResult(job=job, title=job, sections=sections)


def standing(group: str, verdict: str = "OK", lag: int | None = 0, **changes: Any) -> dict[str, Any]:
    return {
        "group": group,
        "verdict": verdict,
        "lag_messages": lag,
        "lag_seconds": 0.0 if lag == 0 else 120.0,
        "catch_up_seconds": 0.0 if lag == 0 else None,
        "consumed_per_second": 10.0,
        "produced_per_second": 10.0,
        "lost_messages": 0,
        "left": verdict == "ENDED",
        "without_members": verdict == "ENDED",
        "falls_behind": verdict == "WARNING",
        "rule": "by some rule",
    } | changes
