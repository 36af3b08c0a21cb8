"""A Muster on several real Ray nodes of this machine, for the tests of this folder."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pickle
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from muster.placement.rendezvous import choose
from muster.placement.view import ClusterView
from pytest_muster.bound import bound
from tests.muster_process import Muster, eventually

_STOP_S = 60
SETTLED_S = 90
_PLACED_S = 150
_MOVED = ("offsets", "log", "reconciler")

HEALTH_CHECKS = {
    "RAY_health_check_initial_delay_ms": "0",
    "RAY_health_check_period_ms": "250",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_grpc_client_keepalive_time_ms": "1000",
    "RAY_grpc_client_keepalive_timeout_ms": "2000",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "5",
    "RAY_agent_register_timeout_ms": "100000",  # a machine that is busy with other tests starts slowly
}
"""To Ray, a node whose raylet does not respond is dead after some 3 s instead of a minute."""


@dataclass(frozen=True, slots=True)
class RayNode:
    node_id: str
    raylet: int
    """The raylet's pid."""
    forks: int
    """The pid of the process that its workers are forked from."""


@dataclass
class RayNodes:
    """``with RayNodes(folder) as nodes``: Ray nodes that are added and removed; the first one, the head, stays."""

    folder: Path
    head_labels: dict[str, str] = field(default_factory=dict)
    head: RayNode = field(init=False)
    address: str = field(init=False)
    nodes: dict[str, RayNode] = field(init=False, default_factory=dict)
    """The live nodes, by id."""

    def __enter__(self) -> RayNodes:
        self.temp_dir = Path(tempfile.mkdtemp(prefix="muster-nodes-", dir="/tmp"))  # short, for the sockets in it
        (self.temp_dir / "ray").mkdir()
        token = self.folder / "ray-token"
        token.write_text(secrets.token_hex(32))
        token.chmod(0o600)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("RAY_")},
            **HEALTH_CHECKS,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
            "RAY_TMPDIR": str(self.temp_dir),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_worker_niceness": "0",
        }
        with (self.folder / "ray.log").open("w") as log:
            self._process = subprocess.Popen(
                bound([sys.executable, "-m", "tests.nodes.ray_host"]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self.environment,
            )
        try:
            self.head = self.add(self.head_labels)
            self.address = self._exchange("address")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(_STOP_S)
        shutil.rmtree(self.temp_dir, ignore_errors=True)

    def add(self, labels: dict[str, str] | None = None) -> RayNode:
        """Start another node."""
        node = RayNode(**self._exchange("add", labels or {}))
        self.nodes[node.node_id] = node
        return node

    def view(self) -> ClusterView:
        """Return the view that Muster's controller publishes now; its endpoints contain the cluster's secret."""
        found: ClusterView = pickle.loads(base64.b64decode(self._exchange("view")))
        return found

    def kill(self, node: RayNode) -> None:
        """SIGKILL the raylet and its workers: the node is lost."""
        del self.nodes[node.node_id]
        self._exchange("kill", node.node_id)

    def replace_lost(self) -> None:
        """Add a node for each one that a test which failed has left without its raylet."""
        for node in [node for node in self.nodes.values() if has_ended(node.raylet)]:
            assert node != self.head, "the head is lost: nothing can run on these nodes any more"
            self.kill(node)
            self.add()

    @contextlib.contextmanager
    def paused(self, node: RayNode) -> Iterator[None]:
        """Stop the raylet; its workers continue: to the rest of Ray, this looks like a network partition."""
        os.kill(node.raylet, signal.SIGSTOP)
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(node.raylet, signal.SIGCONT)

    def _exchange(self, *command: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, (self.folder / "ray.log").read_text()[-4000:]
        return json.loads(line)


@dataclass
class Bench:
    """Muster and the Ray nodes on which it runs."""

    nodes: RayNodes
    muster: Muster

    def status(self) -> dict[str, Any]:
        """Return the status like ``muster status --json``. Raises AssertionError if it fails now."""
        return self.muster.status()

    def until_settled(self) -> dict[str, str]:
        """Wait until every actor serves, each on a live node, with one gateway per node; return node ids by actor.

        New clients start with the gateways of that moment: gateways of one machine cannot all have the same port.
        """

        def settled(status: dict[str, Any]) -> bool:
            alive = {node["node_id"] for node in status["nodes"] if node["state"] == "alive"}
            gateways = [actor["node_id"] for actor in status["actors"] if actor["name"].startswith("gateway-")]
            return all(
                actor["state"] == "alive" and actor["node_id"] in alive for actor in status["actors"]
            ) and sorted(gateways) == sorted(alive)

        status = eventually(self.status, settled, "every actor serves on a live node", SETTLED_S)
        self.muster.ready["bootstrap"] = [actor["address"] for actor in status["actors"] if actor["address"]]
        return {actor["name"]: actor["node_id"] for actor in status["actors"]}

    def until_placed(self) -> dict[str, str]:
        """Wait as :meth:`until_settled` does, and until each node has its share of the actors."""
        placed = lambda homes: is_placed(homes, self.nodes.nodes)  # noqa: E731
        return eventually(self.until_settled, placed, "each node has its share", _PLACED_S)

    def served_by_standbys(self, actor: str) -> int:
        """How often standbys have served in place of the actor, or of the gateway."""
        logs = Path(self.muster.ready["logs"]).glob("standby-*.log*")
        served = re.compile(rf"\b{actor}(: epoch \d+ serves$| is served here until its next process)", re.MULTILINE)
        return sum(len(served.findall(log.read_text())) for log in logs)


def has_ended(pid: int) -> bool:
    """Also of a process that its stopped raylet has not reaped."""
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def moved(homes: dict[str, str]) -> dict[str, str]:
    """Return the actors that can move between nodes."""
    return {name: home for name, home in homes.items() if name.partition("-")[0] in _MOVED}


def is_placed(homes: dict[str, str], nodes: Collection[str]) -> bool:
    """Whether log actors are spread over the nodes, and the others are where rendezvous hashing places them."""
    logs = {name: home for name, home in moved(homes).items() if name.startswith("log-")}
    load = [list(logs.values()).count(node) for node in nodes]
    hashed = {name: home for name, home in moved(homes).items() if name not in logs}
    return max(load) - min(load) <= 1 and hashed == {name: choose(name, list(nodes)) for name in hashed}


@contextlib.contextmanager
def bench(folder: Path, nodes: int, properties: dict[str, str]) -> Iterator[Bench]:
    """Yield a new Ray cluster and a new Muster on it, with a gateway on each node."""
    with RayNodes(folder) as ray_nodes:
        for _ in range(nodes - 1):
            ray_nodes.add()
        muster = Muster(
            folder / "storage",
            ["--address", ray_nodes.address, "--insecure"],
            properties,
            environment=ray_nodes.environment,
        )
        with muster:
            yield Bench(ray_nodes, muster)
