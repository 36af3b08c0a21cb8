"""OffsetCommit and OffsetFetch through a gateway: what it refuses itself, and the order of the response."""

from __future__ import annotations

from typing import Any

import pytest

from muster.actors.wire.kafka.codec import ErrorCode, field, versions_of
from muster.placement.view import Topic
from tests.gateway.group_client import NOBODY, OFFSET_COMMIT, OFFSET_FETCH, Fresh, Member, find
from tests.gateway.serving import Serving

TXN_OFFSET_COMMIT = 28
NONE, UNKNOWN = ErrorCode.none, ErrorCode.unknown_topic_or_partition
TopicPartitions = tuple[Topic, list[int]]


def commit(
    full: Serving, version: int, group: str, *targets: TopicPartitions, **changes: Any
) -> list[tuple[str, list[Any]]]:
    """[(topic, [(partition, error)])] of a commit without membership, whole and in order."""
    topics = [
        {
            "name": topic.name,
            "topic_id": topic.topic_id,
            "partitions": [
                {"partition_index": index, "committed_offset": 5, "committed_metadata": ""} for index in partitions
            ],
        }
        for topic, partitions in targets
    ]
    body = {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "retention_time": -1,
        "topics": topics,
    }
    response = full.exchange(OFFSET_COMMIT, version, body | changes)
    names = {topic.topic_id: topic.name for topic, _ in targets}
    return [
        (
            names[topic.topic_id] if version >= 10 else topic.name,
            [(item.partition_index, item.error_code) for item in topic.partitions],
        )
        for topic in response.topics
    ]


@pytest.mark.parametrize("version", versions_of(OFFSET_COMMIT))
def test_what_is_refused_comes_first(full: Serving, fresh: Fresh, version: int) -> None:
    topic, other, group = full.create(fresh("t"), 2), full.create(fresh("t")), fresh("g")
    find(full.client, 4, group)
    nobody = ("nope", [(0, ErrorCode.unknown_topic_id if version >= 10 else UNKNOWN)])
    assert commit(full, version, group, (topic, [0, 1, 2]), (NOBODY, [0]), (other, [0, -1])) == [
        (topic.name, [(2, UNKNOWN), (0, NONE), (1, NONE)]),
        nobody,
        (other.name, [(-1, UNKNOWN), (0, NONE)]),
    ]
    assert commit(full, version, group, (other, [0]), (NOBODY, [0]), (topic, [0])) == [
        nobody,
        (other.name, [(0, NONE)]),
        (topic.name, [(0, NONE)]),
    ]


@pytest.mark.parametrize("version", versions_of(OFFSET_COMMIT))
def test_a_partition_that_is_committed_twice_has_two_results(full: Serving, fresh: Fresh, version: int) -> None:
    topic, group = full.create(fresh("t"), 2), fresh("g")
    find(full.client, 4, group)
    twice = [(0, NONE), (0, NONE)]
    assert commit(full, version, group, (topic, [0, 0]), (topic, [1])) == [
        (topic.name, twice),
        (topic.name, [(1, NONE)]),
    ]
    refused = commit(full, version, group, (topic, [0, 0]), (NOBODY, [0]), (topic, [1]))
    assert refused[1:] == [(topic.name, [*twice, (1, NONE)])]


@pytest.mark.parametrize("version", versions_of(OFFSET_COMMIT))
def test_the_coordinator_gets_no_empty_commit(full: Serving, fresh: Fresh, version: int) -> None:
    topic = full.create(fresh("t"))
    unknown_group = {"generation_id_or_member_epoch": 7}
    assert commit(full, version, "nobody's", (topic, [3]), **unknown_group) == [(topic.name, [(3, UNKNOWN)])]
    assert commit(full, version, "nobody's", **unknown_group) == []
    assert commit(full, version, "nobody's", (topic, []), **unknown_group) == []


@pytest.mark.parametrize("version", range(8, 11))
def test_a_group_that_is_requested_twice_is_returned_twice(full: Serving, fresh: Fresh, version: int) -> None:
    topic, group = full.create(fresh("t")), fresh("g")
    find(full.client, 4, group)
    Member(full.client, group).commit((topic, 0, 7))
    query = {"group_id": group, "member_id": "ignored", "member_epoch": 4, "topics": None}
    found = full.exchange(OFFSET_FETCH, version, {"groups": [query, query], "require_stable": True}).groups
    assert [[item.committed_offset for item in each.topics[0].partitions] for each in found] == [[7], [7]]
    assert full.exchange(OFFSET_FETCH, version, {"groups": [], "require_stable": False}).groups == ()


@pytest.mark.parametrize("version", range(1, 11))
def test_odd_partitions_and_topics_of_a_fetch(full: Serving, fresh: Fresh, version: int) -> None:
    topic, group = full.create(fresh("t"), 2), fresh("g")
    find(full.client, 4, group)
    Member(full.client, group).commit((topic, 0, 7))
    topics = [
        {"name": topic.name, "topic_id": topic.topic_id, "partition_indexes": indexes}
        for indexes in ([0, 0, 9, -1], [])
    ]
    wanted = {"group_id": group, "member_id": None, "member_epoch": -1, "topics": topics}
    response = full.exchange(OFFSET_FETCH, version, {**wanted, "groups": [wanted], "require_stable": False})
    found = response.groups[0] if version >= 8 else response
    assert [
        [(item.partition_index, item.committed_offset, item.error_code) for item in each.partitions]
        for each in found.topics
    ] == [[(0, 7, NONE), (0, 7, NONE), (9, -1, NONE), (-1, -1, NONE)], []]


def test_a_fetch_with_topic_ids_omits_deleted_topics(full: Serving, fresh: Fresh) -> None:
    kept, gone, group = full.create(fresh("t")), full.create(fresh("t")), fresh("g")
    find(full.client, 4, group)
    member = Member(full.client, group)
    member.commit((kept, 0, 1), (gone, 0, 2))
    full.controller.registry.delete(gone.name)
    full.follow(full.controller.view())
    assert [each[0] for each in member.committed(None)] == [kept.topic_id]
    member.version = 9
    assert {each[0] for each in member.committed(None)} == {kept.name, gone.name}


def test_leader_epochs_are_kept_but_not_with_a_retention_of_their_own(full: Serving, fresh: Fresh) -> None:
    """The record of a commit with a retention (OffsetCommit v2-4) has no field for the epoch; neither has Kafka's."""
    topic, group = full.create(fresh("t")), fresh("g")
    find(full.client, 4, group)

    def stored() -> list[tuple[int, int]]:
        wanted = [{"name": topic.name, "partition_indexes": [0]}]
        (found,) = full.exchange(OFFSET_FETCH, 5, {"group_id": group, "topics": wanted}).topics
        return [(item.committed_offset, field(item, "committed_leader_epoch", None)) for item in found.partitions]

    item = {"partition_index": 0, "committed_offset": -5, "committed_leader_epoch": 7, "committed_metadata": None}
    topics = [{"name": topic.name, "partitions": [item]}]
    commit(full, 8, group, topics=topics)
    assert stored() == [(-5, 7)]
    commit(full, 4, group, topics=topics, retention_time=60_000)
    assert stored() == [(-5, -1)]


@pytest.mark.parametrize("version", versions_of(TXN_OFFSET_COMMIT))
def test_a_commit_in_a_transaction_that_the_coordinator_does_not_know(
    full: Serving, fresh: Fresh, version: int
) -> None:
    """Refusals of the gateway come first; the group's actor refuses the rest."""
    topic, group = full.create(fresh("t"), 2), fresh("g")
    find(full.client, 4, group)
    body = {"transactional_id": fresh("x"), "group_id": group, "producer_id": 99_999, "producer_epoch": 0}

    def errors(*partitions: int, names: tuple[str, ...]) -> list[list[tuple[int, ErrorCode]]]:
        items = [{"partition_index": index, "committed_offset": 5, "committed_metadata": ""} for index in partitions]
        topics = [{"name": name, "partitions": items} for name in names]
        response = full.exchange(TXN_OFFSET_COMMIT, version, {**body, "topics": topics})
        return [[(item.partition_index, item.error_code) for item in topic.partitions] for topic in response.topics]

    ((whole,),) = errors(0, names=(topic.name,))
    assert whole[1] in (ErrorCode.invalid_producer_id_mapping, ErrorCode.coordinator_not_available)
    assert errors(2, 0, names=("nope", topic.name)) == [
        [(2, UNKNOWN), (0, UNKNOWN)],
        [(2, UNKNOWN), (0, whole[1])],
    ]
