"""Which offsets a member of a consumer group may commit and fetch (KIP-848, KIP-1251)."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from muster.actors.group.consumer import membership
from muster.actors.group.consumer.state import ConsumerGroup
from muster.actors.group.errors import ApiError
from muster.actors.group.messages import CommitTopic, OffsetCommit, OffsetFetchGroup, TxnOffsetCommit
from muster.actors.group.shard import Shard
from muster.actors.group.types import MemberId
from muster.placement.client import Context

MEMBER_EPOCH_FROM = 9
"""OffsetCommit version that a member with the consumer protocol must use."""


def check(shard: Shard, group: ConsumerGroup, request: OffsetCommit, context: Context) -> None:
    """Raise ApiError unless the group has no members, or the member has the partitions.

    A commit that was sent before the member got its epoch is accepted, for partitions that it has had since then.
    """
    epoch, member_id = request.generation_id, request.member_id
    if epoch < 0 and not group.members:
        return
    member = group.members.get(member_id)
    if member is None:
        raise ApiError(ErrorCode.unknown_member_id)
    if member.classic is None and request.api_version < MEMBER_EPOCH_FROM:
        raise ApiError(ErrorCode.unsupported_version)
    current = group.assignment_of(member_id).epoch
    if epoch > current or (epoch < current and not _has_had(shard, group, member_id, epoch, request.topics)):
        raise ApiError(_stale(group, member_id))
    membership.meet(shard, group, member_id, context)


def check_transactional(shard: Shard, group: ConsumerGroup, request: TxnOffsetCommit) -> None:
    """Check a TxnOffsetCommit: its sender is a producer, which need not name a member. Raises ApiError."""
    epoch, member_id = request.generation_id, request.member_id
    if (epoch < 0 and not group.members) or (epoch == -1 and not member_id and request.group_instance_id is None):
        return
    if member_id not in group.members:
        raise ApiError(ErrorCode.unknown_member_id)
    current = group.assignment_of(member_id).epoch
    if epoch > current or (epoch < current and not _has_had(shard, group, member_id, epoch, request.topics)):
        raise ApiError(ErrorCode.illegal_generation)


def _has_had(
    shard: Shard, group: ConsumerGroup, member_id: MemberId, epoch: int, topics: tuple[CommitTopic, ...]
) -> bool:
    """Whether the member got all of these partitions at that epoch or before, and has not lost them."""
    current, by_name = group.assignment_of(member_id), shard.topics.by_name
    since = {**current.revoking, **current.assigned}
    return all(
        topic.name in by_name and since.get((by_name[topic.name].topic_id, index), epoch + 1) <= epoch
        for topic in topics
        for index in topic.partitions
    )


def fetch_error(group: ConsumerGroup, wanted: OffsetFetchGroup) -> ErrorCode | None:
    """Why the group's offsets are refused to the sender; None if they are not. Admins name neither member nor epoch."""
    if wanted.member_id is None and wanted.member_epoch < 0:
        return None
    if wanted.member_id is None:
        return ErrorCode.unknown_server_error
    if wanted.member_id not in group.members:
        return ErrorCode.unknown_member_id
    if wanted.member_epoch != group.assignment_of(wanted.member_id).epoch:
        return _stale(group, wanted.member_id)
    return None


def _stale(group: ConsumerGroup, member_id: MemberId) -> ErrorCode:
    is_classic = group.members[member_id].classic is not None
    return ErrorCode.illegal_generation if is_classic else ErrorCode.stale_member_epoch
