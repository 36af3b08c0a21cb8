from __future__ import annotations

import uuid
from collections import Counter
from typing import Any

import pytest

from muster.actors.log.format.records import build_batch
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.framing import framed
from tests.attribution.captured.comparison import BYTES, MESSAGES, received, row
from tests.attribution.captured.frames import (
    FETCH,
    METADATA,
    Carried,
    Unreadable,
    carried,
    exchanges,
    measure,
    split,
    topic_names,
)
from tests.attribution.captured.scenarios import Scenario
from tests.attribution.captured.streams import SYN, Connection, Direction, Segment
from tests.attribution.truth import Books

CLIENT, GATEWAY = ("127.0.0.1", 40_001), ("127.0.0.1", 9092)
AMOUNTS = {BYTES: 1_000, MESSAGES: 10}
TOPIC_ID = uuid.UUID(int=7)
BATCHES = b"".join(bytes(build_batch([(None, b"value")] * count, 0, 0, -1)) for count in (3, 4))


def direction(data: bytes) -> Direction:
    made = Direction()
    made.add(Segment(CLIENT, GATEWAY, 0, SYN, b""))
    made.add(Segment(CLIENT, GATEWAY, 1, 0, data))
    return made


def connection(requests: list[bytes], responses: list[bytes], cut: bytes = b"") -> Connection:
    to, back = (b"".join(map(framed, frames)) for frames in (requests, responses))
    return Connection(CLIENT, GATEWAY, direction(to), direction(back + cut))


def fetch(version: int, correlation_id: int, rack: str = "a") -> bytes:
    body = {"replica_id": -1, "max_wait": 0, "min_bytes": 1, "max_bytes": 1, "isolation_level": 0, "session_id": 0}
    more = {"session_epoch": -1, "topics": [], "forgotten_topics_data": [], "rack_id": rack}
    return codec.encode_request(FETCH, version, correlation_id, "rdkafka", {**body, **more})


def fetched(version: int, correlation_id: int, records: bytes, partition: int = 1) -> bytes:
    data: dict[str, Any] = {"partition_index": partition, "error_code": 0, "high_watermark": 7, "records": records}
    data |= {"last_stable_offset": 7, "log_start_offset": 0, "aborted_transactions": None, "preferred_read_replica": -1}
    topic = {"topic": "t", "topic_id": TOPIC_ID, "partitions": [data]}
    body = {"throttle_time": 0, "error_code": 0, "session_id": 0, "responses": [topic]}
    return codec.encode_response(FETCH, version, correlation_id, body)


def metadata() -> tuple[bytes, bytes]:
    wanted = {"topics": None, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
    topic = {"error_code": 0, "name": "t", "topic_id": TOPIC_ID, "is_internal": False, "partitions": []}
    found = {"throttle_time": 0, "brokers": [], "cluster_id": None, "controller_id": 1, "error_code": 0}
    extra = {"topic_authorized_operations": 0}
    return (
        codec.encode_request(METADATA, 12, 1, "rdkafka", wanted),
        codec.encode_response(METADATA, 12, 1, {**found, "topics": [{**topic, **extra}]}),
    )


def test_frames_and_what_is_left() -> None:
    assert split(framed(b"one") + framed(b"") + framed(b"three")[:-2]) == (
        [
            b"one",
            b"",
        ],
        7,
    )
    assert split(b"\0\0") == ([], 2)


@pytest.mark.parametrize(("version", "rack"), [(10, None), (11, "a"), (12, "a"), (13, "a"), (17, "a")])
def test_what_a_fetch_carried(version: int, rack: str | None) -> None:
    wanted, known = metadata()
    found = exchanges(connection([wanted, fetch(version, 2)], [known, fetched(version, 2, BATCHES)]))
    assert list(carried(found, topic_names(found))) == [Carried(rack, "t", 1, len(BATCHES), 7)]


def test_responses_belong_to_requests_by_their_correlation_id() -> None:
    found = exchanges(
        connection([fetch(11, 5, "a"), fetch(12, 4, "b")], [fetched(12, 4, BATCHES), fetched(11, 5, BATCHES)])
    )
    assert [part.rack for part in carried(found, {})] == ["b", "a"]


def test_a_client_may_close_before_the_response() -> None:
    assert len(exchanges(connection([fetch(12, 4), fetch(12, 5)], [fetched(12, 4, b"")]))) == 1


@pytest.mark.parametrize(
    "spoiled",
    [
        connection([fetch(12, 4)], [], cut=framed(fetched(12, 4, BATCHES))[:-1]),
        connection([fetch(12, 4)], [fetched(12, 5, BATCHES)]),
        Connection(CLIENT, GATEWAY, Direction(), direction(framed(fetched(12, 4, BATCHES)))),
    ],
    ids=["cut", "of no request", "began before"],
)
def test_what_cannot_be_said_is_an_error(spoiled: Connection) -> None:
    with pytest.raises(Unreadable):
        exchanges(spoiled)


def test_only_whole_batches_are_measured() -> None:
    assert measure(BATCHES) == (len(BATCHES), 7)
    assert measure(BATCHES[:-1]) == (len(build_batch([(None, b"value")] * 3, 0, 0, -1)), 3)
    assert measure(b"") == (0, 0)


def books(**groups: int) -> Books:
    return Books(Counter({(group, ("s.t", 0)): amount for group, amount in groups.items()}))


def scenario(name: str = "s", *, may_be_lost: bool = False) -> Scenario:
    return Scenario(name, "", lambda _: None, may_be_lost)


def test_what_is_a_fault() -> None:
    truth = received([Carried("a", "s.t", 0, 700, 7), Carried("b", "s.t", 0, 300, 3)], {"a": "x", "b": None})
    right = {BYTES: books(x=700), MESSAGES: books(x=7)}
    for unit, amount in ((BYTES, 300), (MESSAGES, 3)):
        right[unit].reasons["no_group", ("s.t", 0)] = amount
    assert row(scenario(), truth, right).faults == []
    assert row(scenario("other"), truth, right).faults == ["nothing was received"]

    may = scenario(may_be_lost=True)
    wrong = row(may, truth, {BYTES: books(x=1_000), MESSAGES: books(x=10)})
    assert wrong.faults == [f"{what} under a group that did not get them" for what in ("300 bytes", "3 messages")]
    less = row(may, truth, {BYTES: books(x=700), MESSAGES: books(x=7)})
    assert less.faults == ["300 bytes miscounted", "3 messages miscounted"]

    lost = {unit: Books(reasons=Counter({("ambiguous", ("s.t", 0)): amount})) for unit, amount in AMOUNTS.items()}
    assert row(may, truth, lost).faults == []
    assert row(scenario(), truth, lost).faults == ["less than 99.9% right"]


@pytest.mark.parametrize("rack", [None, "c"])
def test_bytes_of_an_unknown_client_are_an_error(rack: str | None) -> None:
    with pytest.raises(Unreadable):
        received([Carried(rack, "s.t", 0, 700, 7)], {"a": "x"})
