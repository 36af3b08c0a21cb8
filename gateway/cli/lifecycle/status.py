"""``muster status``: the nodes and actors, where they run, and their state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from muster.actors.controller.state import ActorState
from muster.actors.runtime import rich_console, terminal
from muster.actors.runtime.narrow import Column, Kind
from muster.actors.runtime.words import counted
from muster.gateway.cli.output import is_wide, print_json, print_table, print_text, with_wide
from muster.gateway.cli.running import by_http, status_of
from muster.gateway.cli.times import utc

_MIN_ID_CHARS = 8
_NODES = (Column("NODE", Kind.NAME), "ADDRESS", "STATE", "ACTORS")
_ACTORS = (
    "ACTOR",
    "STATE",
    Column("STANDBY", optional=2),
    "NODE",
    "PID",
    "ADDRESS",
    Column("RESTARTS", optional=1),
    Column("ERROR", optional=3),
)
_TURNED_AWAY = (
    Column("TURNED AWAY", Kind.NAME),
    "HOST",
    "API",
    "VERSION",
    "TIMES",
    Column("LAST (UTC)", optional=1),
    Column("MEND", optional=2),
)
_ALIVE = ActorState.ALIVE.value


@click.command(epilog="Example: muster status --storage ./muster-data --json")
@by_http
@with_wide
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(directory: Path, address: str | None, as_json: bool) -> None:
    """Show nodes and actors: where each actor runs, its pid and its state.

    After muster drain a node is draining, and drained once nothing of Muster is left on it. Clients with requests of a
    version that is not served are shown, with the setting that helps.
    """
    found = status_of(directory, address)
    if as_json:
        print_json(found)
    else:
        show(found, wide=is_wide())


def show(found: Mapping[str, Any], *, wide: bool) -> None:
    """Print the status as tables. Unless ``wide``, a terminal gets short node ids, and lines for what has no column."""
    nodes, actors = found["nodes"], found["actors"]
    is_short = not wide and rich_console.has_width(rich_console.console())
    ids = _short([node["node_id"] for node in nodes]) if is_short else {}
    print_table(
        _NODES,
        [
            (ids.get(node["node_id"], node["node_id"]), node["address"], node["state"], len(node["actors"]))
            for node in nodes
        ],
    )
    terminal.line()
    places = _places(nodes, ids)
    left_out = print_table(_ACTORS, [_row(actor, places) for actor in actors])
    terminal.line()
    if "STANDBY" in left_out:
        _lines((actor["name"], f"{actor['stand_in']} serves in its place") for actor in actors if actor["stand_in"])
    if "ERROR" in left_out:
        _lines((actor["name"], actor["error"]) for actor in actors if actor["error"])
    terminal.line(_total(actors, nodes))
    if servers := found.get("zookeeper"):
        terminal.line(ensemble_text(servers))
    if turned_away := found.get("clients_turned_away"):
        terminal.line()
        rows = [_turned_away(client) for client in turned_away]
        if "MEND" in print_table(_TURNED_AWAY, rows):
            terminal.line()
            _lines(dict.fromkeys((client["api"], client["mend"]) for client in turned_away))


def _short(ids: Sequence[str]) -> dict[str, str]:
    """Return as much of each id as distinguishes it from the others."""
    length = next(
        length for length in range(_MIN_ID_CHARS, 1 << 10) if len({node_id[:length] for node_id in ids}) == len({*ids})
    )
    return {node_id: node_id[:length] for node_id in ids}


def _places(nodes: Sequence[Mapping[str, Any]], ids: Mapping[str, str]) -> dict[str, str]:
    """Return the address of each node, or its id if others have the same address."""
    shared = Counter(node["address"] for node in nodes)
    return {
        node["node_id"]: node["address"] if shared[node["address"]] == 1 else ids.get(node["node_id"], node["node_id"])
        for node in nodes
    }


def _lines(found: Iterable[tuple[str, str]]) -> None:
    for name, text in found:
        print_text(f"{name}: {text}")


def _total(actors: Sequence[Mapping[str, Any]], nodes: Sequence[Mapping[str, Any]]) -> str:
    """Return the total: ``7 actors on 2 nodes, all alive``."""
    states = Counter(actor["state"] for actor in actors)
    if states.keys() == {_ALIVE}:
        said = ", all alive"
    else:
        said = ": " + ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    return f"{counted(len(actors), 'actor')} on {counted(len(nodes), 'node')}{said}"


def ensemble_text(servers: Sequence[Mapping[str, Any]]) -> str:
    """Return the state of Muster's own ensemble: ``ZooKeeper: 3 of 3 servers serve``, and what is at stake."""
    away = [server["address"] for server in servers if server["mode"] is None]
    said = f"ZooKeeper: {len(servers) - len(away)} of {len(servers)} servers serve"
    if not away:
        return said
    without = f"{said}, without {', '.join(away)}"
    if len(servers) - len(away) > len(servers) // 2:
        return f"{without}; if another one is lost, there is no majority"
    return f"{without}: there is no majority"


def _row(actor: Mapping[str, Any], places: Mapping[str, str]) -> tuple[Any, ...]:
    return (
        actor["name"],
        actor["state"],
        actor["stand_in"],
        places.get(actor["node_id"], actor["node_id"]),
        actor["pid"],
        _addresses(actor),
        actor["restarts"],
        actor["error"],
    )


def _turned_away(client: Mapping[str, Any]) -> tuple[Any, ...]:
    client_id = "(no client id)" if client["client_id"] is None else client["client_id"]
    last = utc(client["last_ms"])
    return (client_id, client["host"], client["api"], client["version"], client["times"], last, client["mend"])


def _addresses(actor: Mapping[str, Any]) -> str | None:
    """Return addresses for clients of a gateway; a listener's name is in front of its address, but for the first
    one."""
    further = [f"{listener}://{address}" for listener, address in actor["further_addresses"].items()]
    return ",".join([actor["address"], *further]) if further else actor["address"]
