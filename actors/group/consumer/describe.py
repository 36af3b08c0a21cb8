"""ConsumerGroupDescribe (api key 69), v0-1.

v1 the protocol of each member, KIP-1099
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from muster.actors.group.codec.consumer_records import MemberMetadata
from muster.actors.group.consumer import epochs
from muster.actors.group.consumer.heartbeat import assigned_topics
from muster.actors.group.consumer.state import ConsumerGroup
from muster.actors.group.messages import (
    ALL_OPERATIONS,
    OPERATIONS_OMITTED,
    ConsumerGroupDescribe,
    ConsumerGroupDescribeResponse,
    DescribedConsumer,
    DescribedConsumerGroup,
)
from muster.actors.group.shard import Shard
from muster.actors.group.types import GroupId, MemberId, Token

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def describe(shard: Shard, request: ConsumerGroupDescribe, token: Token) -> None:
    """Respond with the groups as they are, once all of that is in the log."""
    groups = tuple(_describe(shard, group_id, request) for group_id in request.groups)
    shard.reply_when_durable(token, request, ConsumerGroupDescribeResponse(groups=groups))


def _describe(shard: Shard, group_id: GroupId, request: ConsumerGroupDescribe) -> DescribedConsumerGroup:
    if not group_id:
        return DescribedConsumerGroup(group_id=group_id, error_code=ErrorCode.invalid_group_id)
    group = shard.consumer_group(group_id)
    if group is None or group.creation_pending:
        text = f"Group {group_id} {'is not a consumer group' if group_id in shard.groups else 'not found'}."
        return DescribedConsumerGroup(group_id=group_id, error_code=ErrorCode.group_id_not_found, error_message=text)
    return DescribedConsumerGroup(
        group_id=group_id,
        group_state=group.state().value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=epochs.assignor_of(shard, group),
        members=tuple(_member(shard, group, member_id, member) for member_id, member in group.members.items()),
        authorized_operations=ALL_OPERATIONS if request.include_authorized_operations else OPERATIONS_OMITTED,
    )


def _member(shard: Shard, group: ConsumerGroup, member_id: MemberId, member: MemberMetadata) -> DescribedConsumer:
    """Describe a member.

    Partitions that it has to give up are assigned, as in Kafka (asConsumerGroupDescribeMember).
    """
    current = group.assignment_of(member_id)
    return DescribedConsumer(
        member_id=member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=current.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topics,
        subscribed_topic_regex=member.regex,
        assignment=assigned_topics(shard, [*current.assigned, *current.revoking], existing=True),
        target_assignment=assigned_topics(shard, group.target_of(member_id), existing=True),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )
