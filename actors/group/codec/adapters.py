"""Translates between the codec's entities, one class per API version, and the version-neutral messages of the core.

Every version that kio has is served. OffsetCommit and OffsetFetch v10 name topics by id: an id without a name is
answered UNKNOWN_TOPIC_ID, so the caller adds the names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from muster.actors.group.codec.plain_fetches import write_plain_fetch
from muster.actors.group.messages import (
    NO_GENERATION,
    NO_LEADER_EPOCH,
    NO_MEMBER,
    CommitTopic,
    ConsumerGroupDescribe,
    ConsumerGroupHeartbeat,
    DeleteGroups,
    DescribeGroups,
    FetchedGroup,
    FetchedOffset,
    FetchTopic,
    Heartbeat,
    JoinGroup,
    JoinGroupResponse,
    LeaveGroup,
    LeaveGroupResponse,
    LeavingMember,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchResponse,
    PartitionError,
    Request,
    Response,
    SyncGroup,
    TopicErrors,
    TxnOffsetCommit,
    TxnOffsetCommitResponse,
    failed,
)
from muster.actors.group.types import GroupId, MemberId
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.into import Column, Each, First, Into, Mapped, Only, Or, Taken, Version

OFFSET_COMMIT = 8
OFFSET_FETCH = 9
JOIN_GROUP = 11
HEARTBEAT = 12
LEAVE_GROUP = 13
SYNC_GROUP = 14
DESCRIBE_GROUPS = 15
LIST_GROUPS = 16
TXN_OFFSET_COMMIT = 28
DELETE_GROUPS = 42
OFFSET_DELETE = 47
CONSUMER_GROUP_HEARTBEAT = 68
CONSUMER_GROUP_DESCRIBE = 69

FIRST_WITH_GROUPS = 8
"""OffsetFetch version (KIP-709)."""

_NO_ID = UUID(int=0)


def read(header: codec.Header, frame: bytes) -> Request:
    """Return the request in a frame. Raises the errors of ``codec.decode_request``.

    Raises KeyError for an API that is not a group API.
    """
    key, version = header.api_key, header.api_version
    into = _into(key, version)
    if into is None:
        return _DECODERS[key](version, codec.decode_request(header, frame))
    request: Request = codec.decode_request(header, frame, into=into)
    return request


def decode(api_key: int, api_version: int, entity: Any) -> Request:
    """Return the request in an entity of ``codec.decode_request``.

    Raises KeyError for an API that is not a group API.
    """
    into = _into(api_key, api_version)
    if into is None:
        return _DECODERS[api_key](api_version, entity)
    request: Request = into.of(entity, api_version)
    return request


def _into(api_key: int, api_version: int) -> Into | None:
    """Return None for requests that clients seldom send."""
    if api_key == OFFSET_FETCH and api_version < FIRST_WITH_GROUPS:
        return _OF_ONE_GROUP
    return READ_INTO.get(api_key)


def encode(api_version: int, response: Response) -> codec.Body:
    """Return the body for ``codec.encode_response``: the response itself, where its version does not differ."""
    match response:
        case JoinGroupResponse():
            return _joined(api_version, response)
        case LeaveGroupResponse():
            return _left(api_version, response)
        case TxnOffsetCommitResponse():
            return _txn_committed(api_version, response)
        case OffsetFetchResponse():
            groups = [_fetched(api_version, group) for group in response.groups]
            return _FetchedGroups(response.throttle_time, groups) if api_version >= 8 else groups[0]
    return response


def write(header: codec.Header, response: Response) -> bytes:
    """Return the response frame, of the request's version."""
    version = header.api_version
    if isinstance(response, OffsetFetchResponse):
        plain = write_plain_fetch(version, header.correlation_id, response)
        if plain is not None:
            return plain
    return codec.encode_response(header.api_key, version, header.correlation_id, encode(version, response))


def error_body(api_key: int, api_version: int, entity: Any, error: ErrorCode) -> codec.Body:
    """Return the response to a request that failed as a whole, in the format of its API and version."""
    return encode(api_version, failed(decode(api_key, api_version, entity), error))


def _leave_group(version: int, entity: Any) -> LeaveGroup:
    if version < 3:
        members: tuple[LeavingMember, ...] = (LeavingMember(member_id=MemberId(entity.member_id)),)
    else:
        members = tuple(
            LeavingMember(
                member_id=MemberId(member.member_id),
                group_instance_id=member.group_instance_id,
                reason=codec.field(member, "reason", None),
            )
            for member in entity.members
        )
    return LeaveGroup(api_version=version, group_id=GroupId(entity.group_id), members=members)


def _offset_delete(version: int, entity: Any) -> OffsetDelete:
    return OffsetDelete(
        api_version=version,
        group_id=GroupId(entity.group_id),
        topics=tuple(
            (topic.name, tuple(partition.partition_index for partition in topic.partitions)) for topic in entity.topics
        ),
    )


def _list_groups(version: int, entity: Any) -> ListGroups:
    return ListGroups(
        api_version=version,
        states_filter=codec.field(entity, "states_filter", ()),
        types_filter=codec.field(entity, "types_filter", ()),
    )


def _describe_groups(version: int, entity: Any) -> DescribeGroups:
    return DescribeGroups(
        api_version=version,
        groups=tuple(GroupId(group) for group in entity.groups),
        include_authorized_operations=codec.field(entity, "include_authorized_operations", False),
    )


def _delete_groups(version: int, entity: Any) -> DeleteGroups:
    return DeleteGroups(api_version=version, groups=tuple(GroupId(group) for group in entity.groups_names))


def _consumer_group_describe(version: int, entity: Any) -> ConsumerGroupDescribe:
    return ConsumerGroupDescribe(
        api_version=version,
        groups=tuple(GroupId(group) for group in entity.group_ids),
        include_authorized_operations=entity.include_authorized_operations,
    )


def _joined(version: int, response: JoinGroupResponse) -> JoinGroupResponse:
    """Null for no protocol from v7, "" below."""
    protocol_name = response.protocol_name or (None if version >= 7 else "")
    return response if protocol_name == response.protocol_name else response._replace(protocol_name=protocol_name)


def _left(version: int, response: LeaveGroupResponse) -> LeaveGroupResponse:
    """Below v3 the single member's result is the error of the whole response."""
    if version < 3 and response.error_code is ErrorCode.none and response.members:
        return replace(response, error_code=response.members[0].error_code)
    return response


def _txn_committed(version: int, response: TxnOffsetCommitResponse) -> TxnOffsetCommitResponse:
    """Replace COORDINATOR_LOAD_IN_PROGRESS below v2, where producers may fail at it (KAFKA-7296)."""
    if version >= 2:
        return response
    return replace(response, topics=tuple(_not_loading(topic) for topic in response.topics))


def _not_loading(topic: TopicErrors) -> TopicErrors:
    renamed = {ErrorCode.coordinator_load_in_progress: ErrorCode.coordinator_not_available}
    errors = [PartitionError(partition, renamed.get(error, error)) for partition, error in topic.partitions]
    return topic._replace(partitions=tuple(errors))


@dataclass(frozen=True, slots=True)
class _FetchedTopic:
    name: str
    topic_id: UUID | None
    partitions: tuple[FetchedOffset, ...]


@dataclass(frozen=True, slots=True)
class _FetchedGroup:
    throttle_time: int
    group_id: GroupId
    error_code: ErrorCode
    topics: list[_FetchedTopic]


@dataclass(frozen=True, slots=True)
class _FetchedGroups:
    throttle_time: int
    groups: list[_FetchedGroup]


def _fetched(version: int, group: FetchedGroup) -> _FetchedGroup:
    """v1 has no field for the group's error, so its partitions carry it. Later versions omit them."""
    topics = group.topics if version < 2 or group.error_code is ErrorCode.none else ()
    in_rows = [_FetchedTopic(topic.name, topic.topic_id, topic.partitions) for topic in topics]
    return _FetchedGroup(group.throttle_time, group.group_id, group.error_code, in_rows)


def _retention(retention_ms: int) -> int | None:
    return None if retention_ms == -1 else retention_ms


def _owned(topics: Sequence[tuple[UUID | None, Sequence[int]]] | None) -> frozenset[tuple[UUID, int]] | None:
    if topics is None:
        return None
    return frozenset((topic_id or _NO_ID, index) for topic_id, partitions in topics for index in partitions)


_COMMIT_TOPICS = Each(
    "topics",
    Into(
        CommitTopic,
        name=Or("name", ""),
        topic_id=Or("topic_id", None),
        partitions=Column("partitions", "partition_index"),
        offsets=Column("partitions", "committed_offset"),
        leader_epochs=Column("partitions", "committed_leader_epoch", NO_LEADER_EPOCH),
        metadata=Column("partitions", "committed_metadata"),
    ),
)
_FETCH_GROUP = Into(
    OffsetFetchGroup,
    group_id="group_id",
    member_id=Or("member_id", None),
    member_epoch=Or("member_epoch", -1),
    topics=Each(
        "topics", Into(FetchTopic, name=Or("name", ""), topic_id=Or("topic_id", None), partitions="partition_indexes")
    ),
)
_MEMBER: dict[str, Taken] = {
    "api_version": Version,
    "group_id": "group_id",
    "member_id": "member_id",
    "group_instance_id": Or("group_instance_id", None),
}
_OF_ONE_GROUP = Into(
    OffsetFetch, api_version=Version, groups=Only(_FETCH_GROUP), require_stable=Or("require_stable", False)
)
READ_INTO = {
    OFFSET_COMMIT: Into(
        OffsetCommit,
        **_MEMBER,
        generation_id="generation_id_or_member_epoch",
        retention_ms=Mapped(_retention, Or("retention_time", -1)),
        topics=_COMMIT_TOPICS,
    ),
    OFFSET_FETCH: Into(
        OffsetFetch,
        api_version=Version,
        groups=Each("groups", _FETCH_GROUP),
        require_stable=Or("require_stable", False),
    ),
    TXN_OFFSET_COMMIT: Into(
        TxnOffsetCommit,
        api_version=Version,
        transactional_id="transactional_id",
        group_id="group_id",
        producer_id="producer_id",
        producer_epoch="producer_epoch",
        generation_id=Or("generation_id", NO_GENERATION),
        member_id=Or("member_id", NO_MEMBER),
        group_instance_id=Or("group_instance_id", None),
        topics=_COMMIT_TOPICS,
    ),
    JOIN_GROUP: Into(
        JoinGroup,
        **_MEMBER,
        protocol_type="protocol_type",
        protocols=Each("protocols", Into(tuple, name="name", metadata="metadata")),
        session_timeout_ms="session_timeout",
        rebalance_timeout_ms=First(("rebalance_timeout", "session_timeout")),
        reason=Or("reason", None),
    ),
    SYNC_GROUP: Into(
        SyncGroup,
        **_MEMBER,
        generation_id="generation_id",
        protocol_type=Or("protocol_type", None),
        protocol_name=Or("protocol_name", None),
        assignments=Each("assignments", Into(tuple, member_id="member_id", assignment="assignment")),
    ),
    HEARTBEAT: Into(Heartbeat, **_MEMBER, generation_id="generation_id"),
    CONSUMER_GROUP_HEARTBEAT: Into(
        ConsumerGroupHeartbeat,
        api_version=Version,
        group_id="group_id",
        member_id="member_id",
        member_epoch="member_epoch",
        instance_id="instance_id",
        rack_id="rack_id",
        rebalance_timeout_ms="rebalance_timeout",
        topics="subscribed_topic_names",
        regex=Or("subscribed_topic_regex", None),
        server_assignor="server_assignor",
        owned=Mapped(_owned, Each("topic_partitions", Into(tuple, topic_id="topic_id", partitions="partitions"))),
    ),
}
"""Requests that clients send often are read into those of the core."""
_DECODERS: dict[int, Callable[[int, Any], Request]] = {
    LEAVE_GROUP: _leave_group,
    DESCRIBE_GROUPS: _describe_groups,
    LIST_GROUPS: _list_groups,
    DELETE_GROUPS: _delete_groups,
    OFFSET_DELETE: _offset_delete,
    CONSUMER_GROUP_DESCRIBE: _consumer_group_describe,
}
GROUP_APIS = frozenset((*READ_INTO, *_DECODERS))
"""Api keys that ``decode`` supports."""
