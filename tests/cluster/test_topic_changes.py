"""After a gateway has responded about a topic change, every other gateway's responses agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import cycle, islice

import pytest

from muster.actors.wire.kafka.codec import ErrorCode
from tests.gateway.serving import Client
from tests.log.support import client_batch
from tests.muster_process import Muster

PRODUCE, METADATA, CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS = 0, 3, 19, 20, 37
TIMES = 20


@pytest.fixture
def gateways(muster: Muster) -> Iterator[list[Client]]:
    """Yield a connection to each."""
    with ExitStack() as stack:
        addresses = (address.rpartition(":") for address in muster.ready["bootstrap"])
        yield [stack.enter_context(Client(int(port), host=host)) for host, _, port in addresses]


def partitions(client: Client, topic: str, *, create: bool = False) -> int:
    """Return the number of partitions there; 0 if the topic is unknown."""
    operations = {"include_cluster_authorized_operations": False, "include_topic_authorized_operations": False}
    body = {"topics": [{"name": topic}], "allow_auto_topic_creation": create, **operations}
    (found,) = client.exchange(METADATA, 9, body).topics
    assert found.error_code in (ErrorCode.none, ErrorCode.unknown_topic_or_partition), found
    return len(found.partitions)


def create(client: Client, topic: str, timeout_ms: int = 30_000) -> ErrorCode:
    new = {"name": topic, "num_partitions": 2, "replication_factor": 1, "assignments": [], "configs": []}
    (made,) = client.exchange(CREATE_TOPICS, 5, {"topics": [new], "timeout": timeout_ms, "validate_only": False}).topics
    return ErrorCode(made.error_code)


def grow(client: Client, topic: str) -> None:
    body = {"topics": [{"name": topic, "count": 3, "assignments": None}], "timeout": 30_000, "validate_only": False}
    (grown,) = client.exchange(CREATE_PARTITIONS, 2, body).results
    assert grown.error_code == ErrorCode.none, grown


def delete(client: Client, topic: str) -> None:
    (deleted,) = client.exchange(DELETE_TOPICS, 5, {"topic_names": [topic], "timeout": 30_000}).responses
    assert deleted.error_code == ErrorCode.none, deleted


def produce(client: Client, topic: str, partition: int) -> ErrorCode:
    data = [{"index": partition, "records": client_batch(value=b"a record")}]
    topics = [{"name": topic, "partition_data": data}]
    response = client.exchange(
        PRODUCE, 9, {"transactional_id": None, "acks": -1, "timeout": 30_000, "topic_data": topics}
    )
    return ErrorCode(response.responses[0].partition_responses[0].error_code)


def turns(gateways: list[Client]) -> Iterator[tuple[int, Client, list[Client]]]:
    """Yield the number, the current gateway, and the others."""
    for number, first in enumerate(islice(cycle(gateways), TIMES)):
        yield number, first, [gateway for gateway in gateways if gateway is not first]


def test_a_topic_changes_on_all_gateways_at_once(gateways: list[Client], fresh: Callable[[str], str]) -> None:
    name, seen = fresh("changing"), []
    for number, first, others in turns(gateways):
        topic = f"{name}-{number}"
        assert create(first, topic) == ErrorCode.none
        seen += [("created", partitions(other, topic), produce(other, topic, 1)) for other in others]
        grow(first, topic)
        seen += [("grown", partitions(other, topic), produce(other, topic, 2)) for other in others]
        delete(first, topic)
        seen += [("deleted", partitions(other, topic), produce(other, topic, 0)) for other in others]
    good = ErrorCode.none
    expected = {("created", 2, good), ("grown", 3, good), ("deleted", 0, ErrorCode.unknown_topic_or_partition)}
    assert set(seen) == expected, f"{sum(each not in expected for each in seen)} of {len(seen)}"


def test_a_topic_that_is_said_to_exist_does_so_everywhere(gateways: list[Client], fresh: Callable[[str], str]) -> None:
    """Programs that start concurrently all create the topics that they need: for most of them these exist already."""
    name, missing = fresh("existing"), 0
    for number, first, others in turns(gateways):
        topic = f"{name}-{number}"
        assert create(first, topic, timeout_ms=0) in (ErrorCode.none, ErrorCode.request_timed_out)
        assert create(first, topic) == ErrorCode.topic_already_exists
        missing += sum(not partitions(other, topic) for other in others)
    assert not missing


def test_a_topic_that_is_created_on_request_is_there_everywhere(
    gateways: list[Client], fresh: Callable[[str], str]
) -> None:
    name, missing = fresh("requested"), 0
    for number, first, others in turns(gateways):
        topic = f"{name}-{number}"
        assert partitions(first, topic, create=True)
        missing += sum(not partitions(other, topic) for other in others)
    assert not missing
