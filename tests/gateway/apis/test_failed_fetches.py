"""Fetches from actors that fail, or do not respond."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from muster.actors.log.listener import LogServer
from muster.actors.wire.internal.channel import Channel
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.data.fetching import serving
from muster.gateway.listener.forward import Forwarder
from muster.placement.view import Topic
from tests.gateway.apis.test_data_apis import FETCH, PARTITIONS, fetch, fetch_body, owned, produce, waiting
from tests.gateway.group_client import Fresh
from tests.gateway.serving import Serving
from tests.log.support import client_batch
from tests.zookeeper_fixture import eventually


def channels(full: Serving) -> dict[int, Channel]:
    """To the log actors."""
    forwarder: Forwarder = full.gateway.forwarder

    def usable() -> dict[int, Channel]:
        found = {index: forwarder.log(index) for index in full.controller.logs}
        return {index: channel for index, channel in found.items() if channel is not None}

    eventually(lambda: len(usable()) == len(full.controller.logs), "channels to all log actors")
    return usable()


def counted(full: Serving, topic: Topic) -> dict[int, float]:
    """Bytes that were counted as sent, by partition."""
    families = text_string_to_metric_families(full.http("/metrics")[1])
    return {
        int(sample.labels["partition"]): sample.value
        for family in families
        for sample in family.samples
        if sample.name == "muster_fetch_bytes_total" and sample.labels["topic"] == topic.name
    }


@pytest.fixture(params=["by place", "by value"])
def sent_by(full: Serving, request: pytest.FixtureRequest) -> Iterator[str]:
    """How log actors send records: to a gateway of another node by value."""
    for channel in channels(full).values():
        channel.is_local = request.param == "by place"
    yield request.param
    for channel in channels(full).values():
        channel.is_local = True


@pytest.mark.usefixtures("sent_by")
def test_records_of_an_actor_that_failed_are_neither_sent_nor_counted(
    full: Serving, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "ATTEMPTS", 1)  # it would be asked again
    topic = full.create(fresh("t"), PARTITIONS)
    (failing, left), (_, right) = owned(full, topic).items()
    for partition in (left, right):
        produce(full.client, (topic, partition, client_batch(3)))
    parts = [(topic, left, 0), (topic, right, 0)]
    with full.connect() as client:
        client.request(FETCH, 18, fetch_body(*parts, max_wait=60_000, min_bytes=10_000))
        eventually(lambda: all(waiting(full)), "both actors have found records, and wait for more")

        async def lose() -> None:
            channels(full)[failing].close()

        full.run(lose())
        response = client.response(FETCH, 18)
    found: dict[int, Any] = {item.partition_index: item for item in response.responses[0].partitions}
    assert (found[left].error_code, found[left].records) == (ErrorCode.not_leader_or_follower, b"")
    assert (found[right].error_code, len(found[right].records)) == (ErrorCode.none, len(client_batch(3)))
    assert counted(full, topic) == {right: len(client_batch(3))}


@pytest.mark.parametrize("actors", [1, 2])
def test_an_actor_that_does_not_respond_is_no_leader(
    full: Serving, fresh: Fresh, monkeypatch: pytest.MonkeyPatch, actors: int
) -> None:
    topic = full.create(fresh("t"), PARTITIONS)
    parts = [(topic, partition, 0) for partition in owned(full, topic).values()][:actors]
    monkeypatch.setattr(LogServer, "fetch", lambda *_: None)
    monkeypatch.setattr(serving, "GRACE_S", 0.1)
    responses = fetch(full.client, *parts)
    assert {response.error_code for response in responses} == {ErrorCode.not_leader_or_follower}
