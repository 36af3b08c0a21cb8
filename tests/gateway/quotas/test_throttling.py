"""Clients that exceed a quota: when they get their responses, and when they are served again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from muster.actors.config.groups import GROUP_BYTE_RATE
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.listener.complaints import Cause, Complaint
from muster.gateway.listener.connection import Connection
from muster.gateway.listener.limiting.throttling import BusyTime
from muster.placement.security.entities import Entity
from muster.placement.view import Topic
from tests.attribution.kop.served import join
from tests.gateway.apis.test_data_apis import Fresh, fetch_body, produce_body, values
from tests.gateway.group_client import HEARTBEAT, find
from tests.gateway.quotas.requests import limit
from tests.gateway.serving import Client, Serving
from tests.log.support import client_batch
from tests.zookeeper_fixture import eventually

PRODUCE, FETCH, METADATA, API_VERSIONS, LIST_GROUPS = 0, 1, 3, 18, 16
NONE = 0
PAUSE_MS = 3_600_000
EVERYONE = Entity.of_client(None)


@pytest.fixture
def client(full: Serving, fresh: Fresh) -> Iterator[Client]:
    """Yield a client of a client id that no other test uses; all quotas are removed at the end."""
    with full.connect(fresh("client")) as connected:
        yield connected
    every = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
    for entity in list(full.gateway.view.configs.entities):
        limit(full, entity, **dict.fromkeys(every, 0))


def connection_of(full: Serving, client: Client) -> Connection:
    (found,) = (each for each in list(full.gateway.connections.values()) if each.port == client.port)
    assert isinstance(found, Connection)
    return found


def produce(client: Client, topic: Topic, records: bytes, version: int = 13) -> Any:
    return client.exchange(PRODUCE, version, produce_body((topic, 0, records)))


def size_of(client: Client, topic: Topic, records: bytes, version: int = 13) -> int:
    """Return the size of the request, with its header: what Kafka charges."""
    return len(codec.encode_request(PRODUCE, version, 0, client.client_id, produce_body((topic, 0, records))))


def test_a_produce_beyond_the_quota_is_answered_at_once_and_the_next_request_later(
    full: Serving, fresh: Fresh, client: Client
) -> None:
    topic, records = full.create(fresh("t")), client_batch(100)
    size = size_of(client, topic, records)
    quota = size // 20
    limit(full, EVERYONE, producer_byte_rate=quota)
    response = produce(client, topic, records)
    assert response.responses[0].partition_responses[0].error_code is ErrorCode.none
    assert response.throttle_time == round((size / 10 - quota) / quota * 10_000)
    connection = connection_of(full, client)
    assert connection.is_muted
    client.request(API_VERSIONS, 0, {})
    eventually(lambda: connection._frames, "the request")
    assert not connection._is_reading
    assert connection.waiting is False
    limit(full, EVERYONE, producer_byte_rate=10**9)
    assert client.response(API_VERSIONS, 0).error_code is ErrorCode.none
    assert produce(client, topic, records).throttle_time == NONE
    assert connection._is_reading


def test_a_pause_ends_by_itself(full: Serving, fresh: Fresh, client: Client) -> None:
    topic, records = full.create(fresh("t")), client_batch(100)
    size = size_of(client, topic, records)
    limit(full, EVERYONE, producer_byte_rate=size // 10 - 1)
    assert 0 < produce(client, topic, records).throttle_time < 1_000
    client.request(API_VERSIONS, 0, {})
    assert client.response(API_VERSIONS, 0).error_code is ErrorCode.none
    assert not connection_of(full, client).is_muted


def test_a_client_that_wants_no_response_is_muted_too(full: Serving, fresh: Fresh, client: Client) -> None:
    topic = full.create(fresh("t"))
    limit(full, EVERYONE, producer_byte_rate=1)
    connection = connection_of(full, client)
    client.request(PRODUCE, 13, produce_body((topic, 0, client_batch(1)), acks=0))
    client.unanswered()
    eventually(lambda: connection.is_muted, "the mute")
    client.request(API_VERSIONS, 0, {})
    eventually(lambda: connection._frames, "the request")
    limit(full, EVERYONE, producer_byte_rate=0)
    assert client.response(API_VERSIONS, 0).error_code is ErrorCode.none


def test_another_client_is_not_paused(full: Serving, fresh: Fresh, client: Client) -> None:
    topic = full.create(fresh("t"))
    limit(full, EVERYONE, producer_byte_rate=1)
    assert produce(client, topic, client_batch(1)).throttle_time > NONE
    with full.connect(fresh("client")) as other:
        assert other.exchange(API_VERSIONS, 0, {}).error_code is ErrorCode.none


def test_requests_that_were_read_before_the_pause_wait_in_their_order(
    full: Serving, fresh: Fresh, client: Client
) -> None:
    topic = full.create(fresh("t"))
    limit(full, EVERYONE, producer_byte_rate=1)
    connection = connection_of(full, client)
    assert produce(client, topic, client_batch(1)).throttle_time > NONE
    for _ in range(20):
        client.request(API_VERSIONS, 0, {})
    eventually(lambda: connection._frames, "requests")
    full.run(end(connection.unmute))
    for _ in range(20):
        assert client.response(API_VERSIONS, 0).error_code is ErrorCode.none


async def end(work: Any) -> None:
    work()


def muted(full: Serving, topic: Topic, client: Client) -> Connection:
    limit(full, EVERYONE, producer_byte_rate=1)
    assert produce(client, topic, client_batch(1)).throttle_time > NONE
    connection = connection_of(full, client)
    assert connection.is_muted
    return connection


def test_a_muted_client_that_disconnects_is_noticed(full: Serving, fresh: Fresh, client: Client) -> None:
    topic = full.create(fresh("t"))
    with full.connect(fresh("client")) as silent:
        connection = muted(full, topic, silent)
    eventually(lambda: connection.id not in full.gateway.connections, "the end")
    with full.connect(fresh("client")) as busy:
        connection = muted(full, topic, busy)
        busy.request(API_VERSIONS, 0, {})
        eventually(lambda: not connection._is_reading, "a request that is not served")

    async def sweep() -> None:
        connection.close_if_left()

    def is_gone() -> bool:
        full.run(sweep())
        return connection.id not in full.gateway.connections

    eventually(is_gone, "the end")


def test_a_muted_connection_is_not_left(full: Serving, fresh: Fresh, client: Client) -> None:
    connection = muted(full, full.create(fresh("t")), client)
    client.request(API_VERSIONS, 0, {})
    eventually(lambda: not connection._is_reading, "a request that is not served")
    full.run(end(connection.close_if_left))
    assert connection.id in full.gateway.connections


def test_a_gateway_that_stops_does_not_wait_for_muted_clients(full: Serving, fresh: Fresh, client: Client) -> None:
    connection = muted(full, full.create(fresh("t")), client)
    client.request(API_VERSIONS, 0, {})
    eventually(lambda: connection._frames, "a request that is not served")
    full.run(end(connection.end_when_idle))
    assert client.is_closed()
    assert not connection.is_muted
    with full.connect(fresh("client")) as other:
        connection = muted(full, full.create(fresh("t")), other)
        complaint = Complaint(Cause.GATEWAY_STOPS, "the gateway is about to stop")
        full.run(end(lambda: connection.end_soon(complaint)))
        assert other.is_closed()


def test_one_timer_however_often_a_client_is_muted(full: Serving, fresh: Fresh, client: Client) -> None:
    connection = muted(full, full.create(fresh("t")), client)
    timer = connection._mute._timer

    async def extend() -> None:
        for _ in range(1_000):
            connection._mute.extend(PAUSE_MS, connection._unmuted)

    full.run(extend())
    assert connection._mute._timer is timer


def fetch(client: Client, *parts: tuple[Topic, int, int], **changes: Any) -> Any:
    return client.exchange(FETCH, 18, fetch_body(*parts, **changes))


def records_of(response: Any) -> list[bytes | None]:
    return [each for topic in response.responses for part in topic.partitions for each in values(part.records)]


def test_a_fetch_beyond_the_quota_is_empty_and_skips_nothing(full: Serving, fresh: Fresh, client: Client) -> None:
    topic, records = full.create(fresh("t")), client_batch(50)
    for _ in range(3):
        produce(full.client, topic, records)
    limit(full, EVERYONE, consumer_byte_rate=10**9)
    opened = fetch(client, (topic, 0, 0), session_epoch=0, partition_max_bytes=len(records))
    assert len(records_of(opened)) == 50
    limit(full, EVERYONE, consumer_byte_rate=len(records) // 10)
    paused = fetch(client, (topic, 0, 50), session_id=opened.session_id, session_epoch=1)
    assert (paused.error_code, paused.session_id, paused.responses) == (ErrorCode.none, opened.session_id, ())
    assert paused.throttle_time > NONE
    limit(full, EVERYONE, consumer_byte_rate=10**9)
    body = fetch_body(session_id=opened.session_id, session_epoch=2)
    found = client.exchange(FETCH, 18, body)
    assert found.throttle_time == NONE
    assert len(records_of(found)) >= 50
    assert found.responses[0].partitions[0].high_watermark == 150
    again = client.exchange(FETCH, 18, fetch_body((topic, 0, 150), session_id=opened.session_id, session_epoch=3))
    assert again.responses == ()


def test_news_without_records_survive_an_empty_response(full: Serving, fresh: Fresh, client: Client) -> None:
    """The session must not take a high watermark for sent that was not."""
    topic, other = full.create(fresh("t")), full.create(fresh("t"))
    produce(full.client, topic, client_batch(50))
    limit(full, EVERYONE, request_percentage=10**6)
    opened = fetch(client, (topic, 0, 50), (other, 0, 0), session_epoch=0)
    assert len(opened.responses) == 2
    produce(full.client, other, client_batch(1))
    limit(full, EVERYONE, request_percentage=1e-6)
    body = {"session_id": opened.session_id, "min_bytes": 1}
    paused = client.exchange(FETCH, 18, fetch_body(**body, session_epoch=1))
    assert (paused.responses, paused.throttle_time) == ((), 1_000)
    limit(full, EVERYONE, request_percentage=0)
    found = client.exchange(FETCH, 18, fetch_body(**body, session_epoch=2))
    assert [len(values(each.partitions[0].records)) for each in found.responses] == [1]


def test_a_fetch_that_would_begin_a_session_begins_none_while_it_is_throttled(
    full: Serving, fresh: Fresh, client: Client
) -> None:
    topic = full.create(fresh("t"))
    produce(full.client, topic, client_batch(50))
    limit(full, EVERYONE, request_percentage=1e-6)
    sessions = len(full.gateway.fetch_sessions)
    paused = fetch(client, (topic, 0, 0), session_epoch=0)
    assert (paused.session_id, paused.responses) == (0, ())
    assert len(full.gateway.fetch_sessions) == sessions


def test_one_response_is_no_larger_than_a_window(full: Serving, fresh: Fresh, client: Client) -> None:
    topic, records = full.create(fresh("t")), client_batch(10)
    for _ in range(10):
        produce(full.client, topic, records)
    limit(full, EVERYONE, consumer_byte_rate=2.5 * len(records) // 10)
    response = fetch(client, (topic, 0, 0))
    assert response.throttle_time == NONE
    assert len(records_of(response)) == 20


def test_a_batch_that_exceeds_a_whole_window_is_sent_once(full: Serving, fresh: Fresh, client: Client) -> None:
    """Kafka would never send it."""
    topic = full.create(fresh("t"))
    produce(full.client, topic, client_batch(50))
    limit(full, EVERYONE, consumer_byte_rate=10)
    response = fetch(client, (topic, 0, 0))
    assert len(records_of(response)) == 50
    assert response.throttle_time > NONE
    full.run(end(connection_of(full, client).unmute))
    assert fetch(client, (topic, 0, 0)).responses == ()


@pytest.mark.parametrize(("api_key", "version"), [(METADATA, 12), (LIST_GROUPS, 4), (HEARTBEAT, 4), (API_VERSIONS, 3)])
def test_the_time_of_any_request_is_charged(
    full: Serving, fresh: Fresh, client: Client, api_key: int, version: int
) -> None:
    group = fresh("g")
    find(full.client, 4, group)
    bodies: dict[int, dict[str, Any]] = {
        METADATA: {"topics": None, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False},
        LIST_GROUPS: {"states_filter": []},
        HEARTBEAT: {"group_id": group, "generation_id": 1, "member_id": "m", "group_instance_id": None},
        API_VERSIONS: {"client_software_name": "n", "client_software_version": "1"},
    }
    limit(full, EVERYONE, request_percentage=1e-6)
    assert client.exchange(api_key, version, bodies[api_key]).throttle_time == 1_000
    assert connection_of(full, client).is_muted


def test_waiting_is_no_use_of_the_gateway(full: Serving, fresh: Fresh, client: Client) -> None:
    topic = full.create(fresh("t"))
    limit(full, EVERYONE, request_percentage=3.0)
    response = fetch(client, (topic, 0, 0), max_wait=400, min_bytes=1)
    assert response.throttle_time == NONE


def test_a_timed_request_is_given_up_before_it_begins() -> None:
    """Its coroutine is not made then: Python warns of one that is never awaited."""
    made = []

    async def serve() -> None:
        made.append(True)

    async def give_up() -> None:
        task = asyncio.create_task(BusyTime().measured(serve))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())
    assert not made


def test_a_group_shares_a_quota(full: Serving, fresh: Fresh) -> None:
    topic, group, records, client_id = full.create(fresh("t")), fresh("g"), client_batch(50), fresh("client")
    for _ in range(3):
        produce(full.client, topic, records)

    def set_rate(rate: int) -> None:
        full.controller.configs.change_group(group, lambda _: {GROUP_BYTE_RATE: str(rate)} if rate else {})
        full.follow(full.controller.view())

    set_rate(len(records) // 9)
    with full.connect(client_id) as member, full.connect(client_id) as other:
        join(member, group, topic.name, [0])
        first = fetch(member, (topic, 0, 0), partition_max_bytes=len(records))
        assert (len(records_of(first)), first.throttle_time) == (50, NONE)
        second = fetch(other, (topic, 0, 50), partition_max_bytes=len(records))
        assert (second.responses, second.throttle_time > NONE) == ((), True)
        set_rate(0)
        assert len(records_of(fetch(other, (topic, 0, 50), partition_max_bytes=len(records)))) == 50
    with full.connect(fresh("client")) as stranger:
        assert len(records_of(fetch(stranger, (topic, 0, 0)))) == 150
