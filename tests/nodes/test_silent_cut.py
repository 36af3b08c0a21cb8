"""A node falls silent, to clients and to the other nodes alike: what clients with their default settings notice.

All processes of the node are stopped, and so is the way from the clients to its gateway: nothing is closed or refused.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import pytest

from muster.placement.hashing import partition_for
from muster.placement.rendezvous import choose
from tests.cluster.consumer_groups.groups import create, sending, until_read, working
from tests.cluster.consumer_groups.members import AiokafkaMember, ConfluentMember, KafkaPythonMember, Producer
from tests.muster_process import eventually
from tests.nodes.bench import SETTLED_S, Bench, RayNode, bench
from tests.nodes.relay import Relay

OFFSETS_PARTITIONS = 50
"""So many that each node has some."""
COUNT = 200
DEFAULT_S = 60.0
"""librdkafka's socket.timeout.ms."""
_PROPERTIES = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "advertised.listeners": "PLAINTEXT://127.9.{id}.1",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "log.actors": "3",
    "node.settle.ms": "2000",
}


@pytest.fixture
def on_relays(tmp_path: Path) -> Iterator[tuple[Bench, dict[str, Relay]]]:
    """Three nodes, and the relay to the gateway of each, by node."""
    with bench(tmp_path, 3, _PROPERTIES) as running, ExitStack() as relays:
        running.until_settled()
        gateways = [actor for actor in running.status()["actors"] if actor["address"]]
        ways = {}
        for gateway in gateways:
            host, _, port = gateway["address"].rpartition(":")
            ways[gateway["node_id"]] = relays.enter_context(Relay(host, int(port), "127.0.0.1"))
        yield running, ways


def stop_all(node: RayNode) -> list[psutil.Process]:
    """Pause every process of the node. Returns them."""
    first = (psutil.Process(node.raylet), psutil.Process(node.forks))
    family = [process for each in first for process in (each, *each.children(recursive=True))]
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGSTOP)
    return family


class TimedProducer(Producer):
    """Also knows how long each record took to be acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(bootstrap, topic)
        self.slowest_s = 0.0
        self._sent_s: dict[bytes, float] = {}

    def send(self, count: int, *, pause_s: float = 0.0) -> None:
        for _ in range(count):
            self._sent_s[b"%d" % self.sent] = time.monotonic()
            super().send(1, pause_s=pause_s)

    def _delivered(self, error: Any, message: Any) -> None:
        super()._delivered(error, message)
        self.slowest_s = max(self.slowest_s, time.monotonic() - self._sent_s.pop(message.value()))


def group_at(node: RayNode, nodes: Collection[str], fresh: Callable[[str], str]) -> str:
    """Return a group whose coordinator, and the gateway that clients find it at, are on that node."""
    while True:
        name = fresh("g")
        if choose(f"offsets-{partition_for(name, OFFSETS_PARTITIONS)}", list(nodes)) == node.node_id:
            return name


@pytest.mark.timeout(400)
def test_clients_with_defaults_go_on_when_a_node_falls_silent(
    on_relays: tuple[Bench, dict[str, Relay]], record_property: Any
) -> None:
    """No server reaches a client on a connection that is cut, but librdkafka gives up a gateway that no one names."""
    running, ways = on_relays
    topic, nodes = "cut", running.nodes
    create(running.muster, topic)
    kept = {nodes.head.node_id, running.until_settled()["controller"]}
    silent = next(node for node in nodes.nodes.values() if node.node_id not in kept)
    numbers = count()
    fresh = lambda kind: f"{kind}-{next(numbers)}"  # noqa: E731
    places = {"there": silent, "elsewhere": nodes.head}
    members = {
        (kind.__name__, place): kind(running.muster.bootstrap, topic, group_at(node, nodes.nodes, fresh))
        for kind in (ConfluentMember, KafkaPythonMember, AiokafkaMember)
        for place, node in places.items()
    }
    producer = TimedProducer(running.muster.bootstrap, topic)
    with working(*members.values()), sending(producer):
        for member in members.values():
            until_read([member], COUNT)
        producer.slowest_s = 0.0
        for member in members.values():
            member.gap.start()
        ways[silent.node_id].cut()
        cut_s = time.monotonic()
        stop_all(silent)
        left = lambda homes: silent.node_id not in homes.values()  # noqa: E731
        eventually(running.until_settled, left, "everything serves elsewhere", SETTLED_S)
        print(f"a node falls silent: everything serves elsewhere after {time.monotonic() - cut_s:.1f} s")
        for member in members.values():
            until_read([member], len(member.read) + COUNT)
    producer.flush()
    gaps = {
        "Producer": producer.slowest_s,
        **{" ".join(name): member.gap.longest_s for name, member in members.items()},
    }
    for name, seconds in gaps.items():
        record_property(name, round(seconds, 1))
        print(f"a node falls silent: longest gap of commits, or slowest record, {name}: {seconds:.1f} s")
    assert max(gaps[name] for name in gaps if name.startswith(("Producer", "Confluent"))) < DEFAULT_S / 2
    nodes.kill(silent)
