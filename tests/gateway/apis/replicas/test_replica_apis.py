"""Replicas, leaders and log directories, of one gateway over real log actors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from muster.placement.view import Topic
from tests.gateway.apis.replicas.replica_apis import (
    ALTER_PARTITION_REASSIGNMENTS,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_TOPIC_PARTITIONS,
    Make,
    ReplicaApis,
)
from tests.gateway.apis.test_data_apis import fetch, produce
from tests.gateway.group_client import Fresh
from tests.gateway.serving import BROKERS, Client, Serving
from tests.log.support import client_batch

PROPERTIES = {"max.request.partition.size.limit": "7"}


@pytest.fixture
def alone(full: Serving) -> Iterator[Serving]:
    """There is no other gateway."""
    full.controller.brokers = BROKERS[:1]
    full.follow(full.controller.view())
    yield full
    full.controller.brokers = BROKERS
    full.follow(full.controller.view())


@pytest.fixture
def client(alone: Serving) -> Client:
    return alone.client


@pytest.fixture
def make(alone: Serving) -> Make:
    def make(name: str, partitions: int) -> Topic:
        topic = alone.create(name, partitions)
        fetch(alone.client, *((topic, partition, 0) for partition in range(partitions)))
        return topic

    return make


class TestReplicaApis(ReplicaApis):
    pass


def test_at_most_so_many_partitions_in_a_response(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("t"), 8)
    body = {"topics": [{"name": topic.name}], "response_partition_limit": 2_000, "cursor": None}
    response = full.exchange(DESCRIBE_TOPIC_PARTITIONS, 0, body)
    assert len(response.topics[0].partitions) == 7
    assert (response.next_cursor.topic_name, response.next_cursor.partition_index) == (topic.name, 7)


def test_each_gateway_reports_what_it_leads(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("t"), 4)
    for partition in range(4):
        produce(full.client, (topic, partition, client_batch()))
    (found,) = full.exchange(DESCRIBE_LOG_DIRS, 4, {"topics": None}).results
    (known,) = [each for each in found.topics if each.name == topic.name]
    leaders = {partition: full.gateway.view.leader_of(topic, partition) for partition in range(4)}
    led = [partition for partition, leader in leaders.items() if leader is not None and leader.id == full.gateway.id]
    assert [each.partition_index for each in known.partitions] == led
    assert len(led) == 2


def test_replicas_are_not_moved(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("t"), 1)
    (leader,) = full.gateway.view.replicas_of(topic, 0)

    def altered(replicas: list[int], *, may_grow: bool) -> tuple[str, str]:
        item = {"partition_index": 0, "replicas": replicas}
        topics = [{"name": topic.name, "partitions": [item]}]
        body = {"timeout": 1_000, "allow_replication_factor_change": may_grow, "topics": topics}
        (found,) = full.exchange(ALTER_PARTITION_REASSIGNMENTS, 1, body).responses[0].partitions
        return found.error_code.name, found.error_message

    text = f"Muster decides who serves {topic.name}-0, now {leader}: there is one copy, and every broker serves it."
    assert altered([3 - leader], may_grow=True) == ("invalid_replica_assignment", text)
    assert altered([1, 2], may_grow=True) == ("invalid_replica_assignment", text)
    assert altered([1, 2], may_grow=False)[0] == "invalid_replication_factor"
