"""Consumers with a client.rack are led to a gateway of their rack (KIP-392)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer
from prometheus_client.parser import text_string_to_metric_families

from muster.actors.wire.kafka.codec import ErrorCode, versions_of
from muster.placement.view import Broker, Topic
from tests.gateway.apis.test_data_apis import FETCH, fetch, fetch_body, produce, values
from tests.gateway.serving import Serving, new_gateway
from tests.log.support import client_batch
from tests.muster_process import eventually

PROPERTIES = {"group.initial.rebalance.delay.ms": "0", "default.replication.factor": "2"}
METADATA, DESCRIBE_CLUSTER = 3, 60
FIRST_FETCH_WITH_RACK = 11
COUNT, WAIT_S = 200, 30.0
Fresh = Callable[[str], str]


class TwoRacks:
    """Gateway 1 in the rack ``left`` and gateway 2 in ``right``, with the same actors."""

    def __init__(self, left: Serving, right: Serving) -> None:
        self.left = left
        self.right = right
        self.bootstrap = f"127.0.0.1:{left.port},127.0.0.1:{right.port}"

    def create(self, name: str, partitions: int = 1, replication_factor: int = 2) -> Topic:
        registry = self.left.controller.registry
        topic = registry.create(name, partitions, {}, replication_factor=replication_factor)
        self.left.run(self._publish())
        return topic

    async def _publish(self) -> None:
        self.left.controller.publish(await asyncio.to_thread(self.left.controller.view))

    def led_by(self, gateway: Serving, topic: Topic) -> int:
        """Return a partition of the topic that the gateway leads."""
        leaders = self.left.gateway.view.leaders[topic.topic_id]
        return leaders.index(gateway.gateway.id)


@pytest.fixture(scope="module")
def racks(full: Serving, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoRacks]:
    folder = tmp_path_factory.mktemp("right")
    controller = full.controller

    async def second() -> tuple[Any, int]:
        gateway = await new_gateway(2, folder, full.gateway.config, controller)
        return gateway, await gateway.listen("127.0.0.1", 0)

    gateway, port = full.run(second())
    right = Serving(gateway, controller, full.run, port)
    controller.brokers = (
        Broker(id=1, host="127.0.0.1", port=full.port, node_id="n1", rack="left"),
        Broker(id=2, host="127.0.0.1", port=port, node_id="n1", rack="right"),
    )
    to_left = controller.publish

    def to_both(view: Any) -> None:
        to_left(view)
        gateway.follow(view)

    controller.publish = to_both
    view = controller.view()
    for each in (full, right):
        each.follow(view)
    full.run(gateway.forwarder.until(lambda: None not in map(gateway.forwarder.log, controller.logs), 10))
    yield TwoRacks(full, right)
    controller.publish = to_left
    right.client.close()
    right.stop_http()
    full.run(gateway.stop())


def test_racks_are_in_metadata(racks: TwoRacks) -> None:
    body = {
        "topics": [],
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }
    for version in (1, 13):
        metadata = racks.left.exchange(METADATA, version, body)
        assert {broker.node_id: broker.rack for broker in metadata.brokers} == {1: "left", 2: "right"}
    described = racks.left.exchange(
        DESCRIBE_CLUSTER,
        2,
        {"include_cluster_authorized_operations": False, "endpoint_type": 1, "include_fenced_brokers": False},
    )
    assert {broker.broker_id: broker.rack for broker in described.brokers} == {1: "left", 2: "right"}


@pytest.mark.parametrize("version", [each for each in versions_of(FETCH) if each >= FIRST_FETCH_WITH_RACK])
def test_a_consumer_of_another_rack_is_led_there(racks: TwoRacks, fresh: Fresh, version: int) -> None:
    topic = racks.create(fresh("t"), 2)
    here = racks.led_by(racks.left, topic)
    produce(racks.left.client, (topic, here, client_batch(3)))
    (away,) = fetch(racks.left.client, (topic, here, 0), version=version, rack_id="right", max_wait=60_000, min_bytes=9)
    assert (away.error_code, away.preferred_read_replica, away.high_watermark) == (ErrorCode.none, 2, 3)
    assert not away.records
    (there,) = fetch(racks.right.client, (topic, here, 0), version=version, rack_id="right")
    assert (there.error_code, there.preferred_read_replica, there.high_watermark) == (ErrorCode.none, -1, 3)
    assert len(values(there.records)) == 3


def test_who_is_led_nowhere(racks: TwoRacks, fresh: Fresh) -> None:
    two, one = racks.create(fresh("t"), 2), racks.create(fresh("t"), 2, replication_factor=1)
    here = racks.led_by(racks.left, two)
    alone = racks.led_by(racks.left, one)
    produce(racks.left.client, (two, here, client_batch(3)), (one, alone, client_batch(3)))
    for topic, partition, rack in (
        (two, here, "left"),
        (two, here, "elsewhere"),
        (two, here, ""),
        (one, alone, "right"),
    ):
        (found,) = fetch(racks.left.client, (topic, partition, 0), rack_id=rack)
        assert (found.preferred_read_replica, len(values(found.records))) == (-1, 3), (topic.name, rack)


def test_an_offset_out_of_range_is_reported_at_once(racks: TwoRacks, fresh: Fresh) -> None:
    """On the way there, and there: a consumer resets its offset at the leader, as with Kafka."""
    topic = racks.create(fresh("t"), 2)
    here = racks.led_by(racks.left, topic)
    produce(racks.left.client, (topic, here, client_batch(3)))
    for gateway in (racks.left, racks.right):
        (found,) = fetch(gateway.client, (topic, here, 7), rack_id="right")
        assert (found.error_code, found.preferred_read_replica) == (ErrorCode.offset_out_of_range, -1)


def test_partitions_of_both_kinds_in_one_request(racks: TwoRacks, fresh: Fresh) -> None:
    """Records come with the response that leads away, and it does not wait."""
    away, stays = racks.create(fresh("t"), 2), racks.create(fresh("t"), 2, replication_factor=1)
    parts = [(topic, racks.led_by(racks.left, topic)) for topic in (away, stays)]
    produce(racks.left.client, *((topic, partition, client_batch(3)) for topic, partition in parts))
    found = fetch(
        racks.left.client,
        *((topic, partition, 0) for topic, partition in parts),
        rack_id="right",
        max_wait=60_000,
        min_bytes=1 << 20,
    )
    assert [(each.preferred_read_replica, len(values(each.records))) for each in found] == [(2, 0), (-1, 3)]


def test_what_leads_away_is_no_evidence_of_what_is_fetched_here(racks: TwoRacks, fresh: Fresh) -> None:
    topic = racks.create(fresh("t"), 2)
    here = racks.led_by(racks.left, topic)
    with racks.left.connect("rack client") as client:
        client.exchange(FETCH, 12, fetch_body((topic, here, 0), rack_id="right"))
        (connection,) = (each for each in racks.left.gateway.connections.values() if each.port == client.port)
        assert "rack client" not in connection.attribution.fetches
        client.exchange(FETCH, 12, fetch_body((topic, here, 0), rack_id="left"))
        assert (topic.name, here) in connection.attribution.fetches["rack client"].current


def read_confluent(bootstrap: str, topic: str, group: str) -> int:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "client.rack": "right", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    try:
        found = len(consumer.consume(COUNT, WAIT_S))
        consumer.commit(asynchronous=False)
        return found
    finally:
        consumer.close()


def read_kafka_python(bootstrap: str, topic: str, group: str) -> int:
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap.split(","),
        group_id=group,
        client_rack="right",
        auto_offset_reset="earliest",
        consumer_timeout_ms=WAIT_S * 1000,
    )
    try:
        return sum(1 for _, _ in zip(range(COUNT), consumer, strict=False))
    finally:
        consumer.close()


def read_aiokafka(bootstrap: str, topic: str, group: str) -> int:
    async def read() -> int:
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id=group, client_rack="right", auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            async with asyncio.timeout(WAIT_S):
                return len([await consumer.getone() for _ in range(COUNT)])
        finally:
            await consumer.stop()

    return asyncio.run(read())


@pytest.mark.parametrize("read", [read_confluent, read_kafka_python, read_aiokafka])
def test_real_consumers_fetch_from_their_rack(
    racks: TwoRacks, fresh: Fresh, read: Callable[[str, str, str], int]
) -> None:
    """All of it comes from the gateway of their rack, and is attributed to their group there.

    It may come more than once: a client that rejoins, as kafka-python does when it learns of a topic late, discards
    what it has not read, and fetches it again.
    """
    topic, group = racks.create(fresh("t"), 4), fresh("g")
    leaders = racks.left.gateway.view.leaders[topic.topic_id]
    assert sorted(leaders) == [1, 1, 2, 2]
    producer = Producer({"bootstrap.servers": racks.bootstrap})
    for number in range(COUNT):
        producer.produce(topic.name, str(number), partition=number % 4)
    assert producer.flush(WAIT_S) == 0
    assert read(racks.bootstrap, topic.name, group) == COUNT
    eventually(
        lambda: fetched(racks.right, topic.name),
        lambda there: there.keys() == {group} and there[group] >= COUNT,
        f"everything that was fetched is attributed to {group}",
    )
    assert fetched(racks.left, topic.name) == {}


def fetched(gateway: Serving, topic: str) -> dict[str, int]:
    """Messages that the gateway sent of the topic, by group; "" for those without one."""
    found: dict[str, int] = {}
    for family in text_string_to_metric_families(gateway.http("/metrics")[1]):
        for sample in family.samples:
            if (
                sample.name in ("muster_group_fetch_messages_total", "muster_unattributed_fetch_messages_total")
                and sample.labels["topic"] == topic
                and sample.value
            ):
                group = sample.labels.get("group", "")
                found[group] = found.get(group, 0) + int(sample.value)
    return found


def test_without_a_gateway_in_its_rack_a_consumer_stays_at_the_leader(racks: TwoRacks, fresh: Fresh) -> None:
    """The gateway of its rack is lost, for example: the view no longer has it."""
    topic = racks.create(fresh("t"), 2)
    here = racks.led_by(racks.left, topic)
    produce(racks.left.client, (topic, here, client_batch(3)))
    view = racks.left.controller.view()
    racks.left.follow(replace(view, brokers=view.brokers[:1], leaders={topic.topic_id: (1, 1)}))
    try:
        (found,) = fetch(racks.left.client, (topic, here, 0), rack_id="right")
        assert (found.preferred_read_replica, len(values(found.records))) == (-1, 3)
    finally:
        racks.left.follow(racks.left.controller.view())
