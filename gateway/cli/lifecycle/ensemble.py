"""Muster's own ensemble of ZooKeeper servers at a start: whether there is one, and on which nodes it is founded."""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path

from muster.actors.config import MusterConfig
from muster.actors.runtime.files import write_atomically
from muster.actors.runtime.words import counted
from muster.gateway.cli.errors import CliError
from muster.placement.zookeeper.ensemble import (
    SERVERS,
    Ensemble,
    InvalidEnsemble,
    Server,
    ensemble_file,
    read_ensemble,
)

_FORMER = "version-2"
_KEPT = "version-2.before-ensemble"


def ensemble_of(config: MusterConfig, folder: Path, nodes: Sequence[str] | None) -> Ensemble | None:
    """Return the ensemble of the storage whose ``zookeeper`` is ``folder``; a new one if it is to have one.

    None: one server. ``nodes``: addresses of the live nodes of a Ray of others, the first ones preferred; None: there
    is no such Ray. Raises CliError.
    """
    try:
        ensemble = read_ensemble(ensemble_file(folder))
    except InvalidEnsemble as error:
        raise CliError(str(error)) from error
    wanted = config.zookeeper_server_count
    if ensemble is not None:
        if nodes is None:
            raise CliError(
                f"the ZooKeeper of this storage has its data on the nodes {_places(ensemble)}: start Ray there, and "
                "name it with --address"
            )
        if wanted == 1:
            raise CliError(
                f"zookeeper.server.count=1, but this storage has {SERVERS} ZooKeeper servers, which stay; only "
                "muster restore into another storage makes it one"
            )
        return ensemble
    if wanted == 1 or (wanted is None and (nodes is None or (folder / _FORMER).exists())):
        return None
    alive = [] if nodes is None else nodes
    if len(alive) >= SERVERS:
        return _new(config, alive[:SERVERS])
    if wanted is None:
        return None
    raise CliError(
        f"zookeeper.server.count={SERVERS} needs --address of a Ray with {SERVERS} nodes that have addresses of their "
        f"own, and there are {len(alive)}; --nodes {SERVERS} waits for them"
    )


def _new(config: MusterConfig, addresses: Iterable[str]) -> Ensemble:
    client, quorum, election = config.zookeeper_ports
    servers = tuple(
        Server(id=number, address=address, client_port=client, quorum_port=quorum, election_port=election)
        for number, address in enumerate(addresses, 1)
    )
    return Ensemble(id=secrets.token_hex(4), servers=servers, is_new=True)


def found(ensemble: Ensemble, folder: Path) -> None:
    """Write the file of a new ensemble, for its servers. Raises CliError if a port of theirs is taken."""
    if ensemble_file(folder).exists():
        return
    _refuse_taken(ensemble)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(ensemble_file(folder), ensemble.encode())


def set_founded(ensemble: Ensemble, folder: Path) -> None:
    """Note that the ensemble serves: from now on, a server without data has lost them."""
    if not ensemble.is_new:
        return
    with contextlib.suppress(FileNotFoundError):
        (folder / _FORMER).rename(folder / _KEPT)
    write_atomically(ensemble_file(folder), dataclasses.replace(ensemble, is_new=False).encode())


def node_addresses() -> list[str]:
    """Return the addresses of live nodes, the head's first. Nodes with one address are one machine."""
    import ray

    from muster.actors.runtime.head import head_node_id

    alive = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    head = head_node_id()
    first = {node["NodeManagerAddress"] for node in alive if node["NodeID"] == head}
    return sorted({node["NodeManagerAddress"] for node in alive}, key=lambda address: (address not in first, address))


def _refuse_taken(ensemble: Ensemble) -> None:
    from muster.gateway.cli.storage.shared import Nodes

    nodes = Nodes()
    taken = nodes(_taken, ensemble)
    if texts := [text for of_node in taken.values() for text in of_node]:
        raise CliError(
            f"{counted(len(texts), 'port')} for Muster's ZooKeeper servers cannot be used: {', '.join(texts)}; choose "
            "others with zookeeper.server.ports, name your own ZooKeeper with --zookeeper, or set "
            "zookeeper.server.count=1"
        )


def _taken(ensemble: Ensemble, node: str) -> list[str]:
    import ray.util

    from muster.actors.zookeeper.server import taken_ports

    own = ensemble.at(str(ray.util.get_node_ip_address()))  # type: ignore[no-untyped-call]
    return taken_ports(own.address, (own.client_port, own.quorum_port, own.election_port)) if own else []


def _places(ensemble: Ensemble) -> str:
    return ", ".join(server.address for server in ensemble.servers)
