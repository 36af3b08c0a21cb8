"""Leader epochs in Metadata, Fetch, ListOffsets and OffsetForLeaderEpoch, over real log actors."""

from __future__ import annotations

from typing import Any

import pytest

from muster.actors.log.partition import PartitionLog
from muster.actors.wire.kafka.codec import ErrorCode, versions_of
from muster.placement.view import OFFSETS_TOPIC, Topic
from tests.gateway.apis.test_data_apis import FETCH, LATEST, fetch, fetch_body, produce
from tests.gateway.group_client import Fresh
from tests.gateway.serving import Serving
from tests.log.support import client_batch
from tests.zookeeper_fixture import eventually

METADATA, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH = 3, 2, 23
UNDEFINED = (ErrorCode.none, -1, -1)


def log_of(full: Serving, topic: Topic, partition: int = 0) -> PartitionLog:
    """Return the partition's log, which is open."""
    assert full.actors is not None
    service = full.actors.logs[full.gateway.view.log_of(topic, partition)]

    async def found() -> PartitionLog:
        return await service.log_by_id(topic.topic_id, partition)

    log: PartitionLog = full.run(found())
    return log


def reopen(full: Serving, topic: Topic) -> int:
    """End the log of partition 0, as if its actor had died, and open it again. Returns the new epoch."""
    before = log_of(full, topic)
    full.run(before.close())
    after = log_of(full, topic)
    assert after.epoch > before.epoch
    return after.epoch


def epochs(full: Serving, topic: Topic, version: int = 13) -> list[int]:
    """By Metadata."""
    body = {
        "topics": [{"name": topic.name, "topic_id": None}],
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": False,
        "include_cluster_authorized_operations": False,
    }
    (found,) = full.exchange(METADATA, version, body).topics
    return [each.leader_epoch for each in found.partitions]


def end_of(full: Serving, topic: Topic, epoch: int, current: int = -1, version: int = 4) -> tuple[ErrorCode, int, int]:
    partition = {"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}
    body = {"replica_id": -1, "topics": [{"topic": topic.name, "partitions": [partition]}]}
    (found,) = full.exchange(OFFSET_FOR_LEADER_EPOCH, version, body).topics
    (each,) = found.partitions
    assert (found.topic, each.partition) == (topic.name, 0)
    return each.error_code, each.leader_epoch, each.end_offset


def with_epochs(topic: Topic, offset: int, **fields: Any) -> dict[str, Any]:
    """Return a Fetch of partition 0."""
    body = fetch_body((topic, 0, offset), max_wait=60_000, min_bytes=1)
    body["topics"][0]["partitions"][0] |= fields
    return body


def fetched(full: Serving, topic: Topic, offset: int, **fields: Any) -> Any:
    (found,) = full.exchange(FETCH, 18, with_epochs(topic, offset, **fields)).responses
    return found.partitions[0]


def test_metadata_has_the_epochs_of_open_logs(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("t"), 2)
    assert epochs(full, topic) == [-1, -1]
    produce(full.client, (topic, 1, client_batch()))
    first = log_of(full, topic, 1).epoch
    assert epochs(full, topic) == [-1, first]
    fetch(full.client, (topic, 0, 0))
    assert epochs(full, topic) == [log_of(full, topic).epoch, first]
    again = reopen(full, topic)
    eventually(lambda: epochs(full, topic) == [again, first], "the new epoch")


def test_a_gateway_that_connects_hears_all_epochs(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("t"), 3)
    for partition in range(3):
        produce(full.client, (topic, partition, client_batch()))
    known = epochs(full, topic)
    assert -1 not in known

    async def lose() -> None:
        full.gateway.leader_epochs._newest.clear()
        for index in full.controller.logs:
            channel = full.gateway.forwarder.log(index)
            assert channel is not None
            channel.close()

    full.run(lose())
    eventually(lambda: epochs(full, topic) == known, "the epochs")


def test_epochs_of_deleted_topics_are_forgotten(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("t"))
    produce(full.client, (topic, 0, client_batch()))
    assert full.gateway.leader_epochs.of(topic.topic_id, 0) >= 0
    full.exchange(20, 6, {"topics": [{"name": topic.name, "topic_id": None}], "timeout": 10_000})
    assert full.gateway.leader_epochs.of(topic.topic_id, 0) == -1


def test_the_epoch_of_an_offsets_partition(full: Serving) -> None:
    internal = full.gateway.view.topics[OFFSETS_TOPIC]
    full.exchange(10, 4, {"key_type": 0, "coordinator_keys": ["some group"]})
    partition = full.gateway.partition_of("some group")
    eventually(lambda: epochs(full, internal)[partition] >= 0, "the epoch")
    known = epochs(full, internal)[partition]
    wanted = {"partition": partition, "current_leader_epoch": known, "leader_epoch": known}
    body = {"replica_id": -1, "topics": [{"topic": internal.name, "partitions": [wanted]}]}
    (found,) = full.exchange(OFFSET_FOR_LEADER_EPOCH, 4, body).topics[0].partitions
    assert (found.error_code, found.leader_epoch, found.end_offset >= 0) == (ErrorCode.none, known, True)


def test_the_end_of_an_epoch_is_not_older_than_what_was_fetched_before(full: Serving, fresh: Fresh) -> None:
    """A consumer sends a Fetch, hears of the epoch from another gateway, and requests the end while the Fetch waits."""
    topic = full.create(fresh("t"))
    produce(full.client, (topic, 0, client_batch(3)))
    epoch = log_of(full, topic).epoch
    body = {
        "replica_id": -1,
        "topics": [
            {"topic": topic.name, "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}]}
        ],
    }
    with full.connect() as consumer:
        consumer.request(FETCH, 18, with_epochs(topic, 3))
        consumer.request(OFFSET_FOR_LEADER_EPOCH, 4, body)
        eventually(lambda: log_of(full, topic)._watchers, "the Fetch waits")
        produce(full.client, (topic, 0, client_batch(2)))
        assert consumer.response(FETCH, 18).responses[0].partitions[0].records
        (found,) = consumer.response(OFFSET_FOR_LEADER_EPOCH, 4).topics[0].partitions
    assert (found.error_code, found.leader_epoch, found.end_offset) == (ErrorCode.none, epoch, 5)


@pytest.mark.parametrize("version", versions_of(OFFSET_FOR_LEADER_EPOCH))
def test_offset_for_leader_epoch(full: Serving, fresh: Fresh, version: int) -> None:
    topic = full.create(fresh("t"))
    produce(full.client, (topic, 0, client_batch(3)))
    first = log_of(full, topic).epoch
    assert end_of(full, topic, first, version=version) == (ErrorCode.none, first, 3)
    second = reopen(full, topic)
    produce(full.client, (topic, 0, client_batch(2)))
    assert end_of(full, topic, first, second, version) == (ErrorCode.none, first, 3)
    assert end_of(full, topic, second, second, version) == (ErrorCode.none, second, 5)
    assert end_of(full, topic, second + 1, second, version) == UNDEFINED
    assert end_of(full, topic, -1, second, version) == UNDEFINED
    assert end_of(full, topic, first, first, version) == (ErrorCode.fenced_leader_epoch, -1, -1)
    assert end_of(full, topic, first, second + 1, version) == (ErrorCode.unknown_leader_epoch, -1, -1)
    missing = Topic(name="nope", topic_id=topic.topic_id, partitions=1)
    assert end_of(full, missing, first, version=version) == (ErrorCode.unknown_topic_or_partition, -1, -1)


def test_fetch_and_list_offsets_check_the_epoch(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("t"))
    produce(full.client, (topic, 0, client_batch(3)))
    first = log_of(full, topic).epoch
    assert fetched(full, topic, 0, current_leader_epoch=first).error_code is ErrorCode.none
    second = reopen(full, topic)
    assert fetched(full, topic, 3, current_leader_epoch=first).error_code is ErrorCode.fenced_leader_epoch
    assert fetched(full, topic, 3, current_leader_epoch=second + 1).error_code is ErrorCode.unknown_leader_epoch
    assert epochs(full, topic) == [second], "a client that looks for the cause finds it"
    item = {"partition_index": 0, "timestamp": LATEST}

    def listed(epoch: int) -> tuple[ErrorCode, int]:
        topics = [{"name": topic.name, "partitions": [{**item, "current_leader_epoch": epoch}]}]
        body = {"replica_id": -1, "isolation_level": 0, "topics": topics, "timeout": 1_000}
        (found,) = full.exchange(LIST_OFFSETS, 9, body).topics[0].partitions
        return found.error_code, found.leader_epoch

    assert listed(first) == (ErrorCode.fenced_leader_epoch, -1)
    assert listed(second) == (ErrorCode.none, second)


def test_a_fetch_behind_the_end_of_its_epoch_diverges(full: Serving, fresh: Fresh) -> None:
    topic = full.create(fresh("t"))
    produce(full.client, (topic, 0, client_batch(3)))
    first = log_of(full, topic).epoch
    second = reopen(full, topic)
    produce(full.client, (topic, 0, client_batch(2)))
    found = fetched(full, topic, 4, last_fetched_epoch=first)
    assert (found.error_code, found.records) == (ErrorCode.none, b"")
    assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (first, 3)
    assert fetched(full, topic, 3, last_fetched_epoch=first).records
    assert fetched(full, topic, 3, last_fetched_epoch=second + 1).error_code is ErrorCode.offset_out_of_range
    found = fetched(full, topic, 0, last_fetched_epoch=first)
    assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (-1, -1)
