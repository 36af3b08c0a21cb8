"""``muster groups``: the commands for consumer groups; each one but ``list`` has a file of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from muster.actors.runtime import terminal
from muster.actors.runtime.narrow import Column, Kind
from muster.gateway.cli import http
from muster.gateway.cli.client.cluster import admin, list_groups
from muster.gateway.cli.groups.admin import delete, evict
from muster.gateway.cli.groups.describe import describe
from muster.gateway.cli.groups.history import history
from muster.gateway.cli.groups.lag import lag, lag_cells, of_all_groups, of_groups
from muster.gateway.cli.groups.reset import reset_offsets
from muster.gateway.cli.groups.waiting import waiting
from muster.gateway.cli.output import print_json, print_table, print_text, with_wide
from muster.gateway.cli.running import bootstrap_servers, by_bootstrap
from muster.gateway.cli.suggestions import Commands
from muster.placement.view import UNDO_PREFIX

_STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Stable", "Dead")
_TYPES = ("classic", "consumer")
_COLUMNS = (
    Column("GROUP", Kind.NAME),
    "STATE",
    Column("TYPE", optional=True),
    Column("PROTOCOL TYPE", optional=True),
    "MEMBERS",
    "LAG",
    "LAG (S)",
    "NO COMMIT",
)
_ONLY_OVER_HTTP = (
    *("members", "lag", "lag_s", "behind", "partitions"),
    *("without_commit", "messages_without_commit", "unread"),
)
_NO_LAG = "neither members nor lag: leave --bootstrap-server out, or see muster groups describe"


@click.group(cls=Commands, epilog="Example: muster groups describe billing")
def groups() -> None:
    """List, describe and change consumer groups."""


@groups.command(
    "list",
    short_help="Show every group, and how far it is behind.",
    epilog="Example: muster groups list --state Empty --json",
)
@by_bootstrap
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(_STATES, case_sensitive=False),
    metavar="STATE",
    help=f"Only those in this state: {', '.join(_STATES)}. May be repeated.",
)
@click.option(
    "--type",
    "types",
    multiple=True,
    type=click.Choice(_TYPES, case_sensitive=False),
    metavar="TYPE",
    help="Only those of this type: classic, or consumer (KIP-848). May be repeated.",
)
@with_wide
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(
    bootstrap_server: str | None,
    directory: Path,
    address: str | None,
    states: tuple[str, ...],
    types: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show every group: its state, its type, its protocol type (consumer, connect or another; empty without members so
    far), its members, and its lag, the worst first, as in muster groups lag.

    LAG is in messages. LAG (S) is the age of the oldest unconsumed message, in seconds. NO COMMIT counts the partitions
    that members have, with messages, and that the group has committed no offset of: they are in no lag.
    """
    rows, note = _rows(bootstrap_server, directory, address, states, types)
    if as_json:
        print_json(rows)
    else:
        columns = ("group", "state", "type", "protocol_type", "members")
        print_table(_COLUMNS, [(*(row[name] for name in columns), *lag_cells(row)) for row in rows], of_groups(rows))
        if not rows:
            terminal.line("no such group" if states or types else "there are no groups", err=True)
    if note:
        print_text(note, err=True)


def _rows(
    bootstrap_server: str | None, directory: Path, address: str | None, states: tuple[str, ...], types: tuple[str, ...]
) -> tuple[list[dict[str, Any]], str | None]:
    """Return the groups, with their lag if a gateway responds over HTTP; and in words what is missing."""
    if bootstrap_server:
        return _rows_over_kafka(bootstrap_server, states, types), _NO_LAG
    try:
        found, missing = of_all_groups(directory, address)
    except (http.NoHttpResponse, http.HttpError) as error:
        bootstrap = bootstrap_servers(None, directory, address)
        return _rows_over_kafka(bootstrap, states, types), f"neither members nor lag: {error.message}"
    wanted = (row for row in found if (not states or row["state"] in states) and (not types or row["type"] in types))
    return [{**row, "simple": not row["protocol_type"]} for row in wanted], missing


def _rows_over_kafka(bootstrap: str, states: tuple[str, ...], types: tuple[str, ...]) -> list[dict[str, Any]]:
    return [
        {
            "group": group.group_id,
            "state": group.group_state,
            "type": group.group_type,
            "protocol_type": group.protocol_type or None,
            **dict.fromkeys(_ONLY_OVER_HTTP),
            "simple": not group.protocol_type,
        }
        for group in list_groups(admin(bootstrap), states, types)
        if not group.group_id.startswith(UNDO_PREFIX)
    ]


for _command in (describe, lag, history, waiting, reset_offsets, delete, evict):
    groups.add_command(_command)
