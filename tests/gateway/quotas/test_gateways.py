"""Quotas of clients of two gateways, of members of groups, and of requests that have faults."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Consumer

from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.security.entities import Entity
from muster.placement.view import Topic
from pytest_muster import FaultClient
from tests.attribution.kop.served import join
from tests.gateway.apis.test_data_apis import Fresh, fetch_body, produce_body
from tests.gateway.apis.test_scram_users import SHA_256, upsertion
from tests.gateway.quotas.test_charging import faults, limited
from tests.gateway.quotas.test_throttling import FETCH, NONE, PRODUCE, connection_of, produce, records_of, size_of
from tests.gateway.real_clients import reachable
from tests.gateway.serving import Client, RegistryController, Serving, new_gateway
from tests.log.support import client_batch
from tests.zookeeper_fixture import eventually

__all__ = ["faults", "limited"]

ALTER_QUOTAS, ALTER_SCRAM = 49, 51
PROPERTIES = {
    "fault.injection.enable": "true",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
}


@pytest.fixture
def second(full: Serving, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Another gateway of the cluster, with a controller of its own that writes to the same ZooKeeper."""
    controller = RegistryController(full.controller.entities._zk, full.gateway.started_with)
    controller.logs = full.controller.logs

    async def start() -> tuple[Any, int]:
        gateway = await new_gateway(2, tmp_path_factory.mktemp("second"), full.gateway.started_with, controller)
        controller.publish = gateway.follow
        return gateway, await gateway.listen("127.0.0.1", 0)

    gateway, port = full.run(start())
    serving = Serving(gateway, controller, full.run, port)
    serving.follow(controller.view())
    full.run(gateway.forwarder.until(lambda: None not in map(gateway.forwarder.log, controller.logs), 10))
    yield serving
    serving.client.close()
    full.run(gateway.stop())


def test_a_quota_and_a_password_that_are_changed_at_once_are_both_kept(full: Serving, second: Serving) -> None:
    """By two gateways, in the same node of ZooKeeper."""
    together = threading.Barrier(2)

    def set_quota(user: str, rate: float) -> ErrorCode:
        entity = [{"entity_type": "user", "entity_name": user}]
        operations = [{"key": "producer_byte_rate", "value": rate, "remove": False}]
        body = {"entries": [{"entity": entity, "ops": operations}], "validate_only": False}
        together.wait()
        error: ErrorCode = full.exchange(ALTER_QUOTAS, 1, body).entries[0].error_code
        return error

    def set_password(user: str, iterations: int) -> ErrorCode:
        body = {"deletions": [], "upsertions": [upsertion(user, SHA_256, "secret", iterations)]}
        together.wait()
        error: ErrorCode = second.exchange(ALTER_SCRAM, 0, body).results[0].error_code
        return error

    with ThreadPoolExecutor(2) as threads:
        for number in range(30):
            user, rate, iterations = f"user-{number % 10}", 1000 + number, 4096 + number
            done = [threads.submit(set_quota, user, rate), threads.submit(set_password, user, iterations)]
            assert [each.result() for each in done] == [ErrorCode.none] * 2
            found = full.controller.entities.load()[Entity.of_user(user)]
            assert float(found["producer_byte_rate"]) == rate
            assert f"iterations={iterations}" in found["SCRAM-SHA-256"]


def test_a_rate_is_that_of_each_gateway(
    full: Serving, second: Serving, fresh: Fresh, limited: Callable[..., Entity]
) -> None:
    topic, records, client_id = full.create(fresh("t")), client_batch(100), fresh("client")
    limited(client_id, producer_byte_rate=round(size_of(full.client, topic, records) * 0.11))
    for gateway in (full, second):
        gateway.follow(gateway.controller.view())
        with gateway.connect(client_id) as client:
            assert produce(client, topic, records).throttle_time == NONE
            assert produce(client, topic, records).throttle_time > NONE


def test_a_member_whose_requests_are_throttled_stays(
    full: Serving, fresh: Fresh, limited: Callable[..., Entity]
) -> None:
    """Each heartbeat mutes its connection for as long as the request quota may, in all for longer than the session."""
    client_id = fresh("client")
    with full.connect(client_id) as client:
        member = join(client, fresh("g"), full.create(fresh("t")).name, [0])
        member.request_join(session_timeout_ms=2_500)
        assert member.joined().error_code is ErrorCode.none
        assert member.sync({}).error_code is ErrorCode.none
        limited(client_id, request_percentage=1e-6)
        for _ in range(4):
            assert member.heartbeat() is ErrorCode.none
            assert connection_of(full, client).is_muted


def test_a_consumer_that_is_throttled_for_longer_than_its_session_stays_a_member(
    full: Serving, fresh: Fresh, limited: Callable[..., Entity]
) -> None:
    """librdkafka; heartbeats have a connection of their own, as in other clients."""
    topic, group, client_id, records = full.create(fresh("t")), fresh("g"), fresh("client"), client_batch(50)
    count = 10
    for _ in range(count):
        produce(full.client, topic, records)
    limited(client_id, consumer_byte_rate=count * len(records) / 13)
    assigned: list[Any] = []
    with reachable(full) as bootstrap:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": client_id,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 1_000,
            }
        )
        consumer.subscribe(
            [topic.name],
            on_assign=lambda _, partitions: assigned.append(partitions),
            on_revoke=lambda *_: assigned.append("revoked"),
            on_lost=lambda *_: assigned.append("lost"),
        )
        read: list[Any] = []

        def has_read_all() -> bool:
            read.extend(consumer.consume(500, 0.1))
            return len(read) >= 50 * count

        eventually(has_read_all, "all records", within_s=60)
        assert [message.error() for message in read] == [None] * 50 * count
        consumer.commit(asynchronous=False)  # refused to a member that is none any more
        assert len(assigned) == 1
        consumer.close()
    (total_ms,) = (each.total_ms for each in full.gateway._client_quotas.throttles if client_id in str(each.who))
    assert total_ms > 6_000


def test_a_delayed_response_is_throttled_when_it_is_sent(
    full: Serving, fresh: Fresh, limited: Callable[..., Entity], faults: FaultClient
) -> None:
    topic, client_id = full.create(fresh("t")), fresh("client")
    limited(client_id, producer_byte_rate=1)
    held = faults.inject("delay", api="Produce", topic=topic.name, phase="after", delay_ms=600_000)
    with full.connect(client_id) as client:
        client.request(PRODUCE, 13, produce_body((topic, 0, client_batch(1))))
        eventually(lambda: faults.faults()[0]["hits"], "the fault")
        faults.clear(held)
        response = client.response(PRODUCE, 13)
        assert response.responses[0].partition_responses[0].error_code is ErrorCode.none
        assert response.throttle_time > NONE
        assert connection_of(full, client).is_muted


def test_an_error_for_a_throttled_consumer_skips_nothing(
    full: Serving, fresh: Fresh, limited: Callable[..., Entity], faults: FaultClient
) -> None:
    topic, client_id, records = full.create(fresh("t")), fresh("client"), client_batch(50)
    for _ in range(2):
        produce(full.client, topic, records)
    limited(client_id, consumer_byte_rate=10**9)
    with full.connect(client_id) as client:
        opened = _fetch(client, (topic, 0, 0), session_epoch=0, partition_max_bytes=len(records))
        limited(client_id, consumer_byte_rate=len(records) // 10)
        faults.inject("error", api="Fetch", topic=topic.name, error="UNKNOWN_SERVER_ERROR", when={"nth": 1})
        failed = _fetch(client, (topic, 0, 50), session_id=opened.session_id, session_epoch=1)
        assert records_of(failed) == []
        faults.clear()
        limited(client_id, consumer_byte_rate=10**9)
        found = _fetch(client, (topic, 0, 50), session_id=0, session_epoch=0)
        assert len(records_of(found)) == 50


def _fetch(client: Client, *parts: tuple[Topic, int, int], **changes: Any) -> Any:
    return client.exchange(FETCH, 18, fetch_body(*parts, **changes))
