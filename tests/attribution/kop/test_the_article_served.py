"""The incident replayed on three real gateways over one real ZooKeeper: the label stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from muster.placement.zookeeper.client import ZooKeeperClient
from tests.attribution.kop.kop_rule import KopRule, MemoryStore, java_address
from tests.attribution.kop.served import join, read, write
from tests.attribution.kop.three_gateways import NAMES, ThreeGateways, three_gateways
from tests.gateway.group_client import find
from tests.gateway.serving import Client, Serving
from tests.zookeeper_fixture import eventually

GROUP = "orders"
CLIENT_ID = "rdkafka"
PROPERTIES = {"group.initial.rebalance.delay.ms": "0"}
PARTITIONS = 60
"""Enough that each gateway leads some: topic ids are random."""
CONSUMED = 6


@pytest.fixture
def cluster(zk: ZooKeeperClient, tmp_path: Path) -> Iterator[tuple[ThreeGateways, Serving]]:
    with three_gateways(zk, tmp_path, PROPERTIES) as running:
        yield running


class Shadow:
    """KoP's rule on the events of this test's clients, in place of the gateways."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.brokers = {name: KopRule(self.store) for name in NAMES}
        self._ports: dict[str, set[int]] = {name: set() for name in NAMES}

    def find(self, broker: str, client: Client) -> None:
        self._ports[broker].add(client.port)
        self.brokers[broker].found_coordinator(client.port, java_address("127.0.0.1", client.port), CLIENT_ID, [GROUP])

    def label(self, broker: str, client: Client) -> str:
        self._ports[broker].add(client.port)
        return self.brokers[broker].label(client.port, java_address("127.0.0.1", client.port), CLIENT_ID)

    def stop(self, broker: str) -> None:
        for port in self._ports[broker]:
            self.brokers[broker].closed(port)


def test_the_label_stays_when_the_gateway_that_received_the_look_up_restarts(
    cluster: tuple[ThreeGateways, Serving],
) -> None:
    """No part of the coordinator is on A, and the client does not look it up again."""
    three, backstage = cluster
    kop = Shadow()
    topic = backstage.create("t", PARTITIONS)
    led_by = {three.leader(topic, partition): partition for partition in range(PARTITIONS)}
    assert set(led_by) == set(NAMES)
    write(backstage.client, topic, *led_by.values())
    find(backstage.client, 4, GROUP)
    on = three.coordinator(GROUP)
    first, third = (name for name in NAMES if name != on)
    sent = 0

    def consume(partition: int, label: str) -> None:
        """Fetch from the partition's current leader, over a new connection."""
        nonlocal sent
        leader = three.leader(topic, partition)
        with three.connect(leader, CLIENT_ID) as client:
            assert kop.label(leader, client) == label
            sent += read(client, topic, partition)
        eventually(lambda: three.fetched() == {GROUP: sent}, f"all is the group's: {three.fetched()}")

    with three.connect(first, CLIENT_ID) as look_up, three.connect(on, CLIENT_ID) as coordinator:
        find(look_up, 4, GROUP)  # 3: the look-up goes to a gateway other than the coordinator
        kop.find(first, look_up)
        member = join(coordinator, GROUP, "t", range(PARTITIONS))
        for partition in led_by.values():  # 1: the group consumes on all three
            consume(partition, GROUP)

        three.stop(first)  # 4: that gateway restarts, not the coordinator
        kop.stop(first)
        assert three.leader(topic, led_by[first]) != first  # 5: its partition moves; a new connection is opened there
        consume(led_by[first], "")
        assert not member.heartbeat(), "nothing happened to the member"

        three.start(first)
        three.stop(third)
        kop.stop(third)
        consume(led_by[third], "")
        assert not member.heartbeat()


def test_a_real_consumer_keeps_its_label_through_a_rolling_restart(
    cluster: tuple[ThreeGateways, Serving], fresh: Callable[[str], str]
) -> None:
    """librdkafka with its default client id; every gateway in turn is stopped during consumption, and restarted."""
    three, backstage = cluster
    topic = backstage.create(fresh("t"), CONSUMED)
    settings = {"auto.offset.reset": "earliest", "reconnect.backoff.max.ms": 500, "log_level": 2}
    consumer = Consumer({"bootstrap.servers": three.bootstrap, "group.id": GROUP, **settings})
    consumer.subscribe([topic.name])

    def consume(rounds: int) -> None:
        """Until that many records of every partition were received."""

        def enough() -> bool:
            for message in consumer.consume(100, timeout=0.1):
                assert message.error() is None
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                seen[partition] = max(seen[partition], offset + 1)
            return min(seen.values()) >= rounds

        eventually(enough, f"{rounds} records of each partition: {seen}", within_s=60)

    seen = dict.fromkeys(range(CONSUMED), 0)
    try:
        write(backstage.client, topic, *range(CONSUMED))
        consume(1)
        for rounds, name in enumerate(NAMES, start=2):
            three.stop(name)
            write(backstage.client, topic, *range(CONSUMED))
            consume(rounds)
            three.start(name)
    finally:
        consumer.close()
    eventually(lambda: three.fetched().keys() == {GROUP}, f"all is the group's: {three.fetched()}")
