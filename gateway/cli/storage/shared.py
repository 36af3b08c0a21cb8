"""Checks that every node of a Ray cluster sees the same storage directory, before anything is started there."""

from __future__ import annotations

from pathlib import Path

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from muster.actors.runtime.errors import first_line
from muster.actors.runtime.storage import StorageNotShared, check_shared
from muster.gateway.cli.errors import CliError

_TIMEOUT_S = 60


def check_every_node(storage: Path, cluster_id: str) -> None:
    """CliError naming a node that sees another directory there, or that cannot run Muster."""
    check = ray.remote(num_cpus=0, max_retries=0)(_sees)
    responses = {
        node["NodeManagerAddress"]: check.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        ).remote(storage, cluster_id)
        for node in ray.nodes()  # type: ignore[no-untyped-call]
        if node["Alive"]
    }
    for host, response in sorted(responses.items()):
        try:
            sees = ray.get(response, timeout=_TIMEOUT_S)
        except Exception as error:
            raise CliError(f"node {host} cannot run Muster: {first_line(error)}; install it on every node") from error
        if not sees:
            raise CliError(
                f"storage path {storage} is not the same directory on node {host}; "
                "choose one that all nodes share with --storage (NFS or the like)"
            )


def _sees(storage: Path, cluster_id: str) -> bool:
    try:
        check_shared(storage, cluster_id)
    except StorageNotShared:
        return False
    return True
