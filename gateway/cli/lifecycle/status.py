"""``muster status``: the nodes and actors, where they run, and their state."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from muster.actors.runtime import terminal
from muster.gateway.cli.output import print_json, print_table
from muster.gateway.cli.running import by_http, status_of


@click.command(epilog="Example: muster status --storage ./muster-data --json")
@by_http
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(directory: Path, address: str | None, as_json: bool) -> None:
    """Show nodes and actors: where each actor runs, its pid and its state.

    After muster drain a node is draining, and drained once nothing of Muster is left on it. Clients are shown whose
    requests are of a version that is not served, with the setting that helps.
    """
    found = status_of(directory, address)
    if as_json:
        print_json(found)
        return
    hosts = {node["node_id"]: node["address"] for node in found["nodes"]}
    print_table(
        ("NODE", "ADDRESS", "STATE"),
        [(node["node_id"], node["address"], node["state"]) for node in found["nodes"]],
    )
    terminal.line()
    print_table(
        ("ACTOR", "STATE", "STANDBY", "NODE", "PID", "ADDRESS", "RESTARTS", "ERROR"),
        [_row(actor, hosts) for actor in found["actors"]],
    )
    if turned_away := found.get("clients_turned_away"):
        terminal.line()
        print_table(
            ("TURNED AWAY", "HOST", "API", "VERSION", "TIMES", "LAST", "MEND"),
            [_turned_away(client) for client in turned_away],
        )


def _row(actor: dict[str, Any], hosts: dict[str, str]) -> tuple[Any, ...]:
    return (
        actor["name"],
        actor["state"],
        actor["stand_in"],
        hosts.get(actor["node_id"], actor["node_id"]),
        actor["pid"],
        _addresses(actor),
        actor["restarts"],
        actor["error"],
    )


def _turned_away(client: dict[str, Any]) -> tuple[Any, ...]:
    last = datetime.fromtimestamp(client["last_ms"] / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    client_id = "(no client id)" if client["client_id"] is None else client["client_id"]
    return (client_id, client["host"], client["api"], client["version"], client["times"], last, client["mend"])


def _addresses(actor: dict[str, Any]) -> str | None:
    """Where clients reach a gateway; the name of a listener is in front of its address, but for the first one."""
    further = [f"{listener}://{address}" for listener, address in actor["further_addresses"].items()]
    return ",".join([actor["address"], *further]) if further else actor["address"]
