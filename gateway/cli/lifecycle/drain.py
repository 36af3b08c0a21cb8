"""``muster drain``: move all of Muster off a node before it is stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from muster.actors.controller.state import NodeState
from muster.actors.runtime import terminal
from muster.actors.runtime.words import counted
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.names import NAME
from muster.gateway.cli.numbers import Real
from muster.gateway.cli.output import Progress
from muster.gateway.cli.running import by_storage_or_address, connected

_POLL_S = 0.3
_SHOWN = 6
_EMPTY = (NodeState.DRAINED.value, NodeState.DEAD.value)
Node = Mapping[str, Any]
"""Node as in ``muster status --json``."""


@click.command(epilog="Example: muster drain 10.0.0.12 --storage /srv/muster")
@click.argument("node", type=NAME)
@click.option("--undo", is_flag=True, help="Allow actors on the node again.")
@click.option(
    "--timeout", "timeout_s", metavar="S", type=Real(), default=300.0, show_default=True, help="Seconds to wait."
)
@by_storage_or_address
def drain(node: str, undo: bool, timeout_s: float, directory: Path, address: str | None) -> None:
    """Move all of Muster's actors off a node, and place no more there.

    NODE is an address, an id or the beginning of an id, as shown by muster status. No group rebalances; clients of the
    node's gateway, which is moved last, connect to another one. The command ends when nothing of Muster is left on the
    node. The node stays drained, even if Muster restarts, until --undo or until its Ray restarts.
    """
    with connected(directory, address), Progress() as progress:
        from muster.gateway import cluster

        try:
            found = node_of(node, cluster.cluster_status()["nodes"], undo=undo)
            cluster.call_controller("undrain" if undo else "drain", found["node_id"])
        except cluster.ClusterError as error:
            raise CliError(str(error)) from error
        where = f"node {found['node_id']} ({found['address']})"
        if undo:
            terminal.line(f"{where} can run actors again")
            return
        _wait(found["node_id"], cluster.cluster_status, cluster.ClusterError, progress, timeout_s)
        progress.rest()
        terminal.line(f"{where} is drained: it runs nothing of Muster")


def node_of(text: str, nodes: Sequence[Node], *, undo: bool = False) -> Node:
    """Return the node with that id, beginning of an id, or address. Raises CliError unless one fits and may be
    drained."""
    meant = [node for node in nodes if text and (node["address"] == text or node["node_id"].startswith(text))]
    alive = [node for node in meant if node["state"] != NodeState.DEAD.value]
    if not meant:
        raise CliError(f"no node {text}; muster status shows ids and addresses")
    if not alive:
        raise CliError(f"node {text} is dead; its actors are elsewhere already")
    if len(alive) > 1:
        ids = ", ".join(node["node_id"] for node in alive)
        raise CliError(f"{text} is {len(alive)} nodes: {ids}; give more of the id")
    if not undo and not any(node["state"] == NodeState.ALIVE.value and node is not alive[0] for node in nodes):
        raise CliError(f"node {text} is the last one that is not drained; add a node first, or undo another drain")
    return alive[0]


def _wait(
    node_id: str,
    status: Callable[[], Mapping[str, Any]],
    away: type[Exception],
    progress: Progress,
    timeout_s: float,
) -> None:
    """Wait until nothing is left on the node, reporting each change of what is left. CliError if it takes too long."""
    until = time.monotonic() + timeout_s
    reported: Sequence[str] | None = None
    while True:
        try:
            (node,) = (node for node in status()["nodes"] if node["node_id"] == node_id)
        except away:  # the controller itself moves
            node = None
        if node is not None:
            if node["state"] in _EMPTY:
                return
            if node["actors"] != reported:
                reported = node["actors"]
                progress.step(f"{counted(len(reported), 'actor')} left: {_some(reported)}")
        if time.monotonic() > until:
            left = _some(reported or ["unknown, because the controller does not respond"])
            raise CliError(
                f"not drained within {timeout_s:g} s, remaining: {left}; it continues; muster status shows the progress"
            )
        time.sleep(_POLL_S)


def _some(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
