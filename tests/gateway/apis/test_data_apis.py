"""Produce, Fetch and ListOffsets over real log actors, in every version, as bytes on a connection."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from muster.actors.log.format.batch import iter_headers
from muster.actors.log.format.records import read_records
from muster.actors.wire.kafka.codec import ErrorCode, versions_of
from muster.placement.view import OFFSETS_TOPIC, Topic
from tests.gateway.group_client import find
from tests.gateway.serving import Client, Serving
from tests.log.support import NOW_MS, client_batch
from tests.zookeeper_fixture import eventually

PRODUCE, FETCH, LIST_OFFSETS = 0, 1, 2
PROPERTIES = {"message.max.bytes": "20000"}
FIRST_PRODUCE_BY_ID, FIRST_FETCH_BY_ID = 13, 13
LATEST, EARLIEST = -1, -2
PARTITIONS = 40
"""Enough that both log actors have some: topic ids are random."""
UNKNOWN_ID = UUID("00000000-0000-4000-8000-00000000dead")

Fresh = Callable[[str], str]


def produce_body(*parts: tuple[Topic, int, bytes], acks: int = -1, **changes: Any) -> dict[str, Any]:
    """Return a body with a topic entry for each part, which the request allows."""
    return {
        "transactional_id": None,
        "acks": acks,
        "timeout": 10_000,
        "topic_data": [
            {"name": topic.name, "topic_id": topic.topic_id, "partition_data": [{"index": index, "records": records}]}
            for topic, index, records in parts
        ],
    } | changes


def produce(client: Client, *parts: tuple[Topic, int, bytes], version: int = 13, **changes: Any) -> list[Any]:
    """Return the partitions' results, in the order of the parts."""
    response = client.exchange(PRODUCE, version, produce_body(*parts, **changes))
    return [result for topic in response.responses for result in topic.partition_responses]


def fetch_body(*parts: tuple[Topic, int, int], partition_max_bytes: int = 1 << 20, **changes: Any) -> dict[str, Any]:
    """Partition and offset of a topic per part."""
    return {
        "replica_id": -1,
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 25,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "forgotten_topics_data": [],
        "rack_id": "",
        "topics": [
            {
                "topic": topic.name,
                "topic_id": topic.topic_id,
                "partitions": [
                    {"partition": partition, "fetch_offset": offset, "partition_max_bytes": partition_max_bytes}
                ],
            }
            for topic, partition, offset in parts
        ],
    } | changes


def fetch(client: Client, *parts: tuple[Topic, int, int], version: int = 18, **changes: Any) -> list[Any]:
    response = client.exchange(FETCH, version, fetch_body(*parts, **changes))
    return [result for topic in response.responses for result in topic.partitions]


def list_offsets(client: Client, version: int, topic: str, *queries: tuple[int, int]) -> list[Any]:
    partitions = [{"partition_index": partition, "timestamp": timestamp} for partition, timestamp in queries]
    body = {"replica_id": -1, "topics": [{"name": topic, "partitions": partitions}], "timeout": 5000}
    (found,) = client.exchange(LIST_OFFSETS, version, {"isolation_level": 0} | body).topics
    assert found.name == topic
    return list(found.partitions)


def values(records: bytes | None) -> list[bytes | None]:
    data = records or b""
    return [record.value for at, header in iter_headers(data) for record in read_records(data[at:], header)]


def owned(full: Serving, topic: Topic) -> dict[int, int]:
    """Return a partition of the topic for each log actor."""
    view = full.gateway.view
    found = {view.log_of(topic, partition): partition for partition in range(topic.partitions)}
    assert len(found) == 2
    return found


def errors(results: list[Any]) -> list[ErrorCode]:
    return [result.error_code for result in results]


def test_a_negative_max_wait_is_none(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("t"), 1)
    (response,) = fetch(full.client, (topic, 0, 0), max_wait=-1, min_bytes=1)
    assert (response.error_code, response.records) == (ErrorCode.none, b"")


@pytest.mark.parametrize("version", versions_of(PRODUCE))
def test_produce(full: Serving, fresh: Fresh, version: int) -> None:
    topic = full.create(fresh("t"), PARTITIONS)
    left, right = owned(full, topic).values()
    batch = client_batch(3)
    body = produce_body((topic, left, batch), (topic, right, batch), (topic, PARTITIONS, batch))
    body["topic_data"] += produce_body((Topic(name="nope", topic_id=UNKNOWN_ID, partitions=1), 0, batch))["topic_data"]
    response = full.exchange(PRODUCE, version, body)
    known, unknown = response.responses
    if version < FIRST_PRODUCE_BY_ID:
        assert (known.name, unknown.name) == (topic.name, "nope")
        missing = ErrorCode.unknown_topic_or_partition
    else:
        assert (known.topic_id, unknown.topic_id) == (topic.topic_id, UNKNOWN_ID)
        missing = ErrorCode.unknown_topic_id
    assert [(item.index, item.error_code, item.base_offset) for item in known.partition_responses] == [
        (left, ErrorCode.none, 0),
        (right, ErrorCode.none, 0),
        (PARTITIONS, ErrorCode.unknown_topic_or_partition, -1),
    ]
    assert errors(list(unknown.partition_responses)) == [missing]
    (again,) = produce(full.client, (topic, left, batch), version=version)
    assert again.base_offset == 3


@pytest.mark.parametrize("version", versions_of(FETCH))
def test_fetch(full: Serving, fresh: Fresh, version: int) -> None:
    topic = full.create(fresh("t"), PARTITIONS)
    left, right = owned(full, topic).values()
    produce(full.client, (topic, left, client_batch(2, value=b"l")), (topic, right, client_batch(1, value=b"r")))
    nobody = Topic(name="nope", topic_id=UNKNOWN_ID, partitions=1)
    response = full.exchange(
        FETCH, version, fetch_body((topic, left, 0), (topic, right, 0), (topic, PARTITIONS, 0), (nobody, 0, 0))
    )
    known, unknown = response.responses
    if version < FIRST_FETCH_BY_ID:
        assert (known.topic, unknown.topic) == (topic.name, "nope")
        missing = ErrorCode.unknown_topic_or_partition
    else:
        assert (known.topic_id, unknown.topic_id) == (topic.topic_id, UNKNOWN_ID)
        missing = ErrorCode.unknown_topic_id
    found = {item.partition_index: item for item in known.partitions}
    assert values(found[left].records) == [b"l", b"l"]
    assert values(found[right].records) == [b"r"]
    assert (found[left].high_watermark, found[left].last_stable_offset, found[right].high_watermark) == (2, 2, 1)
    assert found[PARTITIONS].error_code is ErrorCode.unknown_topic_or_partition
    assert errors(list(unknown.partitions)) == [missing]


@pytest.mark.parametrize("version", versions_of(LIST_OFFSETS))
def test_list_offsets(full: Serving, fresh: Fresh, version: int) -> None:
    topic = full.create(fresh("t"), PARTITIONS)
    left, right = owned(full, topic).values()
    produce(full.client, (topic, left, client_batch(5, step_ms=10)))
    ends = list_offsets(full.client, version, topic.name, (left, LATEST), (right, EARLIEST), (PARTITIONS, LATEST))
    assert [(item.partition_index, item.offset) for item in ends] == [(left, 5), (right, 0), (PARTITIONS, -1)]
    assert ends[2].error_code is ErrorCode.unknown_topic_or_partition
    (by_time,) = list_offsets(full.client, version, topic.name, (left, NOW_MS + 15))
    assert (by_time.offset, by_time.timestamp) == (2, NOW_MS + 20)
    (too_late,) = list_offsets(full.client, version, topic.name, (left, NOW_MS + 100))
    assert (too_late.error_code, too_late.offset) == (ErrorCode.none, -1)
    (unknown,) = list_offsets(full.client, version, "nope", (0, LATEST))
    assert unknown.error_code is ErrorCode.unknown_topic_or_partition


def test_list_offsets_refuses_a_partition_that_comes_twice(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("t"), 2)
    found = list_offsets(full.client, 8, topic.name, (0, LATEST), (0, EARLIEST), (1, LATEST))
    assert [(item.partition_index, item.error_code) for item in found] == [
        (0, ErrorCode.invalid_request),
        (1, ErrorCode.none),
    ]


class TestProduce:
    @pytest.mark.parametrize("acks", [-1, 0, 1])
    def test_all_acks_are_written_in_order(self, full: Serving, fresh: Fresh, acks: int) -> None:
        topic = full.create(fresh("t"))
        with full.connect() as client:
            for number in range(20):
                client.request(PRODUCE, 13, produce_body((topic, 0, client_batch(1, value=b"%d" % number)), acks=acks))
                if acks == 0:
                    client.unanswered()
            client.request(PRODUCE, 13, produce_body((topic, 0, client_batch(1, value=b"20"))))
            offsets = (
                [client.response(PRODUCE, 13).responses[0].partition_responses[0].base_offset for _ in range(20)]
                if acks
                else []
            )
            last = client.response(PRODUCE, 13).responses[0].partition_responses[0]
            assert [*offsets, last.base_offset] == (list(range(21)) if acks else [20])
            (read,) = fetch(client, (topic, 0, 0))
        assert values(read.records) == [b"%d" % number for number in range(21)]

    def test_an_error_with_acks_0_closes_the_connection(self, full: Serving, fresh: Fresh) -> None:
        topic = full.create(fresh("t"))
        with full.connect() as client:
            client.request(PRODUCE, 13, produce_body((topic, 0, client_batch()[:-1] + b"?"), acks=0))
            assert client.is_closed()

    def test_what_may_not_be_written_is_refused_alone(self, full: Serving, fresh: Fresh) -> None:
        topic = full.create(fresh("t"), 5)
        good = client_batch()
        corrupt = good[:-1] + bytes([good[-1] ^ 1])
        old = good[:16] + b"\x01" + good[17:]
        results = produce(
            full.client,
            (topic, 0, corrupt),
            (topic, 1, client_batch(1, value=b"x" * 20_000)),
            (topic, 2, old),
            (topic, 3, b""),
            (topic, 4, good),
        )
        assert errors(results) == [
            ErrorCode.corrupt_message,
            ErrorCode.message_too_large,
            ErrorCode.invalid_record,
            ErrorCode.invalid_record,
            ErrorCode.none,
        ]
        assert [int(code) for code in errors(results)] == [2, 10, 87, 87, 0]
        assert [item.high_watermark for item in fetch(full.client, *((topic, index, 0) for index in range(5)))] == [
            *(0, 0, 0, 0, 1)
        ]

    def test_an_idempotent_duplicate_gets_the_first_offset(self, full: Serving, fresh: Fresh) -> None:
        topic = full.create(fresh("t"))
        first, second = (client_batch(2, producer=(7, 0, sequence)) for sequence in (0, 2))
        sent = [first, second, first, second]
        assert [produce(full.client, (topic, 0, batch))[0].base_offset for batch in sent] == [0, 2, 0, 2]
        (gap,) = produce(full.client, (topic, 0, client_batch(1, producer=(7, 0, 9))))
        assert gap.error_code is ErrorCode.out_of_order_sequence_number
        assert fetch(full.client, (topic, 0, 0))[0].high_watermark == 4

    def test_whole_requests_are_refused(self, full: Serving, fresh: Fresh) -> None:
        topic = full.create(fresh("t"))
        internal = full.gateway.view.topics[OFFSETS_TOPIC]
        batch = client_batch()
        assert errors(produce(full.client, (internal, 0, batch))) == [ErrorCode.invalid_topic_exception]
        assert errors(produce(full.client, (topic, 0, batch), acks=2)) == [ErrorCode.invalid_required_acks]
        find(full.client, 4, "x", key_type=1)
        mine, other = (client_batch(producer=(number, 0, 0), transactional=True) for number in (1, 2))
        for parts, name, error in (
            ([mine], None, ErrorCode.transactional_id_authorization_failed),
            ([mine], "x", ErrorCode.invalid_producer_id_mapping),
            ([mine, other], "x", ErrorCode.invalid_producer_id_mapping),
        ):
            pairs = [(topic, index, part) for index, part in enumerate(parts)]
            assert errors(produce(full.client, *pairs, transactional_id=name)) == [error] * len(parts)
        assert full.exchange(PRODUCE, 13, produce_body()).responses == ()
        assert fetch(full.client, (topic, 0, 0))[0].high_watermark == 0

    def test_a_partition_that_comes_twice_is_not_half_written(self, full: Serving, fresh: Fresh) -> None:
        topic = full.create(fresh("t"), 2)
        results = produce(full.client, *((topic, index, client_batch()) for index in (0, 1, 0)))
        assert [(item.index, item.error_code) for item in results] == [
            (0, ErrorCode.invalid_request),
            (1, ErrorCode.none),
        ]
        assert [item.high_watermark for item in fetch(full.client, (topic, 0, 0), (topic, 1, 0))] == [0, 1]


class TestFetch:
    def test_data_of_any_actor_wake_a_waiting_fetch(self, full: Serving, fresh: Fresh) -> None:
        topic = full.create(fresh("t"), PARTITIONS)
        left, right = owned(full, topic).values()
        assert full.actors is not None
        for partition, other in ((left, right), (right, left)):
            produce(full.client, (topic, other, client_batch()))  # opens the log
            parts = [(topic, item, fetch(full.client, (topic, item, 0))[0].high_watermark) for item in (left, right)]
            with full.connect() as client:
                client.request(FETCH, 18, fetch_body(*parts, max_wait=60_000, min_bytes=1))
                eventually(lambda: all(waiting(full)), "the fetches of the log actors")
                started_s = time.monotonic()
                produce(full.client, (topic, partition, client_batch(1, value=b"news")))
                response = client.response(FETCH, 18)
                assert time.monotonic() - started_s < 10
            read = {item.partition_index: values(item.records) for item in response.responses[0].partitions}
            assert (read[partition], read[other]) == ([b"news"], [])
            eventually(lambda: not any(waiting(full)), "the fetches of the log actors")

    def test_min_bytes_add_up_over_actors(self, full: Serving, fresh: Fresh) -> None:
        topic = full.create(fresh("t"), PARTITIONS)
        left, right = owned(full, topic).values()
        size = len(client_batch())
        with full.connect() as client:
            client.request(
                FETCH, 18, fetch_body((topic, left, 0), (topic, right, 0), max_wait=60_000, min_bytes=3 * size)
            )
            for partition in (left, right, left):
                eventually(lambda: all(waiting(full)), "the fetches of the log actors")
                produce(full.client, (topic, partition, client_batch()))
            response = client.response(FETCH, 18)
        assert {item.partition_index: len(item.records) for item in response.responses[0].partitions} == {
            left: 2 * size,
            right: size,
        }

    def test_no_wait_for_partitions_that_may_give_no_more(self, full: Serving, fresh: Fresh) -> None:
        topic = full.create(fresh("t"), PARTITIONS)
        left, right = owned(full, topic).values()
        size = len(client_batch())
        for partition in (left, right, left, right):
            produce(full.client, (topic, partition, client_batch()))
        parts = [(topic, left, 0), (topic, right, 0)]
        one_and_a_half = size + size // 2  # more than was read, and yet not another whole batch
        results = fetch(full.client, *parts, partition_max_bytes=one_and_a_half, max_wait=600_000, min_bytes=9 * size)
        assert [len(item.records) for item in results] == [size, size]

    def test_nothing_comes_within_max_wait(self, full: Serving, fresh: Fresh) -> None:
        topic = full.create(fresh("t"), PARTITIONS)
        left, right = owned(full, topic).values()
        for parts in ([(topic, left, 0)], [(topic, left, 0), (topic, right, 0)]):
            started_s = time.monotonic()
            results = fetch(full.client, *parts, max_wait=300, min_bytes=1)
            assert 0.29 < time.monotonic() - started_s < 10
            assert [(item.error_code, item.records) for item in results] == [(ErrorCode.none, b"")] * len(parts)

    def test_a_client_that_leaves_ends_its_waits(self, full: Serving, fresh: Fresh) -> None:
        topic = full.create(fresh("t"), PARTITIONS)
        left, right = owned(full, topic).values()
        with full.connect() as client:
            client.request(FETCH, 18, fetch_body((topic, left, 0), (topic, right, 0), max_wait=60_000, min_bytes=1))
            eventually(lambda: all(waiting(full)), "the fetches of the log actors")
        eventually(lambda: not any(waiting(full)), "the fetches of the log actors")

    def test_an_error_is_not_kept_waiting(self, full: Serving, fresh: Fresh) -> None:
        topic = full.create(fresh("t"), PARTITIONS)
        left, right = owned(full, topic).values()
        started_s = time.monotonic()
        results = fetch(full.client, (topic, left, 99), (topic, right, 0), max_wait=60_000, min_bytes=1)
        assert errors(results) == [ErrorCode.offset_out_of_range, ErrorCode.none]
        assert time.monotonic() - started_s < 10

    def test_limits(self, full: Serving, fresh: Fresh) -> None:
        topic = full.create(fresh("t"), PARTITIONS)
        left, right = owned(full, topic).values()
        batch = client_batch(1, value=b"v" * 1000)
        for partition in (left, left, left, right):
            produce(full.client, (topic, partition, batch))
        parts = [(topic, left, 0), (topic, right, 0)]

        def sizes(**limits: Any) -> list[int]:
            return [len(item.records) for item in fetch(full.client, *parts, **limits)]

        size = len(batch)
        assert sizes() == [3 * size, size]
        assert sizes(partition_max_bytes=2 * size + 1) == [2 * size, size]
        assert sizes(max_bytes=3 * size) == [3 * size, 0]
        assert sizes(max_bytes=1) == [size, 0]
        assert sizes(partition_max_bytes=1, max_bytes=1 << 20)[0] == size
        assert sizes(max_bytes=-5, partition_max_bytes=-5) == [size, 0]
        started_s = time.monotonic()
        assert sizes(max_bytes=3 * size, min_bytes=1 << 20, max_wait=30_000) == [3 * size, 0]
        assert time.monotonic() - started_s < 10

    def test_from_the_middle_of_a_batch(self, full: Serving, fresh: Fresh) -> None:
        topic = full.create(fresh("t"))
        produce(full.client, (topic, 0, client_batch(5)))
        (result,) = fetch(full.client, (topic, 0, 3))
        ((_, header),) = iter_headers(result.records)
        assert (header.base_offset, header.last_offset) == (0, 4)
        assert fetch(full.client, (topic, 0, 5))[0].records == b""

    def test_a_partition_that_comes_twice_is_read_once(self, full: Serving, fresh: Fresh) -> None:
        topic = full.create(fresh("t"))
        produce(full.client, (topic, 0, client_batch(1, value=b"a")))
        produce(full.client, (topic, 0, client_batch(1, value=b"b")))
        (result,) = fetch(full.client, (topic, 0, 0), (topic, 0, 1))
        assert values(result.records) == [b"b"]

    def test_a_fetch_of_no_partition_returns_at_once(self, full: Serving) -> None:
        started_s = time.monotonic()
        assert full.exchange(FETCH, 18, fetch_body(max_wait=30_000, min_bytes=1)).responses == ()
        assert time.monotonic() - started_s < 10

    def test_the_offsets_topic_can_be_read(self, full: Serving) -> None:
        internal = full.gateway.view.topics[OFFSETS_TOPIC]
        full.exchange(10, 4, {"key_type": 0, "coordinator_keys": ["some group"]})
        partition = full.gateway.partition_of("some group")
        assert errors(fetch(full.client, (internal, partition, 0))) == [ErrorCode.none]


def waiting(full: Serving) -> list[int]:
    """Return the number of waiting fetches in each log actor."""
    assert full.actors is not None
    return [len(server._fetches._waiting) for server in full.actors.log_servers.values()]


def test_a_topic_that_this_gateway_has_not_heard_of_yet_is_waited_for(full: Serving) -> None:
    """Another gateway has created it: the producer got the topic's id there."""
    topic = full.controller.registry.create("late", 1, {})
    for number in range(3):
        full.client.request(PRODUCE, 13, produce_body((topic, 0, client_batch(1, value=b"%d" % number))))
    eventually(lambda: 3 in [each.late_produces for each in full.gateway.connections.values()], "three wait")
    full.follow(full.controller.view())
    responses = [full.client.response(PRODUCE, 13).responses[0].partition_responses[0] for _ in range(3)]
    assert [(response.error_code, response.base_offset) for response in responses] == [(0, 0), (0, 1), (0, 2)]
