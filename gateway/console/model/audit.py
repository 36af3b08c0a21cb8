"""The rows of the audit of attribution: commits against bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.gateway.console.model.table import Column, Kind, Table
from muster.gateway.console.model.text import size

COLUMNS = (
    Column("group", "Group", Kind.NAME),
    Column("topic", "Topic", Kind.NAME),
    Column("partition", "Partition", Kind.COUNT),
    Column("implied_bytes", "Implied by commits", Kind.SIZE),
    Column("attributed_bytes", "Attributed", Kind.SIZE),
    Column("unexplained_bytes", "Unexplained", Kind.SIZE),
    Column("why", "Why they differ"),
)
UNEXPLAINED = ("mislabelled", "mislabelled_elsewhere", "lost")


def audit_table(report: Mapping[str, Any]) -> Table:
    """Return the rows, those with unexplained bytes first."""
    rows = []
    for row in report.get("rows") or ():
        drift = row.get("drift_bytes") or {}
        rows.append(
            {
                **row,
                "unexplained_bytes": sum(drift.get(cause, 0) for cause in UNEXPLAINED),
                "why": ", ".join(f"{cause.replace('_', ' ')} {size(amount)}" for cause, amount in drift.items())
                or None,
            }
        )
    rows.sort(key=lambda row: (-row["unexplained_bytes"], row["group"], row["topic"], row["partition"]))
    return Table(COLUMNS, rows)


def summary(report: Mapping[str, Any]) -> str:
    """Return the state of the audit in a sentence."""
    if not report:
        return "Nothing is known of the audit yet."
    if not report.get("interval_ms"):
        return "The audit is off (attribution.audit.interval.ms=0)."
    if report.get("at_ms") is None:
        return "The first round of the audit is not over yet."
    unexplained = sum(row["unexplained_bytes"] for row in audit_table(report).rows)
    found = f"{size(unexplained)} are unexplained" if unexplained else "every byte is explained"
    left_out = f"; {report['left_out']} rows had no room" if report.get("left_out") else ""
    return f"Round {report.get('rounds')}: {found}{left_out}."
