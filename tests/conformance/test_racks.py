"""Consumers with a client.rack (KIP-392): as Kafka's own brokers respond, and with the Java client."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import javaproperties
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from muster.actors.wire.kafka.codec import ErrorCode
from tests.conformance.artifacts import Kafka
from tests.conformance.clients import Tools
from tests.conformance.kafka import KafkaBroker
from tests.conformance.topics import fill, now_ms
from tests.gateway.serving import Client
from tests.muster_process import Muster, eventually

METADATA, FETCH = 3, 1
COUNT, WAIT_S = 100, 60.0
Fresh = Callable[[str], str]


class Brokers:
    """Two, in racks that are named after their ids."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        known = lambda: self._admin.list_topics(timeout=WAIT_S).brokers  # noqa: E731
        found = eventually(known, lambda brokers: len(brokers) == 2, "both brokers serve")
        self.addresses = {broker.id: (str(broker.host), broker.port) for broker in found.values()}

    def topic(self, name: str, partitions: int = 1) -> list[int]:
        """Create a topic of two replicas. Returns the leader of each partition."""
        self._admin.create_topics([NewTopic(name, partitions, 2)])[name].result(WAIT_S)
        described = eventually(
            lambda: self._admin.list_topics(name, timeout=WAIT_S).topics[name].partitions,
            lambda found: len(found) == partitions and all(len(each.isrs) == 2 for each in found.values()),
            "both replicas are in sync",
        )
        return [described[partition].leader for partition in range(partitions)]

    def client(self, broker_id: int) -> Client:
        host, port = self.addresses[broker_id]
        return Client(port, host=host)


@pytest.fixture(scope="module", params=["muster", "kafka"])
def brokers(
    request: pytest.FixtureRequest, release: Kafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Brokers]:
    with ExitStack() as stack:
        if request.param == "muster":
            yield Brokers(request.getfixturevalue("racked").bootstrap)
        else:
            selector = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
            first = stack.enter_context(KafkaBroker({**selector, "broker.rack": "rack-1"}, release=release))
            second = stack.enter_context(SecondBroker(first, {**selector, "broker.rack": "rack-2"}, release=release))
            yield Brokers(f"{first.bootstrap_servers},{second.bootstrap_servers}")


class SecondBroker(KafkaBroker):
    """Broker of the cluster of another one, which is the controller."""

    def __init__(self, first: KafkaBroker, properties: dict[str, str], *, release: Kafka) -> None:
        super().__init__(properties, release=release)
        own = javaproperties.loads((first.data.parent / "server.properties").read_text())
        self._voters = own["controller.quorum.voters"]

    def _server_properties(self, port: int, controller_port: int) -> dict[str, str]:
        return {
            **super()._server_properties(port, controller_port),
            "process.roles": "broker",
            "node.id": "2",
            "controller.quorum.voters": self._voters,
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        }


@pytest.fixture(scope="module")
def racked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    properties = {"broker.rack": "rack-{id}", "group.initial.rebalance.delay.ms": "0"}
    with Muster(tmp_path_factory.mktemp("racks") / "storage", properties=properties) as running:
        yield running


def fetch(client: Client, topic: str, offset: int, rack: str) -> Any:
    """Return the response for partition 0; the request would wait for a minute."""
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    body = {
        "replica_id": -1,
        "max_wait": 60_000,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "forgotten_topics_data": [],
        "rack_id": rack,
        "topics": [{"topic": topic, "partitions": [partition]}],
    }
    (found,) = client.exchange(FETCH, 12, body).responses
    return found.partitions[0]


def test_the_leader_leads_to_the_replica_of_the_rack(brokers: Brokers, fresh: Fresh) -> None:
    topic = fresh("racks")
    (leader,) = brokers.topic(topic)
    other = 3 - leader
    fill(brokers.bootstrap, topic, 0, [now_ms()] * 3)
    with brokers.client(leader) as here, brokers.client(other) as there:
        away = fetch(here, topic, 0, f"rack-{other}")
        assert (away.error_code, away.preferred_read_replica, away.high_watermark) == (ErrorCode.none, other, 3)
        assert not away.records
        found = fetch(there, topic, 0, f"rack-{other}")
        assert (found.error_code, found.preferred_read_replica) == (ErrorCode.none, -1)
        assert found.records
        for rack in ("", f"rack-{leader}", "rack-3"):
            found = fetch(here, topic, 0, rack)
            assert (found.error_code, found.preferred_read_replica) == (ErrorCode.none, -1), rack
            assert found.records, rack
        beyond = fetch(here, topic, 7, f"rack-{other}")
        assert (beyond.error_code, beyond.preferred_read_replica) == (ErrorCode.offset_out_of_range, -1)


def test_brokers_name_their_racks(brokers: Brokers) -> None:
    body = {"topics": [], "allow_auto_topic_creation": False}
    with brokers.client(1) as client:
        found = client.exchange(METADATA, 5, body).brokers
    assert {broker.node_id: broker.rack for broker in found} == {1: "rack-1", 2: "rack-2"}


def test_the_java_consumer_fetches_in_its_rack(racked: Muster, release: Kafka, fresh: Fresh) -> None:
    topic, group, brokers = fresh("racks"), fresh("group"), Brokers(racked.bootstrap)
    assert sorted(brokers.topic(topic, 2)) == [1, 2]
    for partition in (0, 1):
        fill(racked.bootstrap, topic, partition, [now_ms()] * (COUNT // 2))
    consumer = ["--topic", topic, "--group", group, "--from-beginning", "--max-messages", str(COUNT)]
    consumer += ["--timeout-ms", "60000", "--command-property", "client.rack=rack-2"]
    read = Tools(release, racked.bootstrap).run("consumer.ConsoleConsumer", *consumer)
    assert len(read.splitlines()) == COUNT
    assert [fetched(url, group) for url in racked.metrics_urls] == [0, COUNT]


def fetched(metrics_url: str, group: str) -> int:
    """Messages that the gateway sent for the group."""
    with urllib.request.urlopen(metrics_url) as response:
        families = list(text_string_to_metric_families(response.read().decode()))
    samples = [sample for family in families for sample in family.samples]
    return sum(
        int(sample.value)
        for sample in samples
        if sample.name == "muster_group_fetch_messages_total" and sample.labels["group"] == group
    )
