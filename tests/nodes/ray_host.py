"""Several Ray nodes on this machine in a separate process: reads a JSON command per line, writes a response per line.

Not in the tests' process because Ray reads its environment (health checks, token) once, when it is imported.
Run as ``python -m tests.nodes.ray_host`` by :mod:`tests.nodes.bench`.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import ray
from ray.cluster_utils import Cluster

from muster.gateway.cli.ray.small_ray import start_forks, with_forked_workers, with_late_agents
from muster.gateway.cli.ray.worker_launch import FORKS

_OBJECT_STORE_BYTES = 80_000_000


class Host:
    """The commands: ``address``, ``add``, ``kill``."""

    def __init__(self) -> None:
        self._cluster = Cluster()
        self._nodes: dict[str, tuple[Any, subprocess.Popen[bytes]]] = {}
        """With the process that forks its workers, by id."""
        self._numbers = count(1)

    def address(self) -> str:
        """HOST:PORT of the GCS."""
        return str(self._cluster.address)

    def add(self, labels: dict[str, str]) -> dict[str, Any]:
        """Start a node (the first one is the head); return its id and the pids of what starts its processes."""
        folder = Path(os.environ["RAY_TMPDIR"])
        socket = folder / f"forks-{next(self._numbers)}"
        os.environ[FORKS] = str(socket)
        forks = start_forks(socket)
        node = self._cluster.add_node(
            num_cpus=2,
            include_dashboard=False,
            include_log_monitor=False,
            object_store_memory=_OBJECT_STORE_BYTES,
            labels=labels,
            temp_dir=str(folder / "ray"),
        )
        (node_id,) = (
            entry["NodeID"]
            for entry in self._cluster.global_state.node_table()
            if entry["Alive"] and entry["ObjectStoreSocketName"] == node.plasma_store_socket_name
        )
        self._nodes[node_id] = node, forks
        return {"node_id": node_id, "raylet": _raylet_pid(node), "forks": forks.pid}

    def kill(self, node_id: str) -> None:
        """SIGKILL the node's raylet and workers at once; returns when they have ended."""
        node, forks = self._nodes.pop(node_id)
        first = [psutil.Process(pid) for pid in (_raylet_pid(node), forks.pid) if psutil.pid_exists(pid)]
        family = [process for each in first for process in (each, *each.children(recursive=True))]
        for process in family:
            process.kill()
        self._cluster.remove_node(node, allow_graceful=False)
        psutil.wait_procs(family, timeout=30)

    def view(self) -> str:
        """Return the ClusterView that Muster's controller publishes.

        It includes the cluster's secret; base64 of a pickle.
        """
        with ray.init(self.address(), namespace="muster", log_to_driver=False):
            view: Any = ray.get(ray.get_actor("controller").watch.remote(None), timeout=60)
        return base64.b64encode(pickle.dumps(view)).decode()

    def stop(self) -> None:
        """End every node."""
        self._cluster.shutdown()
        for _, forks in self._nodes.values():
            forks.kill()  # a test may have left it paused


def _raylet_pid(node: Any) -> int:
    return int(node.all_processes["raylet"][0].process.pid)


def main() -> None:
    responses = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # Ray's output must not mix with responses
    with_late_agents()  # a raylet gives those of Ray 15 s, which is little where other tests run
    with_forked_workers()  # each of Ray's own takes two seconds of a processor; tests/hosts has those
    host = Host()
    try:
        for line in sys.stdin:
            command, *arguments = json.loads(line)
            print(json.dumps(getattr(host, command)(*arguments)), file=responses, flush=True)
    finally:
        host.stop()


if __name__ == "__main__":
    main()
