"""Whether every node of a Ray cluster sees the same storage directory."""

from __future__ import annotations

from pathlib import Path

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from gateway.cli.errors import CliError
from gateway.cli.own_ray import first_line

_TIMEOUT_S = 60


def check_shared(storage: Path) -> None:
    """CliError naming the nodes where the directory is another one, is missing, or Muster is not installed."""
    nodes = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
    read = ray.remote(num_cpus=0, max_retries=0)(_read)
    meta = str(storage / "meta.properties")
    asked = {
        address: read.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False)).remote(meta)
        for node_id, address in nodes.items()
    }
    wanted = _read(meta)
    try:
        strangers = [host for host, answer in asked.items() if ray.get(answer, timeout=_TIMEOUT_S) != wanted]
    except Exception as error:
        raise CliError(f"a node cannot run Muster: {first_line(error)}; install it on every node") from error
    if strangers:
        raise CliError(
            f"storage path {storage} is not the same directory on {', '.join(sorted(strangers))}; "
            "say with --storage one that all nodes share"
        )


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text()
    except OSError:
        return None
