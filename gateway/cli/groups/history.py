"""``muster groups history``: the last rebalances of a group, from its coordinator's journal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import click

from muster.actors.runtime import terminal
from muster.actors.runtime.narrow import Column, Kind
from muster.gateway.cli import http
from muster.gateway.cli.groups.admin import EVICTED
from muster.gateway.cli.groups.known import unknown
from muster.gateway.cli.names import NAME
from muster.gateway.cli.numbers import Whole
from muster.gateway.cli.output import is_folded, print_json, print_table, with_wide
from muster.gateway.cli.running import bootstrap_servers, by_http
from muster.gateway.cli.times import utc

_WORTH_NAMING_MS = 50
_LONG_MS = 1000
_UUID_TAIL = re.compile(r"(-[0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
_WAITS = ("join_waits", "pending", "sync_waits")
_COLUMNS = (
    "BEGAN (UTC)",
    "GENERATION",
    "OUTCOME",
    Column("CAUSE", Kind.NAME),
    Column("JOIN (S)", optional=1),
    Column("SYNC (S)", optional=2),
    Column("WAITED FOR", optional=3),
    Column("PROTOCOL", optional=7),
    Column("MEMBERS", optional=4),
    Column("PAUSED", optional=5),
    Column("LOST (PARTITION-S)", optional=6),
)


@click.command(
    short_help="Show the last rebalances of a group, and why.",
    epilog="Example: muster groups history billing --limit 5",
)
@click.argument("group", type=NAME)
@by_http
@click.option("--limit", type=Whole(1, 10_000), default=20, show_default=True, help="Show at most this many.")
@with_wide
@click.option("--json", "as_json", is_flag=True, help="Print the whole journal as JSON.")
def history(group: str, directory: Path, address: str | None, limit: int, as_json: bool) -> None:
    """Show the last rebalances of the group GROUP, newest first: their causes and their cost.

    JOIN is the coordinator's wait for the members' JoinGroup requests, SYNC that for the leader's assignment; WAITED
    FOR names the last member in each. PAUSED counts the assigned partitions without a consumer meanwhile, and LOST is
    the sum of those pauses. Member ids are shown without the end of their UUID; --json has the complete ids, and all
    awaited members. A narrow terminal has the most important columns, without the year, hosts and reasons; waits of a
    second or more are below.
    """
    try:
        response = http.get_json(directory, address, "/v1/groups/history", group=group, limit=str(limit))
    except http.HttpError as refused:
        if refused.status == HTTPStatus.NOT_FOUND:
            raise unknown(group, lambda: bootstrap_servers(None, directory, address)) from refused
        raise
    if as_json:
        print_json(response)
        return
    rows = [row(entry) for entry in response["entries"]]
    if is_folded(_COLUMNS, rows):
        rows = [row(entry, narrow=True) for entry in response["entries"]]
    print_table(_COLUMNS, rows, below={"WAITED FOR": long_waits(response["entries"])})
    if not response["entries"]:
        terminal.line(f"group {group} has had no rebalance", err=True)


def row(entry: Mapping[str, Any], *, narrow: bool = False) -> tuple[Any, ...]:
    """Return the row of a rebalance; ``narrow`` leaves out the year, the host and the reason."""
    return (
        utc(entry["began_ms"], millis=True, narrow=narrow),
        entry["generation"],
        entry["ending"],
        _cause(entry, narrow),
        _seconds(entry["joined_ms"], entry["began_ms"]),
        _seconds(entry["stable_ms"], entry["joined_ms"]),
        _waited_for(entry),
        _protocol(entry),
        _members(entry),
        _consumption_pauses(entry),
        None if entry["lost_partition_ms"] is None else f"{entry['lost_partition_ms'] / 1000:.1f}",
    )


def _seconds(end_ms: int | None, since_ms: int | None) -> str | None:
    return None if end_ms is None or since_ms is None else f"{(end_ms - since_ms) / 1000:.1f}"


def _cause(entry: Mapping[str, Any], narrow: bool) -> str:
    triggered_by, reason = entry["culprit"], entry["reason"]
    if narrow:
        cause = "member evicted" if reason == EVICTED else entry["cause"]
        return f"{cause}: {_name(triggered_by)}" if triggered_by else str(cause)
    by = f": {_name(triggered_by)} at {triggered_by['host']}" if triggered_by else ""
    return f"{entry['cause']}{by}" + (f" ({reason})" if reason else "")


def long_waits(entries: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a line for each rebalance that waited a second or more for a member."""
    return [
        f"{utc(entry['began_ms'], narrow=True)}  {_waited_for(entry)}"
        for entry in entries
        if any(wait["held_ms"] >= _LONG_MS for name in _WAITS for wait in entry[name][:1])
    ]


def _waited_for(entry: Mapping[str, Any]) -> str | None:
    """Name the last members to join and to sync, if the coordinator waited for any."""
    gone = {each["member_id"]: each for each in entry["gone"]}
    joins, pending, syncs = (
        [wait for wait in entry[name][:1] if wait["held_ms"] >= _WORTH_NAMING_MS] for name in _WAITS
    )
    waits = [
        *(_wait(wait, "joined", gone) for wait in joins),
        *(f"handed-out id {_name(wait)} {_held(wait)}" for wait in pending),
        *(_wait(wait, "synced", {}) for wait in syncs),
    ]
    if entry["from_state"] == "Empty":
        waits.insert(0, "initial delay")
    return "; ".join(waits) or None


def _wait(wait: Mapping[str, Any], done: str, gone: Mapping[str, Mapping[str, Any]]) -> str:
    name, held = _name(wait), _held(wait)
    if wait["after_ms"] is not None:
        return f"{name} {done} after {held}"
    left = gone.get(wait["member_id"])
    if left is None or left["cause"] is not None:
        return f"{name} never {done}, waited for {held}"
    if left["reason"] == EVICTED:
        return f"{name} never {done}, evicted after {held}"
    return f"{name} never {done}, left after {held}"


def _members(entry: Mapping[str, Any]) -> str:
    """Return the members before and after; ``3 -> 3 (+1 -1)`` if that does not show that some came and some went."""
    added, gone = (len(entry[name]) + entry[f"{name}_left_out"] for name in ("added", "gone"))
    changes = f" (+{added} -{gone})" if added and gone else ""
    return f"{entry['members_before']} -> {_or_dash(entry['members_after'])}{changes}"


def _name(who: Mapping[str, Any]) -> str:
    """Return the member id, with only the beginning of the UUID that the coordinator appended."""
    return _UUID_TAIL.sub(r"\1", who["member_id"])


def _held(wait: Mapping[str, Any]) -> str:
    return f"{wait['held_ms'] / 1000:.1f} s"


def _protocol(entry: Mapping[str, Any]) -> str | None:
    kind = entry["rebalance_protocol"] or entry["protocol_type"]
    return f"{entry['protocol']} ({kind})" if entry["protocol"] else None


def _consumption_pauses(entry: Mapping[str, Any]) -> str | None:
    count = entry["partitions_still"]
    return None if count is None else f"{count} of {entry['partitions_assigned']}"


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)
