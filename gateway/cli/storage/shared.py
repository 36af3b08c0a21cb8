"""Checks before a start that every node of a Ray cluster sees the same storage directory, and that it is fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from muster.actors.runtime.errors import first_line
from muster.actors.runtime.storage import StorageNotShared, check_shared
from muster.actors.runtime.storage.across import check_nodes
from muster.actors.runtime.storage.promises import Finding
from muster.gateway.cli.errors import CliError

_TIMEOUT_S = 60
T = TypeVar("T")


class Nodes:
    """The live nodes of the Ray that this process is connected to."""

    def __init__(self) -> None:
        alive = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
        self.hosts: dict[str, str] = {node["NodeID"]: node["NodeManagerAddress"] for node in alive}
        """Address of each node by its id."""

    def __call__(self, function: Callable[..., T], /, *arguments: object) -> dict[str, T]:
        """Call the function on every node at once, with the node's id as last argument. CliError naming a node."""
        call = ray.remote(num_cpus=0, max_retries=0)(_call)
        responses = {
            node: call.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(
                function, *arguments, node
            )
            for node in self.hosts
        }
        return {node: self._response(node, response) for node, response in responses.items()}

    def _response(self, node: str, response: Any) -> Any:
        try:
            return ray.get(response, timeout=_TIMEOUT_S)
        except Exception as error:
            raise CliError(
                f"node {self.hosts[node]} cannot run Muster: {first_line(error)}; install it on every node"
            ) from error


def _call(function: Callable[..., T], *arguments: object) -> T:
    return function(*arguments)


def check_every_node(storage: Path, cluster_id: str) -> list[Finding]:
    """Return the findings of every node about the storage. Raises CliError naming a node that sees another
    directory."""
    nodes = Nodes()
    sees = nodes(_sees, storage, cluster_id)
    for node, host in sorted(nodes.hosts.items(), key=lambda item: item[1]):
        if not sees[node]:
            raise CliError(
                f"storage path {storage} is not the same directory on node {host}; "
                "choose one that all nodes share with --storage (NFS or the like)"
            )
    return check_nodes(storage, nodes.hosts, nodes)


def _sees(storage: Path, cluster_id: str, node: str) -> bool:
    try:
        check_shared(storage, cluster_id)
    except StorageNotShared:
        return False
    return True
