"""Requests and responses of the group APIs, independent of Kafka's versions. Durations are milliseconds.

Responses have the field names of Kafka's schemas, as kio spells them: ``muster.actors.wire.kafka.codec`` writes them as
they are. ``failed`` returns, for any request, the response for a failure of the whole request. Messages are
dataclasses, but for those of rebalances and Heartbeat, and those of which there is one for each partition: a named
tuple takes a third of the time to create.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import ClassVar, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from muster.actors.group.types import GroupId, MemberId, TxnMarker

NO_GENERATION = -1
NO_OFFSET = -1
NO_LEADER_EPOCH = -1
NO_MEMBER = MemberId("")
OPERATIONS_OMITTED = -(2**31)
_READ, _DELETE, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS = 3, 6, 8, 10, 11
ALL_OPERATIONS = 1 << _READ | 1 << _DELETE | 1 << _DESCRIBE | 1 << _DESCRIBE_CONFIGS | 1 << _ALTER_CONFIGS
"""Bit field of AclOperation: what can be permitted on a group, including its configs since KIP-848."""
MEMBER_ID_REQUIRED_FROM = 4
"""JoinGroup version (KIP-394)."""


@dataclass(frozen=True, slots=True)
class Unthrottled:
    """Kafka's field of all responses; named tuples have it, too. The coordinator has no quotas."""

    throttle_time: ClassVar[int] = 0


class JoinGroup(NamedTuple):
    api_version: int
    group_id: GroupId
    member_id: MemberId
    group_instance_id: str | None
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    """(name, subscription), most preferred first."""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    """JoinGroup v0 has none; its session timeout is used instead."""
    reason: str | None = None


class JoinedMember(NamedTuple):
    member_id: MemberId
    group_instance_id: str | None
    metadata: bytes


class JoinGroupResponse(NamedTuple):
    member_id: MemberId
    error_code: ErrorCode = ErrorCode.none
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: MemberId = NO_MEMBER
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()
    throttle_time: int = 0


class SyncGroup(NamedTuple):
    api_version: int
    group_id: GroupId
    generation_id: int
    member_id: MemberId
    group_instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: tuple[tuple[MemberId, bytes], ...]


class SyncGroupResponse(NamedTuple):
    error_code: ErrorCode = ErrorCode.none
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""
    throttle_time: int = 0


class Heartbeat(NamedTuple):
    api_version: int
    group_id: GroupId
    generation_id: int
    member_id: MemberId
    group_instance_id: str | None


class HeartbeatResponse(NamedTuple):
    error_code: ErrorCode = ErrorCode.none
    throttle_time: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavingMember:
    member_id: MemberId
    group_instance_id: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroup:
    api_version: int
    group_id: GroupId
    members: tuple[LeavingMember, ...]
    """Exactly one below v3."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftMember:
    member_id: MemberId
    group_instance_id: str | None
    error_code: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupResponse(Unthrottled):
    error_code: ErrorCode = ErrorCode.none
    members: tuple[LeftMember, ...] = ()


class CommitPartition(NamedTuple):
    partition: int
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str | None = None


@dataclass(frozen=True, slots=True)
class CommitTopic:
    """Partitions in columns of the same length: a commit of 50 partitions then needs no object for each of them."""

    name: str
    """"" if the request named the topic by an id that could not be translated."""
    topic_id: UUID | None
    partitions: tuple[int, ...]
    offsets: tuple[int, ...]
    leader_epochs: tuple[int, ...]
    metadata: tuple[str | None, ...]

    @classmethod
    def of(cls, name: str, rows: Iterable[CommitPartition], topic_id: UUID | None = None) -> CommitTopic:
        """From one tuple for each partition."""
        columns = [*zip(*rows, strict=True)] or [()] * len(CommitPartition._fields)
        return cls(name, topic_id, *columns)

    def rows(self) -> Iterator[CommitPartition]:
        """One tuple for each partition."""
        return map(CommitPartition, self.partitions, self.offsets, self.leader_epochs, self.metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommit:
    api_version: int
    group_id: GroupId
    generation_id: int
    member_id: MemberId
    group_instance_id: str | None
    retention_ms: int | None = None
    """OffsetCommit v2-4; None: the broker's retention."""
    topics: tuple[CommitTopic, ...]


class PartitionError(NamedTuple):
    partition_index: int
    error_code: ErrorCode


class TopicErrors(NamedTuple):
    name: str
    partitions: tuple[PartitionError, ...]
    topic_id: UUID | None = None


class OffsetCommitResponse(NamedTuple):
    topics: tuple[TopicErrors, ...]
    throttle_time: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommit:
    """Offsets of a group, committed together with what a producer has written in its transaction (KIP-98, KIP-447)."""

    api_version: int
    transactional_id: str
    group_id: GroupId
    producer_id: int
    producer_epoch: int
    generation_id: int = NO_GENERATION
    member_id: MemberId = NO_MEMBER
    group_instance_id: str | None = None
    topics: tuple[CommitTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitResponse(Unthrottled):
    topics: tuple[TopicErrors, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTxnMarker:
    """The transaction coordinator, or an administrator, ends a transaction in the partition."""

    marker: TxnMarker


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTxnMarkerResponse:
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchTopic:
    name: str
    """"" if the request named the topic by an id that could not be translated."""
    topic_id: UUID | None = None
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchGroup:
    group_id: GroupId
    member_id: MemberId | None = None
    member_epoch: int = -1
    topics: tuple[FetchTopic, ...] | None
    """None: everything that the group has committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetch:
    api_version: int
    groups: tuple[OffsetFetchGroup, ...]
    """Exactly one below v8."""
    require_stable: bool = False


class FetchedOffset(NamedTuple):
    partition_index: int
    committed_offset: int = NO_OFFSET
    committed_leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True)
class FetchedTopic:
    """Partitions in columns, as in :class:`CommitTopic`."""

    name: str
    topic_id: UUID | None
    indexes: tuple[int, ...]
    offsets: tuple[int, ...]
    leader_epochs: tuple[int, ...]
    metadata: tuple[str, ...]
    error_code: ErrorCode = ErrorCode.none
    """That of each partition, except for the unstable ones."""
    unstable: frozenset[int] = frozenset()
    """Partitions with UNSTABLE_OFFSET_COMMIT and no offset."""

    @classmethod
    def without_offsets(cls, topic: FetchTopic, error: ErrorCode) -> FetchedTopic:
        """No partition has an offset."""
        size = len(topic.partitions)
        offsets, leader_epochs, metadata = (NO_OFFSET,) * size, (NO_LEADER_EPOCH,) * size, ("",) * size
        return cls(topic.name, topic.topic_id, topic.partitions, offsets, leader_epochs, metadata, error)

    @property
    def partitions(self) -> tuple[FetchedOffset, ...]:
        """One tuple for each partition."""
        columns = (self.indexes, self.offsets, self.leader_epochs, self.metadata, repeat(self.error_code))
        rows = tuple(map(FetchedOffset, *columns))
        if not self.unstable:
            return rows
        error = ErrorCode.unstable_offset_commit
        return tuple([row._replace(error_code=error) if row[0] in self.unstable else row for row in rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedGroup(Unthrottled):
    """Below v8 the whole response."""

    group_id: GroupId
    error_code: ErrorCode = ErrorCode.none
    topics: tuple[FetchedTopic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponse(Unthrottled):
    groups: tuple[FetchedGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDelete:
    api_version: int
    group_id: GroupId
    topics: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteResponse(Unthrottled):
    error_code: ErrorCode = ErrorCode.none
    topics: tuple[TopicErrors, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroups:
    api_version: int
    states_filter: tuple[str, ...] = ()
    types_filter: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    group_id: GroupId
    protocol_type: str
    group_state: str
    group_type: str = "classic"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsResponse(Unthrottled):
    error_code: ErrorCode = ErrorCode.none
    groups: tuple[ListedGroup, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroups:
    api_version: int
    groups: tuple[GroupId, ...]
    include_authorized_operations: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedMember:
    member_id: MemberId
    group_instance_id: str | None
    client_id: str
    client_host: str
    """With Java's leading slash."""
    member_metadata: bytes
    member_assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    group_id: GroupId
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedMember, ...] = ()
    authorized_operations: int = OPERATIONS_OMITTED


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroupsResponse(Unthrottled):
    groups: tuple[DescribedGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroups:
    api_version: int
    groups: tuple[GroupId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedGroup:
    group_id: GroupId
    error_code: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsResponse(Unthrottled):
    results: tuple[DeletedGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupHeartbeat:
    """Null fields have not changed since the member's last heartbeat."""

    api_version: int
    group_id: GroupId
    member_id: MemberId
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    """-1: not changed."""
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    server_assignor: str | None = None
    owned: frozenset[tuple[UUID, int]] | None = None
    """The partitions that the member has; None: it does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedTopic:
    topic_id: UUID
    topic_name: str
    """Only ConsumerGroupDescribe has it."""
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedTopics:
    topic_partitions: tuple[AssignedTopic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupHeartbeatResponse(Unthrottled):
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    member_id: MemberId | None = None
    member_epoch: int = 0
    heartbeat_interval: int = 0
    """Milliseconds."""
    assignment: AssignedTopics | None = None
    """None: not changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupDescribe:
    api_version: int
    groups: tuple[GroupId, ...]
    include_authorized_operations: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumer:
    member_id: MemberId
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    """With Java's leading slash."""
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    assignment: AssignedTopics
    target_assignment: AssignedTopics
    member_type: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumerGroup:
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    group_id: GroupId
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: tuple[DescribedConsumer, ...] = ()
    authorized_operations: int = OPERATIONS_OMITTED


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupDescribeResponse(Unthrottled):
    groups: tuple[DescribedConsumerGroup, ...]


Request = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | OffsetCommit
    | TxnOffsetCommit
    | WriteTxnMarker
    | OffsetFetch
    | OffsetDelete
    | ListGroups
    | DescribeGroups
    | DeleteGroups
    | ConsumerGroupHeartbeat
    | ConsumerGroupDescribe
)
Response = (
    JoinGroupResponse
    | SyncGroupResponse
    | HeartbeatResponse
    | LeaveGroupResponse
    | OffsetCommitResponse
    | TxnOffsetCommitResponse
    | WriteTxnMarkerResponse
    | OffsetFetchResponse
    | OffsetDeleteResponse
    | ListGroupsResponse
    | DescribeGroupsResponse
    | DeleteGroupsResponse
    | ConsumerGroupHeartbeatResponse
    | ConsumerGroupDescribeResponse
)


def failed(request: Request, error: ErrorCode) -> Response:
    """Return the response to a request that failed as a whole, with the error where the API carries it."""
    match request:
        case JoinGroup():
            return JoinGroupResponse(error_code=error, member_id=request.member_id)
        case SyncGroup():
            return SyncGroupResponse(error_code=error)
        case Heartbeat():
            return HeartbeatResponse(error_code=error)
        case LeaveGroup():
            return LeaveGroupResponse(error_code=error)
        case OffsetCommit():
            return OffsetCommitResponse(topics=tuple(_failed_commit(topic, error) for topic in request.topics))
        case TxnOffsetCommit():
            return TxnOffsetCommitResponse(topics=tuple(_failed_commit(topic, error) for topic in request.topics))
        case WriteTxnMarker():
            return WriteTxnMarkerResponse(error_code=error)
        case OffsetFetch():
            return OffsetFetchResponse(groups=tuple(failed_fetch(group, error) for group in request.groups))
        case OffsetDelete():
            return OffsetDeleteResponse(error_code=error)
        case ListGroups():
            return ListGroupsResponse(error_code=error)
        case DescribeGroups():
            return DescribeGroupsResponse(
                groups=tuple(DescribedGroup(group_id=group, error_code=error) for group in request.groups)
            )
        case DeleteGroups():
            return DeleteGroupsResponse(results=_refused(request.groups, error))
        case ConsumerGroupHeartbeat():
            return ConsumerGroupHeartbeatResponse(error_code=error)
        case ConsumerGroupDescribe():
            return ConsumerGroupDescribeResponse(
                groups=tuple(DescribedConsumerGroup(group_id=group, error_code=error) for group in request.groups)
            )


def failed_fetch(group: OffsetFetchGroup, error: ErrorCode) -> FetchedGroup:
    """Return a group's error response.

    It also names the partitions: OffsetFetch v1 has no other place for the error.
    """
    topics = tuple(FetchedTopic.without_offsets(topic, error) for topic in group.topics or ())
    return FetchedGroup(group_id=group.group_id, error_code=error, topics=topics)


def _failed_commit(topic: CommitTopic, error: ErrorCode) -> TopicErrors:
    partitions = tuple(PartitionError(partition, error) for partition in topic.partitions)
    return TopicErrors(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


def _refused(groups: Iterable[GroupId], error: ErrorCode) -> tuple[DeletedGroup, ...]:
    return tuple(DeletedGroup(group_id=group, error_code=error) for group in dict.fromkeys(groups))
