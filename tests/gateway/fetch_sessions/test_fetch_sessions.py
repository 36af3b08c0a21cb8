"""Fetch sessions of a gateway over real log actors, as bytes on a connection."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import pytest

from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.view import Topic
from pytest_muster import FaultClient
from tests.gateway.apis.test_data_apis import FETCH, PARTITIONS, fetch_body, owned, produce, values, waiting
from tests.gateway.apis.test_failed_fetches import channels, counted
from tests.gateway.fault_client import PROPERTIES as FAULTS
from tests.gateway.group_client import Fresh
from tests.gateway.serving import Client, Serving
from tests.log.support import client_batch
from tests.zookeeper_fixture import eventually

PROPERTIES = {**FAULTS, "max.incremental.fetch.session.cache.slots": "1000"}
FIRST_WITH_SESSIONS, FIRST_BY_ID, LAST = 7, 13, 18
VERSIONS = [FIRST_WITH_SESSIONS, 11, 12, FIRST_BY_ID, LAST]


class Session:
    """A client that fetches in a session."""

    def __init__(self, client: Client, version: int, *parts: tuple[Topic, int, int], **changes: Any) -> None:
        self.client = client
        self.version = version
        self.changes = {"max_wait": 0, "min_bytes": 1} | changes
        self.id = 0
        self.epoch = 0
        self.begun = self.fetch(*parts)

    def request(self, *parts: tuple[Topic, int, int], forget: Iterable[tuple[Topic, int]] = (), **changes: Any) -> None:
        forgotten = [
            {"topic": topic.name, "topic_id": topic.topic_id, "partitions": [partition]} for topic, partition in forget
        ]
        named = {"session_id": self.id, "session_epoch": self.epoch, "forgotten_topics_data": forgotten}
        limits: dict[str, Any] = named | self.changes | changes
        self.client.request(FETCH, self.version, fetch_body(*parts, **limits))

    def response(self) -> Any:
        response = self.client.response(FETCH, self.version)
        self.id, self.epoch = response.session_id, self.epoch + 1
        return response

    def fetch(self, *parts: tuple[Topic, int, int], **changes: Any) -> dict[int, Any]:
        self.request(*parts, **changes)
        return by_partition(self.response())


def by_partition(response: Any) -> dict[int, Any]:
    assert response.error_code is ErrorCode.none
    return {item.partition_index: item for topic in response.responses for item in topic.partitions}


def errors(found: dict[int, Any]) -> dict[int, ErrorCode]:
    return {partition: item.error_code for partition, item in found.items()}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("actors", [1, 2])
def test_a_session(full: Serving, fresh: Fresh, version: int, actors: int) -> None:
    topic = full.create(fresh("t"), PARTITIONS)
    here, there = owned(full, topic).values()
    others = [part for part in range(PARTITIONS) if full.gateway.view.log_of(topic, part) == 0 or actors == 2]
    first, second = (here, there) if actors == 2 else others[:2]
    session = Session(full.client, version, (topic, first, 0), (topic, second, 0))
    assert session.id > 0
    assert errors(session.begun) == {first: ErrorCode.none, second: ErrorCode.none}
    assert session.fetch() == {}
    produce(full.client, (topic, second, client_batch(2, value=b"v")))
    found = session.fetch()
    assert {partition: values(item.records) for partition, item in found.items()} == {second: [b"v", b"v"]}
    assert values(session.fetch()[second].records) == [b"v", b"v"], "the client has not gone on"
    assert session.fetch((topic, second, 2)) == {}
    assert session.fetch((topic, first, 99))[first].error_code is ErrorCode.offset_out_of_range
    assert session.fetch()[first].error_code is ErrorCode.offset_out_of_range
    assert errors(session.fetch((topic, first, 0))) == {first: ErrorCode.none}
    assert session.fetch() == {}
    assert session.fetch(forget=[(topic, second)]) == {}
    produce(full.client, (topic, second, client_batch(1)))
    assert session.fetch() == {}
    assert list(session.fetch((topic, second, 0))) == [second]
    assert counted(full, topic) == {second: 2 * len(client_batch(2, value=b"v")) + sum_of_second(2)}


def sum_of_second(records: int) -> int:
    """Return the size of the last response of the test above: everything of the partition."""
    return len(client_batch(records, value=b"v")) + len(client_batch(1))


@pytest.mark.parametrize("actors", [1, 2])
def test_records_wake_a_session_that_waits(full: Serving, fresh: Fresh, actors: int) -> None:
    topic = full.create(fresh("t"), PARTITIONS)
    parts = [(topic, partition, 0) for partition in owned(full, topic).values()][:actors]
    with full.connect() as client:
        session = Session(client, LAST, *parts)
        session.request(max_wait=60_000)
        eventually(lambda: sum(waiting(full)) == actors, "the fetches of the log actors")
        began_s = time.monotonic()
        produce(full.client, (topic, parts[0][1], client_batch(1, value=b"news")))
        assert {partition: values(item.records) for partition, item in by_partition(session.response()).items()} == {
            parts[0][1]: [b"news"]
        }
        assert time.monotonic() - began_s < 10
        assert not any(waiting(full))
        assert session.fetch((topic, parts[0][1], 1), max_wait=300) == {}


def test_sessions_that_are_not_there(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("t"))
    session = Session(full.client, LAST, (topic, 0, 0))

    def error(version: int, session_id: int, epoch: int) -> int:
        body = fetch_body(session_id=session_id, session_epoch=epoch, max_wait=60_000, min_bytes=1)
        response = full.exchange(FETCH, version, body)
        assert (response.session_id, response.responses) == (0, ())
        return int(response.error_code)

    assert error(LAST, 0, 1) == error(LAST, session.id + 1, 1) == 70
    assert error(LAST, session.id, 2) == error(LAST, session.id, 7) == 71
    assert error(12, session.id, 1) == 106
    assert session.fetch() == {}
    full.exchange(FETCH, LAST, fetch_body((topic, 0, 0), session_id=session.id, session_epoch=-1))
    assert error(LAST, session.id, 2) == 70


def test_a_session_continues_on_another_connection(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("t"))
    with full.connect() as client:
        session = Session(client, LAST, (topic, 0, 0))
    session.client = full.client
    produce(full.client, (topic, 0, client_batch(1, value=b"v")))
    assert values(session.fetch()[0].records) == [b"v"]


def test_a_request_that_is_overtaken_gets_no_records(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("t"))
    with full.connect() as client:
        session = Session(client, LAST, (topic, 0, 0))
        session.request(max_wait=60_000)
        eventually(lambda: sum(waiting(full)) == 1, "the fetch of the log actor")
        body = fetch_body(session_id=session.id, session_epoch=2)
        assert full.exchange(FETCH, LAST, body).error_code is ErrorCode.none
        produce(full.client, (topic, 0, client_batch(1)))
        response = client.response(FETCH, LAST)
        assert (int(response.error_code), response.responses) == (71, ())
    assert counted(full, topic) == {}


def test_a_topic_that_comes_and_goes(full: Serving, fresh: Fresh) -> None:
    kept, other = full.create(fresh("t")), full.create(fresh("t"))
    session = Session(full.client, LAST, (kept, 0, 0), (other, 0, 0))

    def codes() -> dict[str, ErrorCode]:
        session.request()
        names = {kept.topic_id: "kept", other.topic_id: "other"}
        responses = session.response().responses
        return {names[each.topic_id]: each.partitions[0].error_code for each in responses}

    assert codes() == {}
    full.exchange(20, 6, {"topics": [{"name": other.name, "topic_id": None}], "timeout": 10_000})
    assert codes() == {"other": ErrorCode.unknown_topic_or_partition}
    assert codes() == {"other": ErrorCode.unknown_topic_or_partition}
    session.fetch(forget=[(other, 0)])
    assert codes() == {}


def test_a_topic_id_that_is_known_later(full: Serving, fresh: Fresh) -> None:
    topic = full.controller.registry.create(fresh("late"), 1, {})
    session = Session(full.client, LAST, (topic, 0, 0))
    assert errors(session.begun) == {0: ErrorCode.unknown_topic_id}
    full.follow(full.controller.view())
    eventually(lambda: errors(session.fetch()) in ({0: ErrorCode.none}, {}), "the topic")
    assert session.fetch() == {}


@pytest.mark.parametrize("actors", [1, 2])
def test_an_actor_that_is_lost(full: Serving, fresh: Fresh, actors: int) -> None:
    topic = full.create(fresh("t"), PARTITIONS)
    parts = [(topic, partition, 0) for partition in owned(full, topic).values()][:actors]
    with full.connect() as client:
        session = Session(client, LAST, *parts)
        session.request(max_wait=1_000)
        eventually(lambda: sum(waiting(full)) == actors, "the fetches of the log actors")

        async def lose() -> None:
            channels(full)[full.gateway.view.log_of(topic, parts[0][1])].close()

        full.run(lose())
        assert by_partition(session.response()) == {}, "it has waited for the actor that serves now"
        produce(full.client, (topic, parts[0][1], client_batch(1, value=b"v")))
        assert values(session.fetch()[parts[0][1]].records) == [b"v"]


def test_old_metadata(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("t"), 2)
    with full.connect() as client:
        session = Session(client, LAST, (topic, 0, 0), (topic, 1, 0))
        assert session.fetch() == {}
        (connection,) = [each for each in full.gateway.connections.values() if each.port == client.port]
        connection.has_old_metadata = True
        replaced = ErrorCode.not_leader_or_follower
        assert errors(session.fetch()) == {0: replaced, 1: replaced}
        assert errors(session.fetch()) == {0: ErrorCode.none, 1: ErrorCode.none}
        assert session.fetch() == {}


def test_a_fault_for_a_topic_that_only_the_session_names(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("t"), 2)
    session = Session(full.client, LAST, (topic, 0, 0), (topic, 1, 0))
    faults = FaultClient(full.http_url + "/metrics")
    faults.inject("error", api="Fetch", error="KAFKA_STORAGE_ERROR", topic=topic.name)
    failed = ErrorCode.kafka_storage_error
    assert errors(session.fetch()) == errors(session.fetch()) == {0: failed, 1: failed}
    faults.clear()
    assert errors(session.fetch()) == {0: ErrorCode.none, 1: ErrorCode.none}
    assert session.fetch() == {}


def test_metrics(full: Serving, fresh: Fresh) -> None:
    def metric(name: str) -> float:
        text = full.http("/metrics")[1]
        return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name + "{"))

    sessions = metric("muster_incremental_fetch_sessions")
    partitions = metric("muster_incremental_fetch_partitions_cached")
    topic = full.create(fresh("t"), 3)
    Session(full.client, LAST, *((topic, index, 0) for index in range(3)))
    assert metric("muster_incremental_fetch_sessions") == sessions + 1
    assert metric("muster_incremental_fetch_partitions_cached") == partitions + 3
    assert metric("muster_incremental_fetch_session_evictions_total") == 0
