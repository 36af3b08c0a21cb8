"""Configs altered at one gateway take effect in log actors, coordinators and every gateway of a running cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from muster.actors.wire.kafka.codec import ErrorCode
from tests.gateway.config_requests import BROKER, DELETE, SET, TOPIC, incremental
from tests.gateway.serving import Client
from tests.muster_process import Muster, eventually

MAX_METADATA = "offset.metadata.max.bytes"


@pytest.fixture
def gateways(muster: Muster) -> Iterator[list[Client]]:
    """Yield a connection to each. Afterwards, no cluster-wide config stays altered."""
    with ExitStack() as stack:
        addresses = (address.rpartition(":") for address in muster.ready["bootstrap"])
        clients = [stack.enter_context(Client(int(port), host=host)) for host, _, port in addresses]
        try:
            yield clients
        finally:
            [response] = incremental(clients[0], (BROKER, "", [(MAX_METADATA, DELETE, None)]))
            assert response.error_code is ErrorCode.none


def written(muster: Muster, topic: str) -> str | None:
    """Why a record of 500 bytes is not written; None if it is."""
    errors: list[str | None] = []
    producer = Producer({"bootstrap.servers": muster.bootstrap})
    producer.produce(topic, b"x" * 500, on_delivery=lambda error, _: errors.append(error.name() if error else None))
    assert producer.flush(60) == 0
    return errors[0]


def committed(muster: Muster, topic: str) -> str | None:
    """Why an offset with ten characters of metadata is not committed; None if it is."""
    consumer = Consumer({"bootstrap.servers": muster.bootstrap, "group.id": f"{topic}-readers"})
    try:
        [response] = consumer.commit(offsets=[TopicPartition(topic, 0, 1, metadata="0123456789")], asynchronous=False)
        return response.error.name() if isinstance(response.error, KafkaError) else response.error
    except KafkaException as error:
        return str(error.args[0].name())
    finally:
        consumer.close()


def test_everybody_obeys(muster: Muster, gateways: list[Client]) -> None:
    topic = "altered"
    one, other = gateways

    def both_say(wanted: tuple[str | None, str | None]) -> None:
        """Check the log actor's error for a record, and the coordinator's for a commit."""
        said = lambda: (written(muster, topic), committed(muster, topic))  # noqa: E731
        eventually(said, lambda both: both == wanted, f"{wanted} is what both say")

    def alter(*resources: tuple[int, str, list[tuple[str, int, str | None]]]) -> None:
        assert {each.error_code for each in incremental(one, *resources)} == {ErrorCode.none}

    both_say((None, None))
    alter((TOPIC, topic, [("max.message.bytes", SET, "300")]), (BROKER, "", [(MAX_METADATA, SET, "5")]))
    requested = {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": ["max.message.bytes"]}
    flags = {"include_synonyms": False, "include_documentation": False}
    [described] = other.exchange(32, 4, {"resources": [requested], **flags}).results
    assert described.configs[0].value == "300"
    both_say(("MSG_SIZE_TOO_LARGE", "OFFSET_METADATA_TOO_LARGE"))
    alter((TOPIC, topic, [("max.message.bytes", DELETE, None)]), (BROKER, "", [(MAX_METADATA, DELETE, None)]))
    both_say((None, None))
