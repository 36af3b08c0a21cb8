"""Node contents in Kafka's format."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.placement import layout
from muster.placement.layout import BrokerEndpoint, BrokerNode, ControllerNode, Malformed, PartitionState
from muster.placement.view import Topic

NAMES = st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=3)


def test_a_broker_is_kafkas_json_version_5() -> None:
    endpoints = (
        BrokerEndpoint("EXTERNAL", "SASL_PLAINTEXT", "kafka-1.example.com", 443),
        BrokerEndpoint("INTERNAL", "PLAINTEXT", "10.0.0.1", 9092),
    )
    node = BrokerNode(endpoints=endpoints, node_id="ab12", timestamp_ms=1700000000000, rack="eu-1a")
    assert json.loads(node.encode()) == {
        "version": 5,
        "host": "10.0.0.1",
        "port": 9092,
        "endpoints": ["EXTERNAL://kafka-1.example.com:443", "INTERNAL://10.0.0.1:9092"],
        "listener_security_protocol_map": {"EXTERNAL": "SASL_PLAINTEXT", "INTERNAL": "PLAINTEXT"},
        "jmx_port": -1,
        "features": {},
        "timestamp": "1700000000000",
        "node_id": "ab12",
        "rack": "eu-1a",
    }
    assert BrokerNode.decode(node.encode()) == node


def test_a_broker_on_ipv6_has_a_readable_endpoint() -> None:
    node = BrokerNode(endpoints=(BrokerEndpoint("PLAINTEXT", "PLAINTEXT", "::1", 9092),), node_id="", timestamp_ms=0)
    assert json.loads(node.encode())["endpoints"] == ["PLAINTEXT://[::1]:9092"]
    assert BrokerNode.decode(node.encode()) == node


def test_a_broker_without_a_plain_listener_has_no_host_for_old_clients() -> None:
    endpoint = BrokerEndpoint("SASL_PLAINTEXT", "SASL_PLAINTEXT", "10.0.0.1", 9092)
    fields = json.loads(BrokerNode(endpoints=(endpoint,), node_id="", timestamp_ms=0).encode())
    assert (fields["host"], fields["port"]) == (None, -1)
    assert "rack" not in fields


def test_what_kafka_itself_wrote_is_read() -> None:
    state = b'{"controller_epoch":3,"leader":1,"version":1,"leader_epoch":7,"isr":[1,2]}'
    assert PartitionState.decode(state) == PartitionState(leader=1, leader_epoch=7, isr=(1, 2), controller_epoch=3)
    topic = (
        b'{"removing_replicas":{},"partitions":{"0":[1],"1":[2]},"topic_id":"AAAAAAAAAAAAAAAAAAAAAg",'
        b'"adding_replicas":{},"version":3}'
    )
    assert layout.decode_topic("t", topic, {}) == Topic(name="t", topic_id=UUID(int=2), partitions=2)
    assert layout.decode_producer_id_block(
        b'{"version":1,"broker":0,"block_start":"1000","block_end":"1999"}'
    ) == range(1000, 2000)
    assert ControllerNode.decode(b'{"version":1,"brokerid":0,"timestamp":"5"}') == ControllerNode(
        broker_id=0, timestamp_ms=5
    )


@given(st.uuids(), st.integers(1, 100), st.integers(1, 32767), st.booleans(), NAMES)
def test_a_topic_is_read_as_it_was_written(
    topic_id: UUID, partitions: int, factor: int, internal: bool, config: Any
) -> None:
    topic = Topic(
        name="t",
        topic_id=topic_id,
        partitions=partitions,
        replication_factor=factor,
        internal=internal,
        config=config,
    )
    written = layout.encode_topic(topic), layout.encode_config(config)
    assert layout.decode_topic("t", written[0], layout.decode_config(written[1])) == topic


@given(st.integers(0, 2**62), st.integers(1, 5000), st.integers(-1, 5))
def test_a_block_is_read_as_it_was_written(start: int, size: int, broker: int) -> None:
    block = range(start, start + size)
    assert layout.decode_producer_id_block(layout.encode_producer_id_block(block, broker)) == block


@pytest.mark.parametrize("data", [b"", b"x", b"[]", b"{}", b"null", b'{"version":1}', b"\xff"])
@pytest.mark.parametrize(
    "decode",
    [
        BrokerNode.decode,
        PartitionState.decode,
        ControllerNode.decode,
        layout.decode_config,
        layout.decode_producer_id_block,
        lambda data: layout.decode_topic("t", data, {}),
    ],
)
def test_anything_else_is_malformed(decode: Callable[[bytes], object], data: bytes) -> None:
    with pytest.raises(Malformed):
        decode(data)
