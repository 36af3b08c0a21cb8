"""Fairness between connections: only a bounded part of one's requests is served before those of the others."""

from __future__ import annotations

from typing import Any

import pytest

from muster.actors.wire.kafka import codec
from muster.gateway.listener.connection import PIPELINE_LIMIT, TURN_LIMIT, Connection
from tests.gateway.serving import Serving

LIST_GROUPS, API_VERSIONS = 16, 18
SENT = 4 * PIPELINE_LIMIT


def sized(api_key: int, version: int, correlation_id: int) -> bytes:
    frame = codec.encode_request(api_key, version, correlation_id, "c", {})
    return len(frame).to_bytes(4, "big") + frame


def test_another_connection_is_served_between_the_requests_of_one_read(
    served: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    counted = served.gateway.metrics.request

    def count(api: str, *rest: Any) -> None:
        order.append(api)
        counted(api, *rest)

    with served.connect() as other:
        for client in (served.client, other):
            client.exchange(API_VERSIONS, 0, {})
        monkeypatch.setattr(served.gateway.metrics, "request", count)

        async def receive() -> None:
            connections = served.gateway.connections.values()
            by_port = {each.port: each for each in connections if isinstance(each, Connection)}
            by_port[served.client.port].data_received(b"".join(sized(API_VERSIONS, 0, each) for each in range(SENT)))
            by_port[other.port].data_received(sized(LIST_GROUPS, 0, SENT))

        served.run(receive())
        assert int.from_bytes(other.receive()[:4], "big") == SENT
        assert [int.from_bytes(served.client.receive()[:4], "big") for _ in range(SENT)] == list(range(SENT))
    assert len(order) == SENT + 1
    assert order.index("ListGroups") <= 2 * TURN_LIMIT
