"""Every version of every group API: a request in the client's bytes, through the core, back in the client's bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from muster.actors.group.codec import adapters
from muster.actors.group.messages import (
    AssignedTopic,
    AssignedTopics,
    CommitPartition,
    CommitTopic,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatResponse,
    DeletedGroup,
    DeleteGroupsResponse,
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedGroup,
    DescribedMember,
    DescribeGroupsResponse,
    FetchedGroup,
    FetchedTopic,
    HeartbeatResponse,
    JoinedMember,
    JoinGroup,
    JoinGroupResponse,
    LeaveGroupResponse,
    LeftMember,
    ListedGroup,
    ListGroupsResponse,
    OffsetCommit,
    OffsetCommitResponse,
    OffsetDeleteResponse,
    OffsetFetch,
    OffsetFetchResponse,
    PartitionError,
    Request,
    Response,
    SyncGroupResponse,
    TopicErrors,
    TxnOffsetCommit,
    TxnOffsetCommitResponse,
    WriteTxnMarker,
)
from muster.actors.group.types import GroupId, MemberId
from muster.actors.wire.kafka import codec
from tests.group.driver import Driver, subscription
from tests.group.named_topics import with_names

TOPIC_ID = UUID(int=7)
NAMES = {TOPIC_ID: "t"}
E = ErrorCode

BODIES: Mapping[int, dict[str, Any]] = {
    adapters.OFFSET_COMMIT: {
        "group_id": "g",
        "member_id": "",
        "topics": [
            {
                "name": "t",
                "topic_id": TOPIC_ID,
                "partitions": [{"partition_index": 3, "committed_offset": 9, "committed_metadata": None}],
            }
        ],
    },
    adapters.OFFSET_FETCH: {
        "group_id": "g",
        "topics": [{"name": "t", "partition_indexes": [3]}],
        "groups": [{"group_id": "g", "topics": [{"name": "t", "topic_id": TOPIC_ID, "partition_indexes": [3]}]}],
    },
    adapters.JOIN_GROUP: {
        "group_id": "g",
        "session_timeout": 10_000,
        "rebalance_timeout": 60_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": subscription("t")}],
    },
    adapters.HEARTBEAT: {"group_id": "g", "generation_id": 1, "member_id": "m"},
    adapters.LEAVE_GROUP: {"group_id": "g", "member_id": "m", "members": [{"member_id": "m"}]},
    adapters.SYNC_GROUP: {
        "group_id": "g",
        "generation_id": 1,
        "member_id": "m",
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": "m", "assignment": b"a"}],
    },
    adapters.TXN_OFFSET_COMMIT: {
        "transactional_id": "x",
        "group_id": "g",
        "producer_id": 1000,
        "producer_epoch": 0,
        "topics": [
            {
                "name": "t",
                "partitions": [{"partition_index": 3, "committed_offset": 9, "committed_metadata": None}],
            }
        ],
    },
    adapters.DESCRIBE_GROUPS: {"groups": ["g", "h"], "include_authorized_operations": True},
    adapters.LIST_GROUPS: {"states_filter": ["Stable"], "types_filter": ["classic"]},
    adapters.DELETE_GROUPS: {"groups_names": ["g", "h"]},
    adapters.OFFSET_DELETE: {"group_id": "g", "topics": [{"name": "t", "partitions": [{"partition_index": 3}]}]},
    adapters.CONSUMER_GROUP_HEARTBEAT: {
        "group_id": "g",
        "member_id": "m",
        "member_epoch": 0,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": 1000,
        "subscribed_topic_names": ["t"],
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": [],
    },
    adapters.CONSUMER_GROUP_DESCRIBE: {"group_ids": ["g", "h"], "include_authorized_operations": True},
}
TOPIC_ERRORS = (
    TopicErrors(
        name="t", topic_id=TOPIC_ID, partitions=(PartitionError(partition_index=3, error_code=E.unknown_member_id),)
    ),
)
FETCHED = FetchedTopic("t", TOPIC_ID, (3,), (9,), (2,), ("x",))
G, M = GroupId("g"), MemberId("m")
ASSIGNED = AssignedTopics(topic_partitions=(AssignedTopic(topic_id=TOPIC_ID, topic_name="t", partitions=(3,)),))
RESPONSES: Mapping[int, Response] = {
    adapters.OFFSET_COMMIT: OffsetCommitResponse(topics=TOPIC_ERRORS),
    adapters.OFFSET_FETCH: OffsetFetchResponse(
        groups=(
            FetchedGroup(group_id=G, topics=(FETCHED,)),
            FetchedGroup(group_id=GroupId("h"), error_code=E.not_coordinator),
        )
    ),
    adapters.JOIN_GROUP: JoinGroupResponse(
        generation_id=4,
        protocol_type="consumer",
        protocol_name="range",
        leader=M,
        skip_assignment=True,
        member_id=M,
        members=(JoinedMember(member_id=M, group_instance_id="i", metadata=b"x"),),
    ),
    adapters.HEARTBEAT: HeartbeatResponse(error_code=E.rebalance_in_progress),
    adapters.LEAVE_GROUP: LeaveGroupResponse(
        members=(LeftMember(member_id=M, group_instance_id="i", error_code=E.unknown_member_id),)
    ),
    adapters.SYNC_GROUP: SyncGroupResponse(protocol_type="consumer", protocol_name="range", assignment=b"a"),
    adapters.TXN_OFFSET_COMMIT: TxnOffsetCommitResponse(topics=TOPIC_ERRORS),
    adapters.DESCRIBE_GROUPS: DescribeGroupsResponse(
        groups=(
            DescribedGroup(
                group_id=G,
                error_message="why",
                group_state="Stable",
                protocol_type="consumer",
                protocol_data="range",
                members=(
                    DescribedMember(
                        member_id=M,
                        group_instance_id="i",
                        client_id="c",
                        client_host="/h",
                        member_metadata=b"x",
                        member_assignment=b"y",
                    ),
                ),
                authorized_operations=8,
            ),
        )
    ),
    adapters.LIST_GROUPS: ListGroupsResponse(
        groups=(ListedGroup(group_id=G, protocol_type="consumer", group_state="Stable"),)
    ),
    adapters.DELETE_GROUPS: DeleteGroupsResponse(results=(DeletedGroup(group_id=G, error_code=E.non_empty_group),)),
    adapters.OFFSET_DELETE: OffsetDeleteResponse(topics=TOPIC_ERRORS),
    adapters.CONSUMER_GROUP_HEARTBEAT: ConsumerGroupHeartbeatResponse(
        error_message="why", member_id=M, member_epoch=3, heartbeat_interval=5000, assignment=ASSIGNED
    ),
    adapters.CONSUMER_GROUP_DESCRIBE: ConsumerGroupDescribeResponse(
        groups=(
            DescribedConsumerGroup(
                error_message="why",
                group_id=G,
                group_state="Stable",
                group_epoch=3,
                assignment_epoch=3,
                assignor_name="uniform",
                members=(
                    DescribedConsumer(
                        member_id=M,
                        instance_id="i",
                        rack_id="r",
                        member_epoch=3,
                        client_id="c",
                        client_host="/h",
                        subscribed_topic_names=("t",),
                        subscribed_topic_regex="x",
                        assignment=ASSIGNED,
                        target_assignment=ASSIGNED,
                        member_type=1,
                    ),
                ),
                authorized_operations=8,
            ),
        )
    ),
}
EVERY_VERSION = [(key, version) for key in sorted(BODIES) for version in codec.versions_of(key)]


def _entity(api_key: int, version: int, **changes: Any) -> Any:
    frame = codec.encode_request(api_key, version, 1, "client", {**BODIES[api_key], **changes})
    return codec.decode_request(codec.decode_header(frame), frame)


def _decode(api_key: int, version: int, **changes: Any) -> Request:
    return with_names(adapters.decode(api_key, version, _entity(api_key, version, **changes)), NAMES)


def _round_trip(api_key: int, version: int, body: codec.Body) -> Any:
    correlation_id, entity = codec.decode_response(api_key, version, codec.encode_response(api_key, version, 77, body))
    assert correlation_id == 77
    return entity


def _errors(entity: Any) -> set[ErrorCode]:
    """Every error code in a response, at any depth."""
    if isinstance(entity, tuple):
        return {error for item in entity for error in _errors(item)}
    if not hasattr(entity, "__dataclass_fields__"):
        return set()
    found = {error for name in entity.__dataclass_fields__ for error in _errors(getattr(entity, name))}
    return found | ({entity.error_code} if hasattr(entity, "error_code") else set())


def test_all_group_apis_are_here() -> None:
    assert set(BODIES) == adapters.GROUP_APIS


@pytest.mark.parametrize(("api_key", "version"), EVERY_VERSION)
def test_a_request_goes_through_the_core(driver: Driver, api_key: int, version: int) -> None:
    request = _decode(api_key, version)
    assert not isinstance(request, WriteTxnMarker)
    assert request.api_version == version
    token = driver.send(request)
    if token not in driver.responses:
        driver.advance(3000)
    body = adapters.encode(version, driver.response(token))
    _round_trip(api_key, version, body)


@pytest.mark.parametrize(("api_key", "version"), EVERY_VERSION)
def test_a_request_that_failed_as_a_whole(api_key: int, version: int) -> None:
    body = adapters.error_body(api_key, version, _entity(api_key, version), E.not_coordinator)
    entity = _round_trip(api_key, version, body)
    assert E.not_coordinator in _errors(entity)
    assert _errors(entity) <= {E.not_coordinator, E.none}
    if api_key in (adapters.DESCRIBE_GROUPS, adapters.DELETE_GROUPS, adapters.CONSUMER_GROUP_DESCRIBE):
        groups = entity.results if api_key == adapters.DELETE_GROUPS else entity.groups
        assert [group.group_id for group in groups] == ["g", "h"]


def _as_dicts(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return value._asdict()
    if isinstance(value, tuple):
        return [_as_dicts(item) for item in value]
    if not hasattr(value, "__dataclass_fields__"):
        return value
    return {name: _as_dicts(getattr(value, name)) for name in value.__dataclass_fields__}


@pytest.mark.parametrize(("api_key", "version"), EVERY_VERSION)
def test_a_response_is_written_as_its_dicts_are(api_key: int, version: int) -> None:
    body = adapters.encode(version, RESPONSES[api_key])
    frame = codec.encode_response(api_key, version, 77, body)
    assert frame == codec.encode_response(api_key, version, 77, _as_dicts(body))
    entity = codec.decode_response(api_key, version, frame)[1]
    _check_fields(entity, body)


def _check_fields(entity: Any, body: Any) -> None:
    """Every field of the version was in the response under its name; none was left at kio's default."""
    for name in (declared.name for declared in fields(entity)):
        said, value = getattr(entity, name), getattr(body, name)
        if name == "throttle_time":
            assert (said, value) == (0, 0)
        elif hasattr(said, "__dataclass_fields__"):
            _check_fields(said, value)
        elif isinstance(said, tuple) and not any(hasattr(one, "__dataclass_fields__") for one in said):
            assert [*said] == [*value], name
        elif isinstance(said, tuple):
            for one, item in zip(said, value, strict=True):
                _check_fields(one, item)
        else:
            assert said == value, name


@pytest.mark.parametrize("version", codec.versions_of(adapters.JOIN_GROUP))
def test_join_group(version: int) -> None:
    request = _decode(adapters.JOIN_GROUP, version, group_instance_id="i", reason="why")
    assert isinstance(request, JoinGroup)
    assert request.session_timeout_ms == 10_000
    assert request.rebalance_timeout_ms == (60_000 if version >= 1 else 10_000)
    assert request.group_instance_id == ("i" if version >= 5 else None)
    assert request.protocols == (("range", subscription("t")),)
    response = JoinGroupResponse(
        generation_id=4,
        protocol_type="consumer",
        protocol_name="range",
        leader=MemberId("m"),
        skip_assignment=True,
        member_id=MemberId("m"),
        members=(JoinedMember(member_id=MemberId("m"), group_instance_id="i", metadata=b"x"),),
    )
    entity = _round_trip(adapters.JOIN_GROUP, version, adapters.encode(version, response))
    assert (entity.generation_id, entity.protocol_name, entity.leader, entity.member_id) == (4, "range", "m", "m")
    assert codec.field(entity, "skip_assignment", True) is True
    assert codec.field(entity, "protocol_type", "consumer") == "consumer"
    (member,) = entity.members
    assert (member.metadata, codec.field(member, "group_instance_id", "i")) == (b"x", "i")


@pytest.mark.parametrize("version", codec.versions_of(adapters.OFFSET_COMMIT))
def test_offset_commit(version: int) -> None:
    topics = [
        {
            "name": "t",
            "topic_id": TOPIC_ID,
            "partitions": [
                {
                    "partition_index": 3,
                    "committed_offset": 9,
                    "committed_leader_epoch": 2,
                    "committed_metadata": "x",
                }
            ],
        }
    ]
    request = _decode(adapters.OFFSET_COMMIT, version, topics=topics, retention_time=5000)
    assert isinstance(request, OffsetCommit)
    (topic,) = request.topics
    assert (topic.name, topic.topic_id) == ("t", TOPIC_ID if version >= 10 else None)
    expected = CommitPartition(partition=3, offset=9, leader_epoch=2 if version >= 6 else -1, metadata="x")
    assert [*topic.rows()] == [expected]
    assert request.retention_ms == (5000 if 2 <= version <= 4 else None)
    unset = _decode(adapters.OFFSET_COMMIT, version)
    assert isinstance(unset, OffsetCommit)
    assert (unset.retention_ms, unset.generation_id) == (None, -1)


def test_topics_by_id_are_echoed_and_unknown_ones_refused(driver: Driver) -> None:
    for names, error in ((NAMES, E.none), ({}, E.unknown_topic_id)):
        for api_key in (adapters.OFFSET_COMMIT, adapters.OFFSET_FETCH):
            request = adapters.decode(api_key, 10, _entity(api_key, 10))
            response = driver.exchange(with_names(request, names))
            entity = _round_trip(api_key, 10, adapters.encode(10, response))
            topics = entity.topics if api_key == adapters.OFFSET_COMMIT else entity.groups[0].topics
            assert topics[0].topic_id == TOPIC_ID
            assert topics[0].partitions[0].error_code is error


@pytest.mark.parametrize("version", codec.versions_of(adapters.OFFSET_FETCH))
def test_offset_fetch(version: int) -> None:
    if version >= 2:
        everything = _decode(
            adapters.OFFSET_FETCH, version, topics=None, groups=[{"group_id": "g", "topics": None}], require_stable=True
        )
        assert isinstance(everything, OffsetFetch)
        assert everything.groups[0].topics is None
        assert everything.require_stable is (version >= 7)
    response = OffsetFetchResponse(groups=(FetchedGroup(group_id=GroupId("g"), topics=(FETCHED,)),))
    entity = _round_trip(adapters.OFFSET_FETCH, version, adapters.encode(version, response))
    (answered,) = (entity.groups[0] if version >= 8 else entity).topics
    (partition,) = answered.partitions
    assert (partition.committed_offset, partition.metadata, partition.error_code) == (9, "x", E.none)
    assert codec.field(partition, "committed_leader_epoch", 2) == 2


@pytest.mark.parametrize("version", codec.versions_of(adapters.OFFSET_FETCH))
def test_where_a_failed_fetch_carries_its_error(version: int) -> None:
    body = adapters.error_body(
        adapters.OFFSET_FETCH, version, _entity(adapters.OFFSET_FETCH, version), E.coordinator_load_in_progress
    )
    entity = _round_trip(adapters.OFFSET_FETCH, version, body)
    if version >= 8:
        assert [(g.group_id, g.error_code, g.topics) for g in entity.groups] == [
            ("g", E.coordinator_load_in_progress, ())
        ]
    elif version >= 2:
        assert (entity.error_code, entity.topics) == (E.coordinator_load_in_progress, ())
    else:
        (partition,) = entity.topics[0].partitions
        assert (partition.committed_offset, partition.error_code) == (-1, E.coordinator_load_in_progress)


@pytest.mark.parametrize("version", codec.versions_of(adapters.TXN_OFFSET_COMMIT))
def test_txn_offset_commit(version: int) -> None:
    partition = {"partition_index": 3, "committed_offset": 9, "committed_leader_epoch": 2, "committed_metadata": "x"}
    body = {
        "transactional_id": "x",
        "group_id": "g",
        "producer_id": 1000,
        "producer_epoch": 4,
        "generation_id": 5,
        "member_id": "m",
        "group_instance_id": "i",
        "topics": [{"name": "t", "partitions": [partition]}],
    }
    frame = codec.encode_request(adapters.TXN_OFFSET_COMMIT, version, 1, "c", body)
    has_member = version >= 3
    assert adapters.read(codec.decode_header(frame), frame) == TxnOffsetCommit(
        api_version=version,
        transactional_id="x",
        group_id=G,
        producer_id=1000,
        producer_epoch=4,
        generation_id=5 if has_member else -1,
        member_id=MemberId("m" if has_member else ""),
        group_instance_id="i" if has_member else None,
        topics=(CommitTopic.of("t", [CommitPartition(3, 9, 2 if version >= 2 else -1, "x")]),),
    )


@pytest.mark.parametrize("version", range(7, 10))
def test_an_unstable_offset(version: int) -> None:
    """Without kio, too: the plain response has one error for all partitions."""
    topic = FetchedTopic("t", TOPIC_ID, (3, 4), (-1, 9), (-1, 2), ("", ""), unstable=frozenset({3}))
    response = OffsetFetchResponse(groups=(FetchedGroup(group_id=G, topics=(topic,)),))
    header = codec.Header(adapters.OFFSET_FETCH, version, 77, None, 0)
    _, entity = codec.decode_response(adapters.OFFSET_FETCH, version, adapters.write(header, response))
    (found,) = entity.topics if version < 8 else entity.groups[0].topics
    assert [each.error_code for each in found.partitions] == [E.unstable_offset_commit, E.none]
    assert [each.committed_offset for each in found.partitions] == [-1, 9]
