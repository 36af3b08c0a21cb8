"""Translates between kio's entities, one class per API version, and the version-neutral messages of the core.

Every version that kio has is served. OffsetCommit and OffsetFetch v10 name topics by id: the caller of ``decode``
passes the names, and an id without a name is answered UNKNOWN_TOPIC_ID.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from muster.actors.group.messages import (
    CommitPartition,
    CommitTopic,
    DeleteGroups,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroups,
    DescribeGroupsResponse,
    FetchedGroup,
    FetchTopic,
    Heartbeat,
    HeartbeatResponse,
    JoinGroup,
    JoinGroupResponse,
    LeaveGroup,
    LeaveGroupResponse,
    LeavingMember,
    ListGroups,
    ListGroupsResponse,
    OffsetCommit,
    OffsetCommitResponse,
    OffsetDelete,
    OffsetDeleteResponse,
    OffsetFetch,
    OffsetFetchGroup,
    OffsetFetchResponse,
    Request,
    Response,
    SyncGroup,
    SyncGroupResponse,
    TopicErrors,
    failed,
)
from muster.actors.group.types import GroupId, MemberId
from muster.actors.wire import codec

OFFSET_COMMIT = 8
OFFSET_FETCH = 9
JOIN_GROUP = 11
HEARTBEAT = 12
LEAVE_GROUP = 13
SYNC_GROUP = 14
DESCRIBE_GROUPS = 15
LIST_GROUPS = 16
DELETE_GROUPS = 42
OFFSET_DELETE = 47

TopicNames = Mapping[UUID, str]
_NO_NAMES: TopicNames = {}


def decode(api_key: int, api_version: int, entity: Any, names: TopicNames = _NO_NAMES) -> Request:
    """The request in an entity of ``codec.decode_request``. KeyError for an API that is not a group API."""
    return _DECODERS[api_key](api_version, entity, names)


def encode(api_version: int, response: Response) -> dict[str, Any]:
    """The body for ``codec.encode_response``; it may include fields that this version does not have."""
    body = _ENCODERS[type(response)](api_version, response)
    body["throttle_time"] = 0
    return body


def error_body(api_key: int, api_version: int, entity: Any, error: ErrorCode) -> dict[str, Any]:
    """The response to a request that failed as a whole, in the format of its API and version."""
    return encode(api_version, failed(decode(api_key, api_version, entity), error))


def _join_group(version: int, entity: Any, _: TopicNames) -> JoinGroup:
    session_timeout_ms = codec.ms(entity.session_timeout)
    return JoinGroup(
        api_version=version,
        group_id=GroupId(entity.group_id),
        member_id=MemberId(entity.member_id),
        group_instance_id=codec.field(entity, "group_instance_id", None),
        protocol_type=entity.protocol_type,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in entity.protocols),
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=codec.ms(entity.rebalance_timeout) if version >= 1 else session_timeout_ms,
        reason=codec.field(entity, "reason", None),
    )


def _sync_group(version: int, entity: Any, _: TopicNames) -> SyncGroup:
    return SyncGroup(
        api_version=version,
        group_id=GroupId(entity.group_id),
        generation_id=entity.generation_id,
        member_id=MemberId(entity.member_id),
        group_instance_id=codec.field(entity, "group_instance_id", None),
        protocol_type=codec.field(entity, "protocol_type", None),
        protocol_name=codec.field(entity, "protocol_name", None),
        assignments=tuple((MemberId(item.member_id), item.assignment) for item in entity.assignments),
    )


def _heartbeat(version: int, entity: Any, _: TopicNames) -> Heartbeat:
    return Heartbeat(
        api_version=version,
        group_id=GroupId(entity.group_id),
        generation_id=entity.generation_id,
        member_id=MemberId(entity.member_id),
        group_instance_id=codec.field(entity, "group_instance_id", None),
    )


def _leave_group(version: int, entity: Any, _: TopicNames) -> LeaveGroup:
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


def _offset_commit(version: int, entity: Any, names: TopicNames) -> OffsetCommit:
    retention = codec.field(entity, "retention_time", None)
    retention_ms = None if retention is None else codec.ms(retention)
    return OffsetCommit(
        api_version=version,
        group_id=GroupId(entity.group_id),
        generation_id=entity.generation_id_or_member_epoch,
        member_id=MemberId(entity.member_id),
        group_instance_id=codec.field(entity, "group_instance_id", None),
        retention_ms=None if retention_ms == -1 else retention_ms,
        topics=tuple(_commit_topic(topic, names) for topic in entity.topics),
    )


def _commit_topic(topic: Any, names: TopicNames) -> CommitTopic:
    name, topic_id = _name_and_id(topic, names)
    return CommitTopic(
        name=name,
        topic_id=topic_id,
        partitions=tuple(
            CommitPartition(
                index=partition.partition_index,
                offset=partition.committed_offset,
                leader_epoch=codec.field(partition, "committed_leader_epoch", -1),
                metadata=partition.committed_metadata,
            )
            for partition in topic.partitions
        ),
    )


def _offset_fetch(version: int, entity: Any, names: TopicNames) -> OffsetFetch:
    groups = entity.groups if version >= 8 else (entity,)
    return OffsetFetch(
        api_version=version,
        groups=tuple(_offset_fetch_group(group, names) for group in groups),
        require_stable=codec.field(entity, "require_stable", False),
    )


def _offset_fetch_group(group: Any, names: TopicNames) -> OffsetFetchGroup:
    member_id = codec.field(group, "member_id", None)
    return OffsetFetchGroup(
        group_id=GroupId(group.group_id),
        member_id=None if member_id is None else MemberId(member_id),
        member_epoch=codec.field(group, "member_epoch", -1),
        topics=None if group.topics is None else tuple(_fetch_topic(topic, names) for topic in group.topics),
    )


def _fetch_topic(topic: Any, names: TopicNames) -> FetchTopic:
    name, topic_id = _name_and_id(topic, names)
    return FetchTopic(name=name, topic_id=topic_id, partitions=tuple(topic.partition_indexes))


def _name_and_id(topic: Any, names: TopicNames) -> tuple[str, UUID | None]:
    topic_id: UUID | None = codec.field(topic, "topic_id", None)
    name: str = codec.field(topic, "name", "")
    if not name and topic_id is not None:
        name = names.get(topic_id, "")
    return name, topic_id


def _offset_delete(version: int, entity: Any, _: TopicNames) -> OffsetDelete:
    return OffsetDelete(
        api_version=version,
        group_id=GroupId(entity.group_id),
        topics=tuple(
            (topic.name, tuple(partition.partition_index for partition in topic.partitions)) for topic in entity.topics
        ),
    )


def _list_groups(version: int, entity: Any, _: TopicNames) -> ListGroups:
    return ListGroups(
        api_version=version,
        states_filter=codec.field(entity, "states_filter", ()),
        types_filter=codec.field(entity, "types_filter", ()),
    )


def _describe_groups(version: int, entity: Any, _: TopicNames) -> DescribeGroups:
    return DescribeGroups(
        api_version=version,
        groups=tuple(GroupId(group) for group in entity.groups),
        include_authorized_operations=codec.field(entity, "include_authorized_operations", False),
    )


def _delete_groups(version: int, entity: Any, _: TopicNames) -> DeleteGroups:
    return DeleteGroups(api_version=version, groups=tuple(GroupId(group) for group in entity.groups_names))


def _joined(version: int, response: JoinGroupResponse) -> dict[str, Any]:
    protocol_name = response.protocol_name or None
    return {
        "error_code": response.error,
        "generation_id": response.generation_id,
        "protocol_type": response.protocol_type,
        "protocol_name": protocol_name if version >= 7 else protocol_name or "",
        "leader": response.leader,
        "skip_assignment": response.skip_assignment,
        "member_id": response.member_id,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "metadata": member.metadata,
            }
            for member in response.members
        ],
    }


def _synced(version: int, response: SyncGroupResponse) -> dict[str, Any]:
    return {
        "error_code": response.error,
        "protocol_type": response.protocol_type,
        "protocol_name": response.protocol_name,
        "assignment": response.assignment,
    }


def _beaten(version: int, response: HeartbeatResponse) -> dict[str, Any]:
    return {"error_code": response.error}


def _left(version: int, response: LeaveGroupResponse) -> dict[str, Any]:
    """Below v3 the single member's result is the error of the whole response."""
    error = response.error
    if version < 3 and error is ErrorCode.none and response.members:
        error = response.members[0].error
    return {
        "error_code": error,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "error_code": member.error,
            }
            for member in response.members
        ],
    }


def _committed(version: int, response: OffsetCommitResponse) -> dict[str, Any]:
    return {"topics": _topic_errors(response.topics)}


def _deleted_offsets(version: int, response: OffsetDeleteResponse) -> dict[str, Any]:
    return {"error_code": response.error, "topics": _topic_errors(response.topics)}


def _topic_errors(topics: tuple[TopicErrors, ...]) -> list[dict[str, Any]]:
    return [
        {
            "name": topic.name,
            "topic_id": topic.topic_id,
            "partitions": [
                {"partition_index": partition.index, "error_code": partition.error} for partition in topic.partitions
            ],
        }
        for topic in topics
    ]


def _fetched(version: int, response: OffsetFetchResponse) -> dict[str, Any]:
    groups = [_fetched_group(version, group) for group in response.groups]
    return {"groups": groups} if version >= 8 else groups[0]


def _fetched_group(version: int, group: FetchedGroup) -> dict[str, Any]:
    """v1 has no field for the group's error, so its partitions carry it. Later versions omit them."""
    topics = group.topics if version < 2 or group.error is ErrorCode.none else ()
    return {
        "group_id": group.group_id,
        "error_code": group.error,
        "topics": [
            {
                "name": topic.name,
                "topic_id": topic.topic_id,
                "partitions": [
                    {
                        "partition_index": partition.index,
                        "committed_offset": partition.offset,
                        "committed_leader_epoch": partition.leader_epoch,
                        "metadata": partition.metadata,
                        "error_code": partition.error,
                    }
                    for partition in topic.partitions
                ],
            }
            for topic in topics
        ],
    }


def _listed(version: int, response: ListGroupsResponse) -> dict[str, Any]:
    return {
        "error_code": response.error,
        "groups": [
            {
                "group_id": group.group_id,
                "protocol_type": group.protocol_type,
                "group_state": group.state,
                "group_type": group.type,
            }
            for group in response.groups
        ],
    }


def _described(version: int, response: DescribeGroupsResponse) -> dict[str, Any]:
    return {"groups": [_described_group(group) for group in response.groups]}


def _described_group(group: DescribedGroup) -> dict[str, Any]:
    return {
        "error_code": group.error,
        "error_message": group.error_message,
        "group_id": group.group_id,
        "group_state": group.state,
        "protocol_type": group.protocol_type,
        "protocol_data": group.protocol_data,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "member_metadata": member.metadata,
                "member_assignment": member.assignment,
            }
            for member in group.members
        ],
        "authorized_operations": group.authorized_operations,
    }


def _deleted_groups(version: int, response: DeleteGroupsResponse) -> dict[str, Any]:
    return {"results": [{"group_id": group.group_id, "error_code": group.error} for group in response.groups]}


_DECODERS: dict[int, Callable[[int, Any, TopicNames], Request]] = {
    OFFSET_COMMIT: _offset_commit,
    OFFSET_FETCH: _offset_fetch,
    JOIN_GROUP: _join_group,
    HEARTBEAT: _heartbeat,
    LEAVE_GROUP: _leave_group,
    SYNC_GROUP: _sync_group,
    DESCRIBE_GROUPS: _describe_groups,
    LIST_GROUPS: _list_groups,
    DELETE_GROUPS: _delete_groups,
    OFFSET_DELETE: _offset_delete,
}
GROUP_APIS = frozenset(_DECODERS)
"""Api keys that ``decode`` supports."""

_ENCODERS: dict[type[Response], Callable[[int, Any], dict[str, Any]]] = {
    OffsetCommitResponse: _committed,
    OffsetFetchResponse: _fetched,
    JoinGroupResponse: _joined,
    HeartbeatResponse: _beaten,
    LeaveGroupResponse: _left,
    SyncGroupResponse: _synced,
    DescribeGroupsResponse: _described,
    ListGroupsResponse: _listed,
    DeleteGroupsResponse: _deleted_groups,
    OffsetDeleteResponse: _deleted_offsets,
}
