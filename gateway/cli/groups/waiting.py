"""``muster groups waiting``: the rebalances in progress, and the members that they wait for."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from muster.actors.runtime import terminal
from muster.actors.runtime.narrow import Column, Kind
from muster.actors.runtime.words import counted
from muster.gateway.cli import http
from muster.gateway.cli.output import print_json, print_table, print_text, with_wide
from muster.gateway.cli.running import by_http
from muster.placement.mapping.nodes import host_text

_COLUMNS = (
    Column("GROUP", Kind.NAME),
    Column("STATE", optional=True),
    "FOR (S)",
    "PROCEEDS IN (S)",
    Column("WAITS FOR", Kind.ID),
    Column("CLIENT ID", Kind.NAME, optional=True),
    Column("HOST", optional=True),
    Column("INSTANCE ID", Kind.NAME, optional=True),
)


@click.command(short_help="Show the rebalances in progress.", epilog="Example: muster groups waiting --json")
@by_http
@with_wide
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def waiting(directory: Path, address: str | None, as_json: bool) -> None:
    """Show the groups that are rebalancing now, and each member that the coordinator waits for.

    PROCEEDS IN is the time until the coordinator proceeds without them. muster groups evict GROUP MEMBER does so at
    once.
    """
    response = http.get_json(directory, address, "/v1/groups/waiting")
    if as_json:
        print_json(response)
        return
    now_ms = time.time_ns() // 1_000_000
    found = sorted(response.get("groups", ()), key=lambda wait: wait["since_ms"])
    total = f"{counted(len(found), 'group')} in a rebalance" if found else None
    print_table(_COLUMNS, [row for wait in found for row in rows(wait, now_ms)], total)
    if not found:
        terminal.line("no group is in a rebalance", err=True)
    if response.get("partial"):
        silent = ", ".join(f"offsets-{partition}" for partition in response["missing_partitions"])
        print_text(f"some coordinators did not respond: {silent}", err=True)


def rows(wait: Mapping[str, Any], now_ms: int) -> list[tuple[Any, ...]]:
    """Return one row for each awaited member; one without a name for a wait for the initial delay or the log."""
    deadline_ms = wait["deadline_ms"]
    head = (
        wait["group"],
        wait["state"],
        _seconds(now_ms - wait["since_ms"]),
        None if deadline_ms is None else _seconds(deadline_ms - now_ms),
    )
    found: list[tuple[Any, ...]] = [
        (*head, who["member_id"], who["client_id"], host_text(who["host"]), who["group_instance_id"])
        for who in (*wait["members"], *wait["pending"])
    ]
    if more := wait.get("members_left_out", 0) + wait.get("pending_left_out", 0):
        found.append((*head, f"and {more} more", None, None, None))
    if not found:
        found.append((*head, "more members" if wait["initial_delay"] else "the log", None, None, None))
    return found


def _seconds(duration_ms: int) -> str:
    return f"{max(duration_ms, 0) / 1000:.1f}"
