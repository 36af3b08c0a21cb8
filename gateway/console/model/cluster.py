"""Actors by node, as the picture of the cluster shows them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from muster.gateway.console.model.snapshot import ActorRow, NodeRow, Snapshot
from muster.gateway.console.model.table import Column, Kind, Table
from muster.gateway.console.model.text import counted

ROLES: dict[str, str] = {
    "controller": "Controller",
    "reconciler": "Reconciler",
    "gateway": "Gateways",
    "offsets": "Group coordinators",
    "transactions": "Transaction coordinators",
    "log": "Logs",
    "standby": "Standbys",
    "console": "Console",
}
"""Kinds of actors, in the order in which they are shown."""
NO_NODE = ""
ACTOR_COLUMNS = (
    Column("name", "Actor"),
    Column("state", "State"),
    Column("node", "Node"),
    Column("pid", "Pid"),
    Column("restarts", "Restarts", Kind.COUNT),
    Column("standby", "Standby"),
    Column("address", "Address"),
    Column("error", "Error"),
)


class Role(NamedTuple):
    """Actors of one kind on a node."""

    name: str
    actors: Sequence[ActorRow]


class Box(NamedTuple):
    """A node with its actors; the one without an address has actors that are on no node."""

    node: NodeRow
    roles: Sequence[Role]

    @property
    def size(self) -> int:
        """Number of actors."""
        return sum(len(role.actors) for role in self.roles)


def kind_of(actor: str) -> str:
    """Return the kind of an actor: ``offsets`` of ``offsets-7``."""
    return actor.partition("-")[0]


def order(actor: ActorRow) -> tuple[str, int]:
    """Sorts offsets-9 before offsets-10."""
    kind, _, number = actor.name.partition("-")
    return kind, int(number) if number.isdigit() else -1


def boxes(now: Snapshot) -> list[Box]:
    """Return every node with its actors by kind, and those actors that are on none."""
    by_node: dict[str, list[ActorRow]] = {}
    known = {node.node_id for node in now.nodes}
    for actor in now.actors:
        node_id = actor.node_id if actor.node_id in known else NO_NODE
        by_node.setdefault(node_id or NO_NODE, []).append(actor)
    found = [Box(node, _roles(by_node.get(node.node_id, ()))) for node in now.nodes]
    if left := by_node.get(NO_NODE):
        found.append(Box(NodeRow(NO_NODE, "", "not placed"), _roles(left)))
    return found


def _roles(actors: Iterable[ActorRow]) -> list[Role]:
    by_kind: dict[str, list[ActorRow]] = {}
    for actor in sorted(actors, key=order):
        by_kind.setdefault(kind_of(actor.name), []).append(actor)
    names = [*ROLES, *sorted(set(by_kind) - set(ROLES))]
    return [Role(ROLES.get(kind, kind), by_kind[kind]) for kind in names if kind in by_kind]


def in_words(now: Snapshot) -> str:
    """Return the cluster in a sentence, for who does not see the picture."""
    bad = [actor.name for actor in now.actors if actor.state not in ("alive", "stopped")]
    state = "all alive" if not bad else f"{', '.join(bad[:5])} not alive"
    return f"{counted(len(now.nodes), 'node')}, {counted(len(now.actors), 'actor')}, {state}"


def address_of(now: Snapshot, node_id: str | None) -> str:
    """Return the address of a node."""
    return next((node.address for node in now.nodes if node.node_id == node_id), node_id or "")


def actor_table(now: Snapshot) -> Table:
    """Return all actors."""
    rows = [
        {
            "name": actor.name,
            "state": actor.state,
            "node": address_of(now, actor.node_id),
            "pid": actor.pid,
            "restarts": actor.restarts,
            "standby": actor.standby,
            "address": actor.address,
            "error": actor.error,
        }
        for actor in sorted(now.actors, key=order)
    ]
    return Table(ACTOR_COLUMNS, rows)


def can_be_faulted(name: str) -> bool:
    """Return whether an actor fault may name the actor."""
    return bool(re.fullmatch(r"console|controller|reconciler|(offsets|transactions|log|gateway|standby)-\d+", name))


def drain_progress(node: NodeRow, started_with: int) -> float:
    """Return the share of the actors that have left a node that is drained, from 0 to 1."""
    if node.state == "drained" or started_with <= 0:
        return 1.0
    return max(0.0, min(1.0, 1 - len(node.actors) / started_with))
