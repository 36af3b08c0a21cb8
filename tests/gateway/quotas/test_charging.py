"""Requests without a response are charged to the quotas of their clients, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.security.entities import Entity
from pytest_muster import FaultClient
from tests.gateway.apis.test_data_apis import Fresh, produce_body
from tests.gateway.quotas.requests import limit
from tests.gateway.quotas.test_throttling import NONE, PRODUCE, connection_of, produce, size_of
from tests.gateway.serving import Serving
from tests.log.support import client_batch
from tests.zookeeper_fixture import eventually

PROPERTIES = {"fault.injection.enable": "true"}


@pytest.fixture
def limited(full: Serving, fresh: Fresh) -> Iterator[Callable[..., Entity]]:
    """Yield a function that sets quotas of a client id, which are removed at the end."""
    entities: dict[Entity, dict[str, float]] = {}

    def set_quotas(client_id: str, **quotas: float) -> Entity:
        entity = Entity.of_client(client_id)
        entities[entity] = quotas
        limit(full, entity, **quotas)
        return entity

    yield set_quotas
    for entity, quotas in entities.items():
        limit(full, entity, **dict.fromkeys(quotas, 0))


@pytest.fixture
def faults(full: Serving) -> Iterator[FaultClient]:
    client = FaultClient(full.http_url + "/metrics")
    yield client
    client.clear()


def test_no_client_escapes_by_connecting_again(full: Serving, fresh: Fresh, limited: Callable[..., Entity]) -> None:
    topic, records, client_id = full.create(fresh("t")), client_batch(100), fresh("client")
    limited(client_id, producer_byte_rate=size_of(full.client, topic, records) // 20)
    throttled_ms = []
    for _ in range(3):
        with full.connect(client_id) as client:
            throttled_ms.append(produce(client, topic, records).throttle_time)
    assert throttled_ms == sorted(throttled_ms)
    assert throttled_ms[0] > 1_000


@pytest.mark.parametrize("end", ["error", "close", "the client leaves"])
def test_a_request_without_its_response_is_charged(
    full: Serving, fresh: Fresh, limited: Callable[..., Entity], faults: FaultClient, end: str
) -> None:
    """It took effect: the next connection of the client is throttled for both. So it is in Kafka."""
    topic, client_id, records = full.create(fresh("t")), fresh("client"), client_batch(100)
    limited(client_id, producer_byte_rate=round(size_of(full.client, topic, records) * 0.11))
    actions: dict[str, dict[str, Any]] = {
        "error": {"action": "error", "error": "NOT_ENOUGH_REPLICAS"},
        "close": {"action": "close"},
        "the client leaves": {"action": "delay", "delay_ms": 600_000},
    }
    faults.inject({**actions[end], "api": "Produce", "topic": topic.name, "phase": "after"})
    with full.connect(client_id) as client:
        client.request(PRODUCE, 13, produce_body((topic, 0, records)))
        if end == "error":
            (part,) = client.response(PRODUCE, 13).responses[0].partition_responses
            assert part.error_code is ErrorCode.not_enough_replicas
        elif end == "close":
            assert client.is_closed()
        else:
            eventually(lambda: faults.faults()[0]["hits"], "the fault")
            connection = connection_of(full, client)
    if end == "the client leaves":
        eventually(lambda: connection.id not in full.gateway.connections, "the end of the connection")
    faults.clear()
    with full.connect(client_id) as client:
        assert produce(client, topic, records).throttle_time > NONE
