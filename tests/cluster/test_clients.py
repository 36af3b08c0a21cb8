"""Unmodified client libraries against a running Muster: the main path, once with each."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import aiokafka
import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, ResourceType

from tests.muster_process import Muster, eventually

WAIT_S = 60


def create(muster: Muster, topic: str, partitions: int = 3, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": muster.bootstrap})
    new = NewTopic(topic, num_partitions=partitions, config=config)
    admin.create_topics([new])[topic].result(WAIT_S)


def produce(muster: Muster, topic: str, values: list[bytes], **config: object) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": muster.bootstrap, **config})
    failed: list[object] = []
    for number, value in enumerate(values):
        producer.produce(topic, value, key=b"%d" % number, on_delivery=lambda e, _: failed.append(e) if e else None)
    assert producer.flush(WAIT_S) == 0
    assert failed == []


def read_confluent(muster: Muster, topic: str, group: str, count: int, **config: object) -> list[bytes]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": muster.bootstrap, "group.id": group, "auto.offset.reset": "earliest", **config}
    )
    consumer.subscribe([topic])
    values: list[bytes] = []

    def more() -> int:
        for message in consumer.consume(1000, 1.0):
            assert message.error() is None
            values.append(message.value() or b"")
        return len(values)

    eventually(more, lambda n: n >= count, f"{count} messages", WAIT_S)
    consumer.commit(asynchronous=False)
    consumer.close()
    return values


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_with_confluent_kafka(muster: Muster, fresh: Callable[[str], str], codec: str) -> None:
    topic = fresh(f"codec-{codec}")
    create(muster, topic)
    values = [b"value %d" % number * 20 for number in range(500)]
    produce(muster, topic, values, **{"compression.type": codec, "enable.idempotence": True})
    assert sorted(read_confluent(muster, topic, fresh("g"), 500)) == sorted(values)


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_acks_with_confluent_kafka(muster: Muster, fresh: Callable[[str], str], acks: object) -> None:
    topic = fresh("acks")
    create(muster, topic, 1)
    produce(muster, topic, [b"x"] * 50, acks=acks)
    assert read_confluent(muster, topic, fresh("g"), 50) == [b"x"] * 50


def test_kafka_python_produces_consumes_and_commits(muster: Muster, fresh: Callable[[str], str]) -> None:
    topic, group = fresh("kp"), fresh("g")
    create(muster, topic)
    producer = kafka.KafkaProducer(bootstrap_servers=muster.bootstrap)
    for number in range(300):
        producer.send(topic, b"%d" % number)
    producer.close(timeout=WAIT_S)
    consumer = kafka.KafkaConsumer(
        topic, bootstrap_servers=muster.bootstrap, group_id=group, auto_offset_reset="earliest"
    )
    got: set[bytes] = set()

    def more() -> int:
        got.update(record.value for records in consumer.poll(1000).values() for record in records)
        return len(got)

    eventually(more, lambda n: n == 300, "300 messages", WAIT_S)
    consumer.commit()
    committed = sum(consumer.committed(kafka.TopicPartition(topic, p)) or 0 for p in range(3))
    consumer.close()
    assert committed == 300


def test_aiokafka_produces_consumes_and_commits(muster: Muster, fresh: Callable[[str], str]) -> None:
    topic, group = fresh("aio"), fresh("g")
    create(muster, topic)

    async def main() -> set[bytes]:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=muster.bootstrap, enable_idempotence=True)
        await producer.start()
        await asyncio.gather(*[await producer.send(topic, b"%d" % number) for number in range(300)])
        await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(
            topic, bootstrap_servers=muster.bootstrap, group_id=group, auto_offset_reset="earliest"
        )
        await consumer.start()
        got: set[bytes] = set()
        async with asyncio.timeout(WAIT_S):
            while len(got) < 300:
                got.update(r.value for records in (await consumer.getmany(timeout_ms=500)).values() for r in records)
        await consumer.commit()
        await consumer.stop()
        return got

    assert asyncio.run(main()) == {b"%d" % number for number in range(300)}
    described = json.loads(muster.cli("groups", "describe", group, "--json"))
    assert sum(row["committed_offset"] for row in described["offsets"]) == 300


def test_two_members_share_the_partitions_and_rebalance(muster: Muster, fresh: Callable[[str], str]) -> None:
    topic, group = fresh("share"), fresh("g")
    create(muster, topic, 4)
    config = {"bootstrap.servers": muster.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    first, second = confluent_kafka.Consumer(config), confluent_kafka.Consumer(config)
    first.subscribe([topic])
    eventually(lambda: (first.poll(0.2), len(first.assignment()))[1], lambda n: n == 4, "all for the first", WAIT_S)
    second.subscribe([topic])

    def both() -> tuple[int, int]:
        first.poll(0.1)
        second.poll(0.1)
        return len(first.assignment()), len(second.assignment())

    eventually(both, lambda counts: counts == (2, 2), "two each", WAIT_S)
    second.close()
    eventually(lambda: (first.poll(0.2), len(first.assignment()))[1], lambda n: n == 4, "all for the first", WAIT_S)
    first.close()


def test_a_group_goes_on_where_it_committed(muster: Muster, fresh: Callable[[str], str]) -> None:
    topic, group = fresh("resume"), fresh("g")
    create(muster, topic, 1)
    produce(muster, topic, [b"%d" % number for number in range(100)])
    assert len(read_confluent(muster, topic, group, 100)) == 100
    produce(muster, topic, [b"later"])
    assert read_confluent(muster, topic, group, 1) == [b"later"]


def test_admin_client(muster: Muster, fresh: Callable[[str], str]) -> None:
    topic, group = fresh("admin"), fresh("g")
    create(muster, topic, 2, **{"retention.ms": "60000"})
    admin = AdminClient({"bootstrap.servers": muster.bootstrap})
    cluster = admin.describe_cluster().result(WAIT_S)
    assert len(cluster.nodes) == 2
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(WAIT_S)
    partitions = lambda: len(admin.list_topics(topic, timeout=WAIT_S).topics[topic].partitions)  # noqa: E731
    eventually(partitions, lambda n: n == 5, "five partitions, whichever gateway responds")
    resource = ConfigResource(ResourceType.TOPIC, topic)
    assert admin.describe_configs([resource])[resource].result(WAIT_S)["retention.ms"].value == "60000"
    produce(muster, topic, [b"x"] * 10)
    read_confluent(muster, topic, group, 10)
    listed = admin.list_consumer_groups().result(WAIT_S)
    assert group in {found.group_id for found in listed.valid}
    description = admin.describe_consumer_groups([group])[group].result(WAIT_S)
    assert description.state.name == "EMPTY"
    admin.delete_consumer_groups([group])[group].result(WAIT_S)
    assert group not in {found.group_id for found in admin.list_consumer_groups().result(WAIT_S).valid}
    admin.delete_topics([topic])[topic].result(WAIT_S)
    eventually(lambda: topic in admin.list_topics(timeout=WAIT_S).topics, lambda there: not there, "the topic is gone")


def test_offsets_by_time_and_position(muster: Muster, fresh: Callable[[str], str]) -> None:
    topic = muster.topic(fresh("time"), config={"retention.ms": "-1"})  # its records are years old
    producer = confluent_kafka.Producer({"bootstrap.servers": muster.bootstrap})
    for number in range(10):
        producer.produce(topic, b"x", timestamp=1_700_000_000_000 + number * 1000)
    producer.flush(WAIT_S)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": muster.bootstrap, "group.id": fresh("g")})
    requested = confluent_kafka.TopicPartition(topic, 0, 1_700_000_000_000 + 3500)
    assert consumer.offsets_for_times([requested], WAIT_S)[0].offset == 4
    assert consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, 0), WAIT_S) == (0, 10)
    consumer.close()


def test_topics_are_created_when_first_requested(muster: Muster, fresh: Callable[[str], str]) -> None:
    topic = fresh("auto")
    produce(muster, topic, [b"made"])
    assert read_confluent(muster, topic, fresh("g"), 1) == [b"made"]


def test_offsets_topic_can_be_read_by_a_consumer(muster: Muster, fresh: Callable[[str], str]) -> None:
    topic, group = fresh("internal"), fresh("g")
    create(muster, topic, 1)
    produce(muster, topic, [b"x"])
    read_confluent(muster, topic, group, 1)
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": muster.bootstrap, "group.id": fresh("g"), "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["__consumer_offsets"])
    keys: list[bytes] = []

    def more() -> list[bytes]:
        keys.extend(message.key() for message in consumer.consume(1000, 1.0) if message.error() is None)
        return keys

    eventually(more, lambda found: any(group.encode() in key for key in found), "the group's records", WAIT_S)
    consumer.close()
