"""A log actor that is lost and soon replaced: requests wait for what serves in its place; no client has to retry."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from muster.actors.log.listener import LogServer
from muster.actors.wire.internal.fetch import FetchedPartition, FetchRequest, write_fetched
from muster.actors.wire.internal.listener import Peer
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.listener import forward
from muster.placement.view import Topic
from tests.gateway.apis.test_data_apis import (
    FETCH,
    PARTITIONS,
    PRODUCE,
    errors,
    fetch,
    fetch_body,
    list_offsets,
    owned,
    produce,
    produce_body,
    values,
    waiting,
)
from tests.gateway.group_client import Fresh
from tests.gateway.serving import Client, Serving
from tests.log.support import client_batch
from tests.zookeeper_fixture import eventually

_BEFORE_S = 0.3


@contextmanager
def away(full: Serving, *indices: int) -> Iterator[None]:
    """Put these log actors into the view at an address where nothing listens, and at the end back where they were."""
    controller = full.controller
    endpoints = {index: controller.logs[index] for index in indices}
    for index, endpoint in endpoints.items():
        assert endpoint is not None
        controller.logs[index] = replace(endpoint, path="/nowhere", port=1)
    full.follow(controller.view())
    try:
        yield
    finally:
        controller.logs.update(endpoints)
        full.follow(controller.view())


@pytest.fixture
def topic(full: Serving, fresh: Fresh) -> Topic:
    """With a record in each partition."""
    topic = full.create(fresh("t"), PARTITIONS)
    parts = [(topic, partition, client_batch(1, value=b"first")) for partition in range(PARTITIONS)]
    assert set(errors(produce(full.client, *parts))) == {ErrorCode.none}
    return topic


def batch(number: int) -> bytes:
    return client_batch(1, value=b"%d" % number)


def test_produces_wait_and_keep_their_order(full: Serving, topic: Topic) -> None:
    """Also those for both actors, and those that come when the actor is connected again."""
    (index, partition), (_, other) = owned(full, topic).items()
    with full.connect() as client:
        with away(full, index):
            for number in range(3):
                client.request(PRODUCE, 13, produce_body((topic, partition, batch(number))))
            client.request(PRODUCE, 13, produce_body((topic, other, batch(3)), (topic, partition, batch(3))))
            assert client.has_nothing_for(_BEFORE_S)
        client.request(PRODUCE, 13, produce_body((topic, partition, batch(4))))
        responses = [client.response(PRODUCE, 13).responses[-1].partition_responses[-1] for _ in range(5)]
    assert [(each.error_code, each.base_offset) for each in responses] == [(0, number) for number in range(1, 6)]
    (found,) = fetch(full.client, (topic, partition, 0))
    assert values(found.records) == [b"first", b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("actors", [1, 2])
def test_fetches_wait(full: Serving, topic: Topic, actors: int) -> None:
    parts = [(topic, partition, 0) for partition in owned(full, topic).values()][:actors]
    with full.connect() as client:
        with away(full, *owned(full, topic)):
            client.request(FETCH, 18, fetch_body(*parts))
            assert client.has_nothing_for(_BEFORE_S)
        found = [part for each in client.response(FETCH, 18).responses for part in each.partitions]
    assert [(part.error_code, values(part.records)) for part in found] == [(0, [b"first"])] * actors


def test_a_fetch_that_waits_for_records_goes_on_with_the_successor(full: Serving, topic: Topic) -> None:
    (index, partition), *_ = owned(full, topic).items()
    with full.connect() as client:
        client.request(FETCH, 18, fetch_body((topic, partition, 1), max_wait=60_000, min_bytes=1))
        eventually(lambda: any(waiting(full)), "it waits for records")
        with away(full, index):
            pass
        eventually(lambda: any(waiting(full)), "it waits for records again")
        produce(full.client, (topic, partition, batch(1)))
        (found,) = client.response(FETCH, 18).responses[0].partitions
    assert (found.error_code, values(found.records)) == (ErrorCode.none, [b"1"])


def test_a_fetch_that_a_resigning_actor_refuses_goes_on_with_the_successor(
    full: Serving, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    (index, partition), *_ = owned(full, topic).items()
    refused = threading.Event()

    def refuse(_: LogServer, peer: Peer, token: int, request: FetchRequest) -> None:
        refusal = FetchedPartition(ErrorCode.not_leader_or_follower, -1, -1)
        peer.send(*write_fetched(token, [refusal for _ in request.partitions]))
        refused.set()

    monkeypatch.setattr(forward, "_RESIGNS_S", 60.0)
    with full.connect() as client:
        with monkeypatch.context() as resigning:
            resigning.setattr(LogServer, "fetch", refuse)
            client.request(FETCH, 18, fetch_body((topic, partition, 0)))
            assert refused.wait(60)
        assert client.has_nothing_for(_BEFORE_S)
        with away(full, index):
            pass
        (found,) = client.response(FETCH, 18).responses[0].partitions
    assert (found.error_code, values(found.records)) == (ErrorCode.none, [b"first"])


def test_a_search_for_offsets_waits(full: Serving, topic: Topic) -> None:
    (index, partition), *_ = owned(full, topic).items()
    found: list[int] = []

    def search(client: Client) -> None:
        found.extend(part.offset for part in list_offsets(client, 10, topic.name, (partition, -1)))

    with full.connect() as client:
        searching = threading.Thread(target=search, args=(client,))
        with away(full, index):
            searching.start()
            searching.join(_BEFORE_S)
            assert searching.is_alive()
        searching.join(60)
    assert found == [1]


def test_an_actor_that_stays_away_is_no_leader(full: Serving, topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait is counted from its loss: later requests get their errors at once."""
    (index, partition), *_ = owned(full, topic).items()
    with away(full, index), monkeypatch.context() as short:
        short.setattr(forward, "TAKE_OVER_S", 0.1)
        for _ in range(2):
            assert errors(produce(full.client, (topic, partition, batch(1)))) == [ErrorCode.not_leader_or_follower]
            assert errors(fetch(full.client, (topic, partition, 0))) == [ErrorCode.not_leader_or_follower]
            found = list_offsets(full.client, 10, topic.name, (partition, -1))
            assert errors(found) == [ErrorCode.not_leader_or_follower]
    (result,) = produce(full.client, (topic, partition, batch(1)))
    assert (result.error_code, result.base_offset) == (ErrorCode.none, 1)
