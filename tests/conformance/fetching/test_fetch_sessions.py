"""Fetch sessions, as Kafka's own broker serves them (KIP-227)."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from prometheus_client.parser import text_string_to_metric_families

from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.view import Topic
from tests.conformance.artifacts import Kafka
from tests.conformance.clients import VerifiableConsumer, wait_until
from tests.conformance.topics import create_topic, fill, now_ms
from tests.gateway.apis.test_data_apis import FETCH, fetch, fetch_body, produce
from tests.gateway.fetch_sessions.test_fetch_sessions import LAST, Session
from tests.gateway.serving import Client
from tests.log.support import client_batch
from tests.muster_process import Muster, eventually

METADATA = 3
UNKNOWN = UUID("00000000-0000-4000-8000-00000000dead")
Fresh = Callable[[str], str]


def described(client: Client, name: str) -> Topic:
    body = {
        "topics": [{"name": name, "topic_id": None}],
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": False,
    }
    (found,) = client.exchange(METADATA, 12, body).topics
    return Topic(name=name, topic_id=found.topic_id, partitions=len(found.partitions))


def new_topic(client: Client, bootstrap: str, name: str, partitions: int) -> Topic:
    """All partitions of which can be fetched."""
    create_topic(bootstrap.split(",")[0], name, partitions)
    topic = described(client, name)
    parts = [(topic, partition, 0) for partition in range(partitions)]
    eventually(lambda: fetch(client, *parts), lambda found: not any(each.error_code for each in found), "they serve")
    return topic


def shown(found: dict[int, Any]) -> list[tuple[int, str, int, int, int]]:
    """Partition, error, high watermark, log start and size of the records, in the order of the response."""
    return [
        (each.partition_index, each.error_code.name, each.high_watermark, each.log_start_offset, len(each.records))
        for each in found.values()
    ]


@pytest.mark.parametrize("version", [7, 12, 13, LAST])
def test_a_session(bootstrap: str, fresh: Fresh, version: int) -> None:
    name = fresh("sessions")
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    size = len(client_batch(2))
    with Client(int(port), host=host) as client:
        topic = new_topic(client, bootstrap, name, 3)
        session = Session(client, version, *((topic, partition, 0) for partition in range(3)))
        assert shown(session.begun) == [(partition, "none", 0, 0, 0) for partition in range(3)]
        assert session.fetch() == {}
        produce(client, (topic, 1, client_batch(2)), (topic, 2, client_batch(2)), version=9)
        assert sorted(shown(session.fetch())) == [(1, "none", 2, 0, size), (2, "none", 2, 0, size)]
        assert shown(session.fetch((topic, 2, 2))) == [(1, "none", 2, 0, size)]
        assert shown(session.fetch((topic, 1, 2))) == []
        assert shown(session.fetch((topic, 0, 9))) == [(0, "offset_out_of_range", -1, -1, 0)]
        assert shown(session.fetch()) == [(0, "offset_out_of_range", -1, -1, 0)]
        assert shown(session.fetch((topic, 0, 0))) == [(0, "none", 0, 0, 0)]
        produce(client, (topic, 1, client_batch(2)), (topic, 2, client_batch(2)), version=9)
        assert shown(session.fetch(forget=[(topic, 1)])) == [(2, "none", 4, 0, size)]
        assert shown(session.fetch((topic, 1, 0), (topic, 2, 4))) == [(1, "none", 4, 0, 2 * size)]
        if version >= 13:
            unknown = Topic(name="?", topic_id=UNKNOWN, partitions=1)
            failed = [(0, "unknown_topic_id", -1, -1, 0)]
            assert shown(session.fetch((unknown, 0, 0), (topic, 1, 4))) == failed
            assert shown(session.fetch()) == failed
            session.fetch(forget=[(unknown, 0)])
        session.fetch(forget=[(topic, partition) for partition in range(3)])
        assert session.id == 0, "an empty session ends"


def test_errors_of_sessions(bootstrap: str, fresh: Fresh) -> None:
    name = fresh("sessions")
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    with Client(int(port), host=host) as client:
        topic = new_topic(client, bootstrap, name, 1)
        session = Session(client, LAST, (topic, 0, 0))
        known = session.id

        def error(version: int, session_id: int, epoch: int) -> tuple[ErrorCode, int, int]:
            body = fetch_body(session_id=session_id, session_epoch=epoch, max_wait=0)
            response = client.exchange(FETCH, version, body)
            return response.error_code, response.session_id, len(response.responses)

        assert error(LAST, 0, 1) == (ErrorCode.fetch_session_id_not_found, 0, 0)
        assert error(LAST, known, 2) == (ErrorCode.invalid_fetch_session_epoch, 0, 0)
        assert error(12, known, 1) == (ErrorCode.fetch_session_topic_id_error, 0, 0)
        assert error(LAST, known, 1) == (ErrorCode.none, known, 0)
        assert error(LAST, known, -1) == (ErrorCode.none, 0, 0), "it is ended"
        assert error(LAST, known, 2) == (ErrorCode.fetch_session_id_not_found, 0, 0)


def test_the_java_consumer_has_sessions(muster: Muster, release: Kafka, fresh: Fresh) -> None:
    """And reads everything, while a gateway that has its sessions is killed."""
    topic = fresh("sessions")
    create_topic(muster.bootstrap, topic, 6)
    before = sessions(muster)
    consumer = VerifiableConsumer(release, muster.bootstrap, "java", topic=topic, group=topic)
    with consumer:
        for partition in range(6):
            fill(muster.bootstrap, topic, partition, [now_ms()] * 50)
        wait_until(lambda: len(consumer.values()) >= 300, "it reads all records", consumer)
        assert sessions(muster) > before
        pid = muster.kill_actor("gateway-1")
        for partition in range(6):
            fill(muster.bootstrap, topic, partition, [now_ms()] * 50)
        wait_until(lambda: len(consumer.values()) >= 600, "it reads all records", consumer)
        assert len(consumer.values()) == 600
    muster.until_back("gateway-1", pid)


def sessions(muster: Muster) -> int:
    """Return the number of sessions of all gateways."""
    found = 0
    for url in muster.metrics_urls:
        with urllib.request.urlopen(url) as response:
            for family in text_string_to_metric_families(response.read().decode()):
                found += sum(
                    int(one.value) for one in family.samples if one.name == "muster_incremental_fetch_sessions"
                )
    return found
