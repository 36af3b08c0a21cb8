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
    described,
    leads,
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


def altered(full: Serving, topic: Topic, *replicas: list[int], may_grow: bool = True) -> list[tuple[str, str | None]]:
    """Return the result for each partition."""
    items = [{"partition_index": index, "replicas": each} for index, each in enumerate(replicas)]
    topics = [{"name": topic.name, "partitions": items}]
    body = {"timeout": 1_000, "allow_replication_factor_change": may_grow, "topics": topics}
    (found,) = full.exchange(ALTER_PARTITION_REASSIGNMENTS, 1, body).responses
    return [(each.error_code.name, each.error_message) for each in found.partitions]


def test_replicas_are_not_moved(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("t"), 1)
    (leader,) = full.gateway.view.replicas_of(topic, 0)
    text = f"Muster decides who serves {topic.name}-0, now {leader}: there is one copy, and every broker serves it."
    assert altered(full, topic, [3 - leader]) == [("invalid_replica_assignment", text)]
    assert altered(full, topic, [1, 2], may_grow=False)[0][0] == "invalid_replication_factor"
    assert altered(full, topic, [1, 2, 3])[0][0] == "invalid_replica_assignment"
    assert leads(full.client, topic.name) == [leader]


def test_a_reassignment_to_more_replicas_sets_the_replication_factor(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("t"), 3)
    none = ("none", None)
    assert altered(full, topic, [1, 2], [2, 1]) == [none, none]
    (found,) = described(full.client, [topic.name]).topics
    assert [sorted(each.replica_nodes) for each in found.partitions] == [[1, 2]] * 3
    assert full.controller.registry.load()[topic.name].replication_factor == 2
    assert altered(full, topic, [2, 1], [1, 2]) == [none, none]
    full.controller.away = True
    other = full.create(fresh("t"), 1)
    assert altered(full, other, [1, 2])[0][0] == "request_timed_out"
    full.controller.away = False


@pytest.mark.parametrize("served", [{"max.replication.factor": "1"}], indirect=True)
def test_a_reassignment_beyond_the_maximum_is_refused(served: Serving, fresh: Fresh) -> None:
    topic = served.create(fresh("t"), 1)
    ((error, message),) = altered(served, topic, [1, 2])
    assert (error, "max.replication.factor=1" in (message or "")) == ("invalid_replication_factor", True)
