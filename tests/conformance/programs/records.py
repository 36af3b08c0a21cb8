"""Records of a topic, written and read with librdkafka."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

_REQUEST_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class Record:
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


def write(bootstrap: str, topic: str, values: Iterable[str], *, partitions: int) -> None:
    """Write a record without key for each value, over the partitions in turn; all acknowledged."""
    refused: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap})
    for number, value in enumerate(values):
        producer.produce(
            topic,
            value.encode(),
            partition=number % partitions,
            on_delivery=lambda error, _: refused.append(error) if error else None,
        )
    assert producer.flush(_REQUEST_TIMEOUT_S) == 0
    assert refused == []


def read(bootstrap: str, topic: str, *, committed: bool = False) -> list[Record]:
    """All records of a topic, in order within a partition; ``committed``: without those of unfinished transactions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    partitions = admin.list_topics(topic, timeout=_REQUEST_TIMEOUT_S).topics[topic].partitions
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    found: list[Record] = []
    ended: set[int] = set()
    try:
        while len(ended) < len(partitions):
            message = consumer.poll(_REQUEST_TIMEOUT_S)
            assert message is not None, f"{topic} has no end"
            partition, offset, error = message.partition(), message.offset(), message.error()
            assert partition is not None
            assert offset is not None
            if error is None:
                found.append(Record(partition, offset, message.key(), message.value()))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(partition)
    finally:
        consumer.close()
    return found
