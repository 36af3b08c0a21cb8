"""Addresses and racks of gateways from the labels of their nodes."""

from __future__ import annotations

import subprocess
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from prometheus_client.parser import text_string_to_metric_families

from tests.muster_process import START_S, Muster, eventually
from tests.nodes.bench import RayNodes

TOPIC, GROUP, COUNT, WAIT_S = "orders", "billing", 100, 60.0
PROPERTIES = {
    "listeners": "INTERNAL://:0,EXTERNAL://:0",
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
    "advertised.listeners": "EXTERNAL://{label:ip}",
    "broker.rack": "{label:rack}",
    "default.replication.factor": "2",
    "offsets.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "node.settle.ms": "500",
}
WRONG = (
    (
        {"broker.rack": "{label:zone}"},
        "has no label zone, which broker.rack needs; start Ray there with --labels",
    ),
    (
        {"advertised.listeners": "EXTERNAL://kafka.example:{label:port}", "gateway.count": "2"},
        "gateways 1 and 2 both advertise kafka.example:19094; put {id}, {host} or {label:NAME} into",
    ),
)
"""Errors that are found before anything starts, and one that is found when the second gateway serves."""


@pytest.mark.timeout(400)
def test_addresses_and_racks_come_from_labels(tmp_path: Path) -> None:
    with RayNodes(tmp_path, {"ip": "127.0.0.2", "rack": "a", "port": "19094"}) as nodes:
        other = nodes.add({"ip": "127.0.0.3", "rack": "b", "port": "19094"})
        up = ["--address", nodes.address, "--nodes", "2", "--insecure"]
        with Muster(tmp_path / "storage", up, PROPERTIES, environment=nodes.environment) as muster:
            outer = eventually(lambda: external(muster), lambda found: len(found) == 2, "both gateways serve")
            assert [address.partition(":")[0] for address in outer] == ["127.0.0.2", "127.0.0.3"]
            brokers = AdminClient({"bootstrap.servers": outer[0]}).list_topics(timeout=WAIT_S).brokers.values()
            assert sorted(f"{broker.host}:{broker.port}" for broker in brokers) == outer
            consumer = reads_in_its_rack(muster, outer)

            nodes.kill(other)
            produce(outer[0])
            assert len(consumer.consume(COUNT, WAIT_S)) == COUNT, "from the leader, while its rack has no gateway"
            consumer.close()

            without = nodes.add({"rack": "c", "port": "19094"})
            failed = eventually(
                lambda: [actor["error"] for name, actor in muster.actors().items() if name.startswith("gateway-")],
                any,
                "the gateway of a node without the label cannot start",
            )
            assert "has no label ip, which advertised.listeners needs" in str(failed)
            assert external(muster) == outer[:1]

        nodes.kill(without)  # else it depends on the nodes' ids which problem is found first
        nodes.add({"ip": "127.0.0.3", "rack": "b", "port": "19094"})
        for wrong, problem in WRONG:
            muster = Muster(tmp_path / "wrong", up, PROPERTIES | wrong, nodes.environment)
            done = subprocess.run(
                muster.command, capture_output=True, text=True, timeout=START_S, env=nodes.environment
            )
            assert done.returncode == 1
            assert problem in done.stderr


def external(muster: Muster) -> list[str]:
    """Addresses of the gateways that serve."""
    return sorted(
        actor["further_addresses"]["EXTERNAL"]
        for name, actor in muster.actors().items()
        if name.startswith("gateway-") and actor["state"] == "alive"
    )


def produce(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(COUNT):
        producer.produce(TOPIC, str(number), partition=number % 4)
    assert producer.flush(WAIT_S) == 0


def reads_in_its_rack(muster: Muster, bootstrap: list[str]) -> Consumer:
    """All messages come from the gateway in the consumer's rack. Returns the consumer."""
    muster.cli("topics", "create", TOPIC, "--partitions", "4")
    produce(bootstrap[0])
    consumer = Consumer(
        {"bootstrap.servers": bootstrap[0], "group.id": GROUP, "client.rack": "b", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([TOPIC])
    assert len(consumer.consume(COUNT, WAIT_S)) == COUNT
    gateways = [actor for name, actor in muster.actors().items() if name.startswith("gateway-")]
    sent = {
        actor["further_addresses"]["EXTERNAL"].partition(":")[0]: messages(actor["metrics_url"]) for actor in gateways
    }
    assert sent == {"127.0.0.2": 0, "127.0.0.3": COUNT}
    return consumer


def messages(metrics_url: str) -> int:
    """Return the number of messages that were sent for the group."""
    with urllib.request.urlopen(metrics_url) as response:
        families = list(text_string_to_metric_families(response.read().decode()))
    samples = [sample for family in families for sample in family.samples]
    return sum(
        int(sample.value)
        for sample in samples
        if sample.name == "muster_group_fetch_messages_total" and sample.labels["group"] == GROUP
    )
