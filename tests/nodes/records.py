"""Writes records to a topic, or reads all of them: ``python -m tests.nodes.records write|read BOOTSTRAP N``."""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, Producer, TopicPartition

_TOPIC = "kept"
_WAIT_S = 60


def write(bootstrap: str, first: int, count: int = 100) -> None:
    """Produce ``count`` numbers from ``first`` on; returns when all are acknowledged."""
    failed = []
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": _WAIT_S * 1000})
    for number in range(first, first + count):
        producer.produce(_TOPIC, str(number), partition=0, on_delivery=lambda error, _: failed.append(error))
    left = producer.flush(_WAIT_S)
    assert left == 0, f"{left} are not acknowledged"
    assert failed == [None] * count


def read(bootstrap: str, count: int) -> None:
    """Fail unless the topic begins with ``count`` numbers in order."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(_TOPIC, 0, 0)])
    found: list[int] = []
    while len(found) < count:
        message = consumer.poll(_WAIT_S)
        assert message is not None, f"only {len(found)} came"
        assert not message.error(), message.error()
        found.append(int(message.value() or b""))
    consumer.close()
    assert found == list(range(count))


if __name__ == "__main__":
    (write if sys.argv[1] == "write" else read)(sys.argv[2], int(sys.argv[3]))
