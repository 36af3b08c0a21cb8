"""ListGroups (16), DescribeGroups (15) and DeleteGroups (42).

ListGroups v4 filter by state | v5 filter by type
DescribeGroups v3 authorized operations | v6 GROUP_ID_NOT_FOUND for an unknown group, before: Dead without error
Reads do not show a group that is not in the log yet.
"""

from __future__ import annotations

from collections.abc import Iterator

from kio.schema.errors import ErrorCode

from muster.actors.group.codec.consumer_protocol import PROTOCOL_TYPE
from muster.actors.group.consumer.conversion import write_tombstones
from muster.actors.group.consumer.state import ConsumerGroup
from muster.actors.group.events import GroupDeleted, GroupType, OffsetsDeleted
from muster.actors.group.membership import forget_group
from muster.actors.group.messages import (
    ALL_OPERATIONS,
    OPERATIONS_OMITTED,
    DeletedGroup,
    DeleteGroups,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedMember,
    DescribeGroups,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroups,
    ListGroupsResponse,
)
from muster.actors.group.shard import Shard
from muster.actors.group.simple import withdraw_all
from muster.actors.group.state import Group, GroupState, Member
from muster.actors.group.types import GroupId, Token

NOT_FOUND_FROM = 6


def list_groups(shard: Shard, request: ListGroups, token: Token) -> None:
    """List groups of this partition that match both filters; an empty filter matches all."""
    states = {state.strip().lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    groups = tuple(
        group
        for group in listed(shard)
        if (not states or group.group_state.lower() in states) and (not types or group.group_type in types)
    )
    response = ListGroupsResponse(groups=groups)
    if any(group.group_type == GroupType.CONSUMER for group in groups):
        shard.reply_when_durable(token, request, response)
    else:
        shard.reply(token, response)


def listed(shard: Shard) -> Iterator[ListedGroup]:
    """All groups that reads show."""
    for classic in shard.groups.values():
        if not classic.creation_pending:
            yield ListedGroup(
                group_id=classic.id,
                protocol_type=classic.protocol_type or "",
                group_state=classic.state.value,
                group_type=GroupType.CLASSIC,
            )
    for consumer in shard.hard.consumer_groups.values():
        if not consumer.creation_pending:
            yield ListedGroup(
                group_id=consumer.id,
                protocol_type=PROTOCOL_TYPE,
                group_state=consumer.state().value,
                group_type=GroupType.CONSUMER,
            )


def describe_groups(shard: Shard, request: DescribeGroups, token: Token) -> None:
    groups = tuple(_describe(shard, group_id, request) for group_id in request.groups)
    shard.reply(token, DescribeGroupsResponse(groups=groups))


def delete_groups(shard: Shard, request: DeleteGroups, token: Token) -> None:
    """Delete groups that are Empty, with their offsets. Each has its own result; duplicates have one."""
    results = tuple(
        DeletedGroup(group_id=group_id, error_code=_delete(shard, group_id))
        for group_id in dict.fromkeys(request.groups)
    )
    shard.reply_when_durable(token, request, DeleteGroupsResponse(results=results))


def remove_group(shard: Shard, group: Group) -> None:
    """Write tombstones for an Empty group and its offsets, and remove it from memory."""
    removed = shard.append_offset_tombstones(group.id, shard.hard.partitions(group.id))
    shard.append_group(group, None)
    forget_group(shard, group)

    def written() -> None:
        if group.id not in shard.groups:
            withdraw_all(shard, group.id)
        if removed:
            shard.report(OffsetsDeleted(group=group.id, partitions=removed))
        shard.report(GroupDeleted(group=group.id))

    def failed(error: ErrorCode) -> None:
        shard.groups.setdefault(group.id, group)

    shard.follow(written, failed)


def remove_consumer_group(shard: Shard, group: ConsumerGroup) -> None:
    """Write tombstones for a consumer group without members, and for its offsets."""
    removed = shard.append_offset_tombstones(group.id, shard.hard.partitions(group.id))
    write_tombstones(shard, group)

    def written() -> None:
        if shard.consumer_group(group.id) is None and group.id not in shard.groups:
            withdraw_all(shard, group.id)
        if removed:
            shard.report(OffsetsDeleted(group=group.id, partitions=removed))
        shard.report(GroupDeleted(group=group.id))

    shard.follow(written, lambda error: None)


def _describe(shard: Shard, group_id: GroupId, request: DescribeGroups) -> DescribedGroup:
    group = shard.groups.get(group_id)
    if group is None or group.creation_pending:
        return _unknown(group_id, request, is_consumer=shard.consumer_group(group_id) is not None)
    stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if stable else "",
        members=tuple(_describe_member(group, member, stable) for member in group.members.values()),
        authorized_operations=_operations(request),
    )


def _unknown(group_id: GroupId, request: DescribeGroups, *, is_consumer: bool) -> DescribedGroup:
    dead = GroupState.DEAD.value
    if request.api_version < NOT_FOUND_FROM:
        return DescribedGroup(group_id=group_id, group_state=dead, authorized_operations=_operations(request))
    return DescribedGroup(
        group_id=group_id,
        error_code=ErrorCode.group_id_not_found,
        error_message=f"Group {group_id} {'is not a classic group' if is_consumer else 'not found'}.",
        group_state=dead,
    )


def _describe_member(group: Group, member: Member, stable: bool) -> DescribedMember:
    return DescribedMember(
        member_id=member.id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id or "",
        client_host=f"/{member.client_host}",
        member_metadata=member.metadata(group.protocol) if stable else b"",
        member_assignment=member.assignment,
    )


def _operations(request: DescribeGroups) -> int:
    return ALL_OPERATIONS if request.include_authorized_operations else OPERATIONS_OMITTED


def _delete(shard: Shard, group_id: GroupId) -> ErrorCode:
    consumer, group = shard.consumer_group(group_id), shard.groups.get(group_id)
    if consumer is not None and consumer.members:
        return ErrorCode.non_empty_group
    if consumer is not None:
        remove_consumer_group(shard, consumer)
        return ErrorCode.none
    if group is None:
        return ErrorCode.group_id_not_found
    if group.state is not GroupState.EMPTY:
        return ErrorCode.non_empty_group
    remove_group(shard, group)
    return ErrorCode.none
