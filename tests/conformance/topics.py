"""Setup and look-ups of the checks, with clients from PyPI."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, NewTopic, ResourceType

from tests.muster_process import eventually

Offsets = dict[tuple[str, int], int]

_REQUEST_TIMEOUT_S = 30


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def create_topic(bootstrap: str, topic: str, partitions: int) -> None:
    """Create it, and wait until each broker by itself reports its partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(_REQUEST_TIMEOUT_S)
    for server in bootstrap.split(","):
        one = AdminClient({"bootstrap.servers": server})
        known = partial(one.list_topics, topic, timeout=_REQUEST_TIMEOUT_S)
        whole = lambda shown: len(shown.topics[topic].partitions) == partitions  # noqa: E731
        eventually(known, whole, f"{server} knows {topic}", _REQUEST_TIMEOUT_S)


def fill(bootstrap: str, topic: str, partition: int, times_ms: list[int]) -> None:
    """Write a record with each of these timestamps, in ms since the epoch, all acknowledged."""
    refused: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap})
    for number, time_ms in enumerate(times_ms):
        producer.produce(
            topic,
            b"%d" % number,
            partition=partition,
            timestamp=time_ms,
            on_delivery=lambda error, _: refused.append(error) if error else None,
        )
    assert producer.flush(_REQUEST_TIMEOUT_S) == 0
    assert refused == []


def commit(bootstrap: str, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Commit for a group without members; waits for the coordinator, which a new broker may not have yet."""
    wanted = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    commits = lambda: consumer.commit(offsets=wanted, asynchronous=False)  # noqa: E731
    try:  # Kafka's broker names itself before it has loaded the partition
        response = eventually(commits, bool, f"{group} has a coordinator that commits", _REQUEST_TIMEOUT_S)
    finally:
        consumer.close()
    assert [str(partition.error) for partition in response if partition.error] == []


def committed(bootstrap: str, group: str) -> Offsets:
    """All offsets that a group has committed."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    response = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(
        _REQUEST_TIMEOUT_S
    )
    return {(one.topic, one.partition): one.offset for one in response.topic_partitions if one.offset >= 0}


def ends(bootstrap: str, topic: str, partitions: int) -> Offsets:
    """Return the high watermark of each partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none"})
    requested = {(topic, number): TopicPartition(topic, number) for number in range(partitions)}
    found = {
        key: consumer.get_watermark_offsets(partition, _REQUEST_TIMEOUT_S)[1] for key, partition in requested.items()
    }
    consumer.close()
    return found


def own_configs(bootstrap: str, topic: str) -> dict[str, str | None]:
    """Return the config of the topic."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found = admin.describe_configs([resource])[resource].result(_REQUEST_TIMEOUT_S)
    of_topic = ConfigSource.DYNAMIC_TOPIC_CONFIG
    return {name: entry.value for name, entry in found.items() if ConfigSource(entry.source) is of_topic}


def delete_topics(bootstrap: str, topics: list[str]) -> None:
    """Delete them, and wait until each broker by itself no longer reports them."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for deleted in admin.delete_topics(topics).values():
        deleted.result(_REQUEST_TIMEOUT_S)
    for server in bootstrap.split(","):
        one = AdminClient({"bootstrap.servers": server})
        known = partial(one.list_topics, timeout=_REQUEST_TIMEOUT_S)
        gone = lambda shown: not shown.topics.keys() & set(topics)  # noqa: E731
        eventually(known, gone, f"{server} no longer knows {topics}", _REQUEST_TIMEOUT_S)
