"""While a large request is served, those of other connections are answered."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from muster.actors.wire.kafka import codec
from muster.gateway.listener.connection import Connection
from tests.gateway.serving import Serving

METADATA, API_VERSIONS = 3, 18
ELEMENTS = 20_000
MIN_RESPONSES = 5
"""Other requests are answered in each millisecond or two."""


@pytest.fixture(autouse=True)
def threads_take_turns() -> Iterator[None]:
    """Let threads take turns.

    The thread of the test has to run for each response: by default it waits 5 ms for that of the gateway.
    """
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(0.0001)
    yield
    sys.setswitchinterval(interval_s)


BODIES: dict[str, tuple[int, int, dict[str, Any]]] = {
    "Metadata": (
        METADATA,
        12,
        {
            "topics": [{"topic_id": None, "name": f"t{number}"} for number in range(ELEMENTS)],
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": False,
        },
    ),
    "Metadata by id": (
        METADATA,
        12,
        {
            "topics": [{"topic_id": UUID(int=number + 1), "name": None} for number in range(ELEMENTS)],
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": False,
        },
    ),
    "DescribeTopicPartitions": (
        75,
        0,
        {
            "topics": [{"name": f"t{number}"} for number in range(ELEMENTS)],
            "response_partition_limit": 2000,
            "cursor": None,
        },
    ),
    "ListOffsets": (
        2,
        7,
        {
            "replica_id": -1,
            "isolation_level": 0,
            "topics": [
                {
                    "name": "t",
                    "partitions": [
                        {"partition_index": number, "current_leader_epoch": -1, "timestamp": -1}
                        for number in range(ELEMENTS)
                    ],
                }
            ],
        },
    ),
    "OffsetForLeaderEpoch": (
        23,
        4,
        {
            "replica_id": -1,
            "topics": [
                {
                    "topic": f"t{number}",
                    "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}],
                }
                for number in range(ELEMENTS)
            ],
        },
    ),
    "DescribeConfigs": (
        32,
        4,
        {
            "resources": 200 * [{"resource_type": 4, "resource_name": "1", "configuration_keys": None}],
            "include_synonyms": True,
            "include_documentation": False,
        },
    ),
    "AddPartitionsToTxn": (
        24,
        5,
        {
            "transactions": [
                {
                    "transactional_id": f"x{number}",
                    "producer_id": 1,
                    "producer_epoch": 0,
                    "verify_only": False,
                    "topics": [{"name": "t", "partitions": [0]}],
                }
                for number in range(ELEMENTS // 2)
            ]
        },
    ),
}


def sized(api_key: int, version: int, body: dict[str, Any]) -> bytes:
    frame = codec.encode_request(api_key, version, 1, "large", body)
    return len(frame).to_bytes(4, "big") + frame


@pytest.mark.parametrize("name", BODIES)
def test_others_are_answered_meanwhile(served: Serving, name: str) -> None:
    api_key, version, body = BODIES[name]
    request = sized(api_key, version, body)
    with served.connect() as large:
        for client in (large, served.client):
            client.exchange(API_VERSIONS, 0, {})

        async def receive() -> None:
            """All of it at once, as if it had come in one piece; then one more."""
            connections = served.gateway.connections.values()
            (connection,) = [each for each in connections if isinstance(each, Connection) and each.port == large.port]
            connection.data_received(request + sized(API_VERSIONS, 0, {}))

        served.run(receive())
        responses = 0
        while large.has_nothing_for(0):
            served.client.exchange(API_VERSIONS, 0, {})
            responses += 1
        response = large.receive()
        codec.decode_response(api_key, version, response)
        assert len(codec.split_response(API_VERSIONS, 0, large.receive())) > 10
    assert responses >= MIN_RESPONSES
    assert len(response) > ELEMENTS


def test_a_large_request_that_cannot_be_read_is_refused(served: Serving) -> None:
    api_key, version, body = BODIES["Metadata"]
    with served.connect() as large:
        large.send_raw(sized(api_key, version, body)[:-40] + b"\x7f" * 40)
        assert large.is_closed()
    assert served.client.exchange(API_VERSIONS, 0, {}).api_keys


@pytest.mark.parametrize("count", [400, 600])
def test_the_response_is_the_same_however_large(served: Serving, count: int) -> None:
    """Beside ``MAX_AT_ONCE`` of muster.gateway.listener.api."""
    served.create("here", 3)
    topics = [
        {"topic_id": None, "name": name} for number in range(count) for name in ("here", f"t{number}", "bad name")
    ]
    found = served.exchange(METADATA, 12, {**BODIES["Metadata"][2], "topics": topics}).topics
    assert [each.name for each in found] == ["here", "t0", "bad name", *(f"t{number}" for number in range(1, count))]
    assert len(found[0].partitions) == 3
    errors = [codec.ErrorCode.none, codec.ErrorCode.unknown_topic_or_partition]
    assert [each.error_code for each in found[:2]] == errors
    assert found[2].error_code is codec.ErrorCode.invalid_topic_exception
