"""Real transactional producers and consumers: librdkafka, aiokafka and kafka-python through one gateway.

Java's are in tests/conformance/test_transactions.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.errors import ProducerFenced
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from kafka import KafkaProducer

from muster.actors.wire.kafka.codec import ErrorCode
from tests.gateway.group_client import Fresh
from tests.gateway.serving import Serving

PROPERTIES = {
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
}
TIMEOUT_S = 30.0
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"


@pytest.fixture(scope="module")
def bootstrap(full: Serving) -> str:
    return full.reachable()


@pytest.fixture
def producer(bootstrap: str, fresh: Fresh) -> Callable[..., Producer]:
    """Return a maker of librdkafka's producers, initialized; of one transactional id unless another is given."""
    name = fresh("txn")

    def make(transactional_id: str = name, **options: object) -> Producer:
        made = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id, **options})
        made.init_transactions(TIMEOUT_S)
        return made

    return make


def send(producer: Producer, topic: str, *values: str, partition: int = 0) -> None:
    for value in values:
        producer.produce(topic, value.encode(), partition=partition)
    assert producer.flush(TIMEOUT_S) == 0


def text_of(message: Message) -> str:
    return (message.value() or b"").decode()


def read(bootstrap: str, topic: str, isolation: str, partition: int = 0) -> list[str]:
    """Everything up to the end that this isolation level has now."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    consumer = Consumer({**settings, "isolation.level": isolation, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, partition, 0)])
    values = []
    try:
        while True:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None
            error = message.error()
            if error is None:
                values.append(text_of(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                return values
            else:
                raise KafkaException(error)
    finally:
        consumer.close()


def ends(bootstrap: str, topic: str, isolation: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": isolation})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S, cached=False)[1])
    finally:
        consumer.close()


def test_committed_records_are_read_and_aborted_ones_are_not(
    full: Serving, bootstrap: str, fresh: Fresh, producer: Callable[..., Producer]
) -> None:
    topic = full.create(fresh("topic"), 2).name
    mine = producer()
    mine.begin_transaction()
    send(mine, topic, "a", "b")
    send(mine, topic, "c", partition=1)
    assert (read(bootstrap, topic, COMMITTED), read(bootstrap, topic, UNCOMMITTED)) == ([], ["a", "b"])
    mine.commit_transaction(TIMEOUT_S)
    assert read(bootstrap, topic, COMMITTED) == ["a", "b"]
    assert read(bootstrap, topic, COMMITTED, partition=1) == ["c"]
    mine.begin_transaction()
    send(mine, topic, "d")
    mine.abort_transaction(TIMEOUT_S)
    mine.begin_transaction()
    send(mine, topic, "e")
    mine.commit_transaction(TIMEOUT_S)
    assert read(bootstrap, topic, COMMITTED) == ["a", "b", "e"]
    assert read(bootstrap, topic, UNCOMMITTED) == ["a", "b", "d", "e"]


def test_offsets_are_committed_with_the_records(
    full: Serving, bootstrap: str, fresh: Fresh, producer: Callable[..., Producer]
) -> None:
    source, target, group = full.create(fresh("topic")).name, full.create(fresh("topic")).name, fresh("group")
    plain = Producer({"bootstrap.servers": bootstrap})
    send(plain, source, *"abcdef")
    mine = producer()
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.subscribe([source])
    try:
        for ends_well in (True, False, True):
            mine.begin_transaction()
            for message in consumer.consume(2, TIMEOUT_S):
                send(mine, target, text_of(message).upper())
            position = consumer.position(consumer.assignment())
            mine.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), TIMEOUT_S)
            if ends_well:
                mine.commit_transaction(TIMEOUT_S)
            else:
                mine.abort_transaction(TIMEOUT_S)
                (back,) = consumer.committed(consumer.assignment(), TIMEOUT_S)
                assert back.offset == 2
                consumer.seek(back)
        (done,) = consumer.committed([TopicPartition(source, 0)], TIMEOUT_S)
        assert done.offset == 4
    finally:
        consumer.close()
    assert read(bootstrap, target, COMMITTED) == ["A", "B", "C", "D"]


def test_an_older_producer_is_fenced(
    full: Serving, bootstrap: str, fresh: Fresh, producer: Callable[..., Producer]
) -> None:
    """The transaction of the older producer is aborted."""
    topic = full.create(fresh("topic")).name
    old = producer()
    old.begin_transaction()
    send(old, topic, "old")
    new = producer()
    new.begin_transaction()
    send(new, topic, "new")
    new.commit_transaction(TIMEOUT_S)
    with pytest.raises(KafkaException) as failed:
        old.commit_transaction(TIMEOUT_S)
    assert failed.value.args[0].fatal()
    assert failed.value.args[0].code() == KafkaError._FENCED
    assert read(bootstrap, topic, COMMITTED) == ["new"]


def test_a_transaction_that_takes_too_long_is_aborted(
    full: Serving, bootstrap: str, fresh: Fresh, producer: Callable[..., Producer]
) -> None:
    topic = full.create(fresh("topic")).name
    slow = producer(**{"transaction.timeout.ms": 10_000})
    slow.begin_transaction()
    send(slow, topic, "late")
    assert ends(bootstrap, topic, COMMITTED) == 0
    while ends(bootstrap, topic, COMMITTED) == 0:
        assert ends(bootstrap, topic, UNCOMMITTED) >= 1
    assert ends(bootstrap, topic, COMMITTED) == ends(bootstrap, topic, UNCOMMITTED) == 2
    with pytest.raises(KafkaException):
        slow.commit_transaction(TIMEOUT_S)
    assert read(bootstrap, topic, COMMITTED) == []


def test_a_timeout_that_is_too_long_is_fatal(bootstrap: str, producer: Callable[..., Producer]) -> None:
    with pytest.raises(KafkaException) as failed:
        producer(**{"transaction.timeout.ms": 2147483647})
    assert failed.value.args[0].fatal()
    assert failed.value.args[0].code() == ErrorCode.invalid_transaction_timeout


def test_transactions_without_records(full: Serving, bootstrap: str, producer: Callable[..., Producer]) -> None:
    mine = producer()
    mine.begin_transaction()
    mine.commit_transaction(TIMEOUT_S)
    mine.begin_transaction()
    mine.abort_transaction(TIMEOUT_S)


def test_many_partitions_are_ended_together(
    full: Serving, bootstrap: str, fresh: Fresh, producer: Callable[..., Producer]
) -> None:
    topic = full.create(fresh("topic"), 20).name
    mine = producer()
    for number in range(3):
        mine.begin_transaction()
        for partition in range(20):
            mine.produce(topic, b"%d" % number, partition=partition)
        mine.commit_transaction(TIMEOUT_S)
    assert all(read(bootstrap, topic, COMMITTED, partition) == ["0", "1", "2"] for partition in range(20))


def test_aiokafka(full: Serving, bootstrap: str, fresh: Fresh) -> None:
    topic, group, name = full.create(fresh("topic")).name, fresh("group"), fresh("txn")

    async def run() -> list[bytes]:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
        await producer.start()
        async with producer.transaction():
            await producer.send_and_wait(topic, b"a", partition=0)
            await producer.send_offsets_to_transaction({AioTopicPartition(topic, 0): 1}, group)
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"b", partition=0)
        await producer.abort_transaction()
        successor = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
        await successor.start()
        with pytest.raises(ProducerFenced):
            async with producer.transaction():
                await producer.send_and_wait(topic, b"c", partition=0)
        async with successor.transaction():
            await successor.send_and_wait(topic, b"d", partition=0)
        await producer.stop()
        await successor.stop()
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, isolation_level=COMMITTED, auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            return [(await asyncio.wait_for(consumer.getone(), TIMEOUT_S)).value for _ in range(2)]
        finally:
            await consumer.stop()

    assert asyncio.run(run()) == [b"a", b"d"]


def test_kafka_python(full: Serving, bootstrap: str, fresh: Fresh) -> None:
    topic = full.create(fresh("topic")).name
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=fresh("txn"))
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"a", partition=0)
    producer.commit_transaction()
    producer.begin_transaction()
    producer.send(topic, b"b", partition=0)
    producer.abort_transaction()
    producer.close(TIMEOUT_S)
    assert read(bootstrap, topic, COMMITTED) == ["a"]
