"""DeleteRecords over real log actors: as bytes in every version, and with confluent-kafka's AdminClient."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from muster.actors.wire.kafka.codec import ErrorCode, versions_of
from muster.placement.view import OFFSETS_TOPIC
from tests.gateway.apis.test_data_apis import errors, fetch, list_offsets, produce, values
from tests.gateway.real_clients import reachable
from tests.gateway.serving import Serving
from tests.log.support import client_batch

DELETE_RECORDS = 21
EARLIEST = -2

Fresh = Callable[[str], str]


def delete_records(
    full: Serving, version: int, *deletions: tuple[str, int, int], timeout_ms: int = 10_000
) -> list[tuple[str, int, int, ErrorCode]]:
    """(topic, partition, low watermark, error) of each (topic, partition, offset)."""
    body = {
        "topics": [
            {"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}
            for topic, partition, offset in deletions
        ],
        "timeout": timeout_ms,
    }
    response = full.exchange(DELETE_RECORDS, version, body)
    return [
        (topic.name, item.partition_index, item.low_watermark, item.error_code)
        for topic in response.topics
        for item in topic.partitions
    ]


@pytest.mark.parametrize("version", versions_of(DELETE_RECORDS))
def test_every_response_has_the_log_start(full: Serving, fresh: Fresh, version: int) -> None:
    topic = full.create(fresh("topic"), 3)
    for partition in range(3):
        produce(full.client, (topic, partition, client_batch(4)))
    deletions = [(topic.name, partition, offset) for partition, offset in ((0, 2), (1, -1), (2, 0))]
    assert delete_records(full, version, *deletions) == [
        (topic.name, partition, low, ErrorCode.none) for partition, low in ((0, 2), (1, 4), (2, 0))
    ]
    found = [list_offsets(full.client, 9, topic.name, (partition, EARLIEST))[0].offset for partition in range(3)]
    assert found == [2, 4, 0]
    gone, held = fetch(full.client, (topic, 0, 1), (topic, 2, 0))
    assert gone.error_code is ErrorCode.offset_out_of_range
    assert (held.error_code, held.log_start_offset, len(values(held.records))) == (ErrorCode.none, 0, 4)
    [half] = fetch(full.client, (topic, 0, 2))
    assert (half.error_code, half.log_start_offset, half.high_watermark) == (ErrorCode.none, 2, 4)
    [result] = produce(full.client, (topic, 1, client_batch(1)))
    assert (result.base_offset, result.log_start_offset) == (4, 4)


def test_what_cannot_be_deleted_is_refused_alone(full: Serving, fresh: Fresh) -> None:
    plain, compact = full.create(fresh("plain")), full.create(fresh("compact"), cleanup_policy="compact")
    both = full.create(fresh("both"), cleanup_policy="compact,delete")
    for topic in (plain, compact, both):
        produce(full.client, (topic, 0, client_batch(4)))
    deletions = [
        (plain.name, 0, 5),
        (plain.name, 1, 0),
        (compact.name, 0, 1),
        (both.name, 0, 1),
        (OFFSETS_TOPIC, 0, 0),
        ("no-such-topic", 0, 0),
    ]
    found = {(topic, partition): (low, error) for topic, partition, low, error in delete_records(full, 2, *deletions)}
    assert found == {
        (plain.name, 0): (-1, ErrorCode.offset_out_of_range),
        (plain.name, 1): (-1, ErrorCode.unknown_topic_or_partition),
        (compact.name, 0): (-1, ErrorCode.policy_violation),
        (both.name, 0): (1, ErrorCode.none),
        (OFFSETS_TOPIC, 0): (-1, ErrorCode.invalid_topic_exception),
        ("no-such-topic", 0): (-1, ErrorCode.unknown_topic_or_partition),
    }


@pytest.mark.parametrize("timeout_ms", [0, 1, -1, -(2**31), 2**31 - 1])
def test_what_was_done_is_answered_whatever_the_timeout(full: Serving, fresh: Fresh, timeout_ms: int) -> None:
    """Like Kafka 4.3.1 with one broker: the timeout is for replicas that do not follow."""
    topic = full.create(fresh("topic"))
    produce(full.client, (topic, 0, client_batch(5)))
    for offset, low, error in (
        (2, 2, ErrorCode.none),
        (7, -1, ErrorCode.offset_out_of_range),
        (5, 5, ErrorCode.none),
        (-1, 5, ErrorCode.none),
    ):
        response = delete_records(full, 2, (topic.name, 0, offset), timeout_ms=timeout_ms)
        assert response == [(topic.name, 0, low, error)]


def test_a_partition_that_comes_twice_is_taken_with_its_last_offset(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("topic"))
    produce(full.client, (topic, 0, client_batch(4)))
    assert delete_records(full, 2, (topic.name, 0, 3), (topic.name, 0, 1)) == [(topic.name, 0, 1, ErrorCode.none)]


def test_records_without_key_are_refused_on_a_compacted_topic(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("topic"), cleanup_policy="compact")
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 20)
    builder.append(0, 1, None, b"value", [])
    results = produce(full.client, (topic, 0, bytes(builder.build())))
    assert errors(results) == [ErrorCode.invalid_record]
    assert "without key" in results[0].error_message
    assert errors(produce(full.client, (topic, 0, client_batch(1)))) == [ErrorCode.none]


@pytest.fixture
def admin(full: Serving) -> Iterator[AdminClient]:
    with reachable(full) as bootstrap:
        yield AdminClient({"bootstrap.servers": bootstrap})


def test_confluent_kafkas_admin_client_deletes_records(full: Serving, fresh: Fresh, admin: AdminClient) -> None:
    topic, compact = full.create(fresh("topic"), 2), full.create(fresh("compact"), cleanup_policy="compact")
    for target, partition in ((topic, 0), (topic, 1), (compact, 0)):
        produce(full.client, (target, partition, client_batch(5)))

    def exchange(*deletions: tuple[str, int, int]) -> dict[tuple[str, int], Any]:
        futures = admin.delete_records([TopicPartition(*item) for item in deletions], request_timeout=20)
        return {(partition.topic, partition.partition): future for partition, future in futures.items()}

    done = exchange((topic.name, 0, 3), (topic.name, 1, -1), (compact.name, 0, 1))
    assert [done[topic.name, partition].result(30).low_watermark for partition in (0, 1)] == [3, 5]
    with pytest.raises(KafkaException, match="POLICY_VIOLATION"):
        done[compact.name, 0].result(30)
    with pytest.raises(KafkaException, match="OFFSET_OUT_OF_RANGE"):
        exchange((topic.name, 0, 6))[topic.name, 0].result(30)
    assert list_offsets(full.client, 9, topic.name, (0, EARLIEST))[0].offset == 3
