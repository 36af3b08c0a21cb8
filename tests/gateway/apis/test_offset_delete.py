"""OffsetDelete through a gateway: its own responses, those of the group's coordinator, and their order."""

from __future__ import annotations

from typing import Any

from muster.actors.wire.kafka.codec import ErrorCode
from tests.gateway.group_client import OFFSET_DELETE, Fresh, Member, coordinators_down, find
from tests.gateway.serving import Serving

PROPERTIES = {"group.initial.rebalance.delay.ms": "0"}

NONE, UNKNOWN = ErrorCode.none, ErrorCode.unknown_topic_or_partition

Deleted = tuple[ErrorCode, list[tuple[str, list[tuple[int, ErrorCode]]]]]


def delete_offsets(full: Serving, group: str, *topics: tuple[str, list[int]]) -> Deleted:
    """Delete offsets; return the whole response: error, [(topic, [(partition, error)])]."""
    entries = [{"name": name, "partitions": [{"partition_index": index} for index in each]} for name, each in topics]
    response = full.exchange(OFFSET_DELETE, 0, {"group_id": group, "topics": entries})
    return response.error_code, [
        (topic.name, [(item.partition_index, item.error_code) for item in topic.partitions])
        for topic in response.topics
    ]


def test_offsets_are_deleted_and_those_of_unknown_partitions_refused(full: Serving, fresh: Fresh) -> None:
    topic, other, group = full.create(fresh("t"), 2), full.create(fresh("t")), fresh("g")
    find(full.client, 4, group)
    member = Member(full.client, group)
    member.commit((topic, 0, 5), (topic, 1, 6), (other, 0, 7))
    assert delete_offsets(full, group, (topic.name, [0, 2, -1]), ("nope", [0]), (other.name, [0])) == (
        NONE,
        [
            (topic.name, [(2, UNKNOWN), (-1, UNKNOWN), (0, NONE)]),
            ("nope", [(0, UNKNOWN)]),
            (other.name, [(0, NONE)]),
        ],
    )
    assert member.committed(None) == [(topic.topic_id, 6, "here", NONE)]


def test_an_offset_that_is_not_there_is_deleted_too(full: Serving, fresh: Fresh) -> None:
    topic, group = full.create(fresh("t"), 2), fresh("g")
    find(full.client, 4, group)
    Member(full.client, group).commit((topic, 0, 5))
    assert delete_offsets(full, group, (topic.name, [1, 1])) == (NONE, [(topic.name, [(1, NONE), (1, NONE)])])
    assert delete_offsets(full, group, (topic.name, [1]), (topic.name, [1])) == (NONE, [(topic.name, [(1, NONE)])] * 2)
    assert delete_offsets(full, group, (topic.name, []), ("nope", [])) == (NONE, [("nope", [])])
    assert delete_offsets(full, group) == (NONE, [])


def test_the_coordinator_is_queried_even_if_nothing_is_left(full: Serving, fresh: Fresh) -> None:
    group = fresh("g")
    find(full.client, 4, group)
    assert delete_offsets(full, group, ("nope", [0])) == (ErrorCode.group_id_not_found, [])
    find(full.client, 4, "")
    assert delete_offsets(full, "", ("nope", [0])) == (ErrorCode.invalid_group_id, [])


def test_a_group_that_works_with_another_protocol_type_keeps_its_offsets(full: Serving, fresh: Fresh) -> None:
    topic, group = full.create(fresh("t")), fresh("g")
    find(full.client, 4, group)
    member = Member(full.client, group, protocol_type="connect")
    member.join()
    member.commit((topic, 0, 5))
    assert delete_offsets(full, group, (topic.name, [0]), ("nope", [0])) == (ErrorCode.non_empty_group, [])
    member.leave()
    assert delete_offsets(full, group, (topic.name, [0])) == (NONE, [(topic.name, [(0, NONE)])])


def test_errors_while_the_coordinator_is_down(full: Serving, fresh: Fresh) -> None:
    topic, group = full.create(fresh("t")), fresh("g")
    find(full.client, 4, group)
    with coordinators_down(full):
        down: tuple[ErrorCode, list[Any]] = (ErrorCode.coordinator_load_in_progress, [])
        assert delete_offsets(full, group, (topic.name, [0])) == down
        assert delete_offsets(full, group, ("nope", [0])) == down
        assert delete_offsets(full, "", (topic.name, [0])) == (ErrorCode.invalid_group_id, [])
