"""Topics of these tests: what is written to them by a client, and read back."""

from __future__ import annotations

import urllib.request
from collections import Counter
from collections.abc import Iterable

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from tests.muster_process import Muster, eventually


def produce(bootstrap: str, topic: str, values: Iterable[int], partitions: int, linger_ms: int = 20) -> None:
    """Write each number, as key and as value, to the partition that it is divisible by; return once they are there."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": linger_ms, "enable.idempotence": True})
    for value in values:
        producer.produce(topic, str(value), str(value), partition=value % partitions)
        producer.poll(0)
    assert producer.flush(60) == 0


def produce_in_transaction(bootstrap: str, topic: str, values: Iterable[int], *, commit: bool) -> None:
    """Write the numbers to partition 0 in one transaction, which ends with a marker."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"writer-of-{topic}"})
    producer.init_transactions(60)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, str(value), str(value), partition=0)
    assert producer.flush(60) == 0
    if commit:
        producer.commit_transaction(60)
    else:
        producer.abort_transaction(60)


def delete_records(bootstrap: str, topic: str, before_offset: int) -> None:
    """Delete the first records of partition 0."""
    admin, place = AdminClient({"bootstrap.servers": bootstrap}), TopicPartition(topic, 0, before_offset)
    admin.delete_records([place])[place].result(60)


def make_again(bootstrap: str, topic: str, values: Iterable[int]) -> None:
    """Delete the topic, create it with one partition, and write the numbers."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(60)
    eventually(lambda: admin.create_topics([NewTopic(topic, 1)])[topic].result(60), lambda _: True, "it is created")
    produce(bootstrap, topic, values, 1)


def consume(bootstrap: str, topic: str, partitions: int) -> list[list[int]]:
    """Return the committed values of each partition, in their order, as another client sees them."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "tests-without-group",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    found: list[list[int]] = [[] for _ in range(partitions)]
    ends = 0
    try:
        while ends < partitions:
            for message in consumer.consume(1000, 1.0):
                partition, value = message.partition(), message.value()
                if message.error() is not None:
                    ends += 1
                else:
                    assert partition is not None
                    assert value is not None
                    found[partition].append(int(value))
    finally:
        consumer.close()
    return found


def fetched_bytes(muster: Muster, topic: str) -> Counter[str]:
    """Return the bytes that all gateways sent of a topic, by ``group evidence``, or by the reason without a group."""
    found: Counter[str] = Counter()
    for url in muster.metrics_urls:
        with urllib.request.urlopen(url, timeout=10) as response:
            families = list(text_string_to_metric_families(response.read().decode()))
        for sample in (sample for family in families for sample in family.samples):
            if sample.labels.get("topic") != topic:
                continue
            if sample.name == "muster_group_fetch_bytes_total":
                found[f"{sample.labels['group']} {sample.labels['evidence']}"] += int(sample.value)
            elif sample.name == "muster_unattributed_fetch_bytes_total":
                found[sample.labels["reason"]] += int(sample.value)
            elif sample.name == "muster_pending_fetch_bytes":
                found["pending"] += int(sample.value)
    return +found
