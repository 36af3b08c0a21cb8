"""``muster attribution-audit``: bytes that commits imply, bytes counted for the group, and causes of the difference."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from muster.actors.audit.report import MORE, UNEXPLAINED, Cause
from muster.actors.runtime import terminal
from muster.actors.runtime.narrow import Column, Kind
from muster.actors.runtime.words import counted
from muster.gateway.cli import http
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.names import NAME
from muster.gateway.cli.output import print_json, print_table, print_text, with_wide
from muster.gateway.cli.running import by_http

_COLUMNS = (
    Column("GROUP", Kind.NAME),
    Column("TOPIC", Kind.NAME),
    "PARTITION",
    Column("IMPLIED", optional=2),
    Column("ATTRIBUTED", optional=1),
    "DIFFERENCE",
    "UNEXPLAINED",
    Column("WHY", Kind.LIST),
)
_IN_WORDS = {
    Cause.PREFETCH: "sent, not committed yet",
    Cause.REREAD: "sent again",
    Cause.RETENTION: "removed from the log since",
    Cause.WAITING: "committed, not counted yet",
    Cause.UNKNOWN: "maybe sent before the audit began",
    Cause.ADMIN_COMMIT: "committed by an admin tool or without a generation",
    Cause.RESET: "jumped over by a member",
    Cause.MISLABELLED: "another reader's",
    Cause.MISLABELLED_ELSEWHERE: "attributed to another group",
    Cause.LOST: "attributed to no group",
}


@click.command(
    short_help="Compare the bytes that commits imply with those attributed to groups.",
    epilog="Example: muster attribution-audit --group billing",
)
@by_http
@click.option("--group", type=NAME, metavar="GROUP", help="Show only this group.")
@click.option("--unexplained", is_flag=True, help="Show only partitions with lost or mislabelled bytes.")
@with_wide
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def attribution_audit(
    directory: Path, address: str | None, group: str | None, unexplained: bool, as_json: bool
) -> None:
    """Show the bytes that commits imply beside the bytes attributed to groups, by partition.

    IMPLIED are the bytes of the batches that a group's commits went past, ATTRIBUTED those attributed to the group when
    they were sent. WHY has the causes of the difference.

    UNEXPLAINED bytes are lost (attributed to no group), mislabelled (another reader's, attributed to this
    group) or mislabelled_elsewhere (attributed to another group).
    """
    response = http.get_json(directory, address, "/v1/audit", **({} if group is None else {"group": group}))
    missing = group is not None and not response["rows"]
    rows = [row for row in response["rows"] if not unexplained or _unexplained(row)]
    if as_json:
        print_json({**response, "rows": rows})
    elif rows:
        print_table(_COLUMNS, [cells(row) for row in rows], counted(len(rows), "partition"))
    if missing:
        raise CliError(f"there is no audit of group {group}: {_why_nothing(response)}")
    if not as_json:
        if words := in_words(rows):
            print_text(words, err=True)
        terminal.line(summary(response, time.time_ns() // 1_000_000), err=True)


def cells(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the cells of a partition of a group."""
    more = {cause.value for cause in MORE}
    causes = [f"{cause} {size if cause in more else -size:+}" for cause, size in row["drift_bytes"].items()]
    if row["removed_offsets"]:
        causes.append(counted(row["removed_offsets"], "offset") + " gone from the log")
    difference = row["attributed_bytes"] - row["implied_bytes"]
    return (
        *(row[name] for name in ("group", "topic", "partition", "implied_bytes", "attributed_bytes")),
        difference,
        _unexplained(row),
        ", ".join(causes) or None,
    )


def in_words(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return what the causes in these rows mean."""
    causes = [cause for cause in Cause if any(cause.value in row["drift_bytes"] for row in rows)]
    return "; ".join(f"{cause.value}: {_IN_WORDS[cause]}" for cause in causes)


def _why_nothing(response: Mapping[str, Any]) -> str:
    if response["at_ms"] is None:
        return summary(response, 0)
    return "no such group has committed since the audit began; see muster groups list"


def summary(response: Mapping[str, Any], now_ms: int) -> str:
    """Return the summary of the whole."""
    if not response["interval_ms"]:
        return "the attribution audit is off (audit.interval.ms=0)"
    if response["at_ms"] is None:
        return f"no round yet; rounds run every {response['interval_ms'] / 1000:g} s"
    age = f"{max(now_ms - response['at_ms'], 0) / 1000:.0f} s ago"
    if not response["rows"]:
        return f"nothing audited: no group has committed since the audit began, which begins anew with Muster; {age}"
    size = sum(map(_unexplained, response["rows"]))
    return f"{counted(size, 'byte')} unexplained, {age}"


def _unexplained(row: Mapping[str, Any]) -> int:
    return sum(row["drift_bytes"].get(cause.value, 0) for cause in UNEXPLAINED)
