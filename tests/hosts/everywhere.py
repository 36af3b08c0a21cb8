"""Client libraries, once through every gateway: what one writes, another one reads as a member of a group."""

from __future__ import annotations

from collections.abc import Sequence

import confluent_kafka
import kafka
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conformance.artifacts import Kafka
from tests.conformance.artifacts import kafka as java_kafka
from tests.conformance.clients import VerifiableConsumer, VerifiableProducer, wait_until
from tests.hosts.cluster import PORT

_RECORDS, _PARTITIONS = 60, 6
_WAIT_S = 60


def library_reaches(library: str, address: str, all_addresses: set[str]) -> None:
    """Through that gateway alone at first; then through all others, whose addresses it learns from that one."""
    bootstrap, topic = f"{address}:{PORT}", f"{library}-{address}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, _PARTITIONS)])[topic].result(_WAIT_S)
    brokers = admin.list_topics(topic, _WAIT_S).brokers.values()
    assert {(broker.host, broker.port) for broker in brokers} == {(known, PORT) for known in all_addresses}
    values = {b"%d" % number for number in range(_RECORDS)}
    if library == "confluent-kafka":
        _with_confluent(bootstrap, topic, values)
    else:
        _with_kafka_python(bootstrap, topic, values)


def _with_confluent(bootstrap: str, topic: str, values: set[bytes]) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for number, value in enumerate(sorted(values)):
        producer.produce(topic, value, partition=number % _PARTITIONS)
    assert producer.flush(_WAIT_S) == 0
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: set[bytes | None] = set()
    while not found >= values:
        message = consumer.poll(_WAIT_S)
        assert message is not None, f"{topic}: only {len(found)} of {_RECORDS} records came"
        assert message.error() is None, message.error()
        found.add(message.value())
    consumer.commit(asynchronous=False)
    consumer.close()


def _with_kafka_python(bootstrap: str, topic: str, values: set[bytes]) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap)
    sent = [producer.send(topic, value, partition=number % _PARTITIONS) for number, value in enumerate(sorted(values))]
    for record in sent:
        record.get(_WAIT_S)
    producer.close()
    consumer = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=topic,
        auto_offset_reset="earliest",
        consumer_timeout_ms=_WAIT_S * 1000,
    )
    found: set[bytes | None] = set()
    for record in consumer:
        found.add(record.value)
        if found >= values:
            break
    assert found >= values, f"{topic}: only {len(found)} of {_RECORDS} records came"
    consumer.commit()
    consumer.close()


def java_reaches(addresses: Sequence[str]) -> None:
    """Check the addresses with Apache Kafka's verifiable producer and consumer. Raises ToolMissing."""
    release, topic = java_kafka(), "java"
    bootstrap = ",".join(f"{address}:{PORT}" for address in addresses)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, _PARTITIONS)])[topic].result(_WAIT_S)
    for address in addresses:
        _with_java(release, f"{address}:{PORT}", topic)


def _with_java(release: Kafka, bootstrap: str, topic: str) -> None:
    consumer = VerifiableConsumer(release, bootstrap, "consumer", topic=topic, group=f"java-{bootstrap}")
    producer = VerifiableProducer(release, bootstrap, topic, throughput=50, keys=_PARTITIONS)
    with consumer, producer:
        wait_until(lambda: len(producer.acknowledged()) >= _RECORDS, "records are acknowledged", producer)

        def consumed() -> bool:
            return len(set(consumer.values()) & producer.acknowledged()) >= _RECORDS and consumer.committed()

        wait_until(consumed, "they are read and committed", consumer)
