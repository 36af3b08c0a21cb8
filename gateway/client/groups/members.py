"""A group of any protocol, from DescribeGroups or ConsumerGroupDescribe, and its members in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muster.actors.group.codec import consumer_protocol
from muster.actors.runtime.words import counted
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.client.errors import MusterError
from muster.gateway.client.groups.coordinators import CoordinatorOf, GroupCoordinator
from muster.gateway.client.kafka.refusals import check
from muster.placement.mapping.nodes import host_text

DESCRIBE_GROUPS = 15
CONSUMER_GROUP_DESCRIBE = 69
_DESCRIBE_GROUPS_VERSION = 5
_DEAD = "Dead"
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Member:
    member_id: str
    client_id: str
    host: str
    """Without the slash that is in front of it in Kafka's protocol."""
    group_instance_id: str | None
    subscription: bytes
    """Metadata with which it joined, for the chosen protocol."""
    assignment: bytes
    """See :mod:`muster.gateway.client.groups.assignments`."""


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    state: str
    """Kafka's name; Dead if the group does not exist."""
    protocol_type: str
    """``consumer``, ``connect``...; empty if only offsets were committed, or nothing is known."""
    protocol: str
    coordinator: str
    """HOST:PORT"""
    members: tuple[Member, ...]
    epoch: int | None = None
    """Epoch of a group of the consumer protocol (KIP-848); None for one of the classic protocol."""

    @property
    def exists(self) -> bool:
        return self.state != _DEAD


def described(coordinator_of: CoordinatorOf, group: str) -> Group:
    """Return the group; if it does not exist, Dead and without members. Raises MusterError."""
    if not group:
        raise MusterError("the name of the group is empty")
    with coordinator_of(group) as coordinator:
        body = {"groups": [group], "include_authorized_operations": False}
        (found,) = coordinator.request(DESCRIBE_GROUPS, _DESCRIBE_GROUPS_VERSION, body).groups
        check(found, f"group {group} cannot be described")
        if found.group_state == _DEAD and (consumers := _consumer_group(coordinator, group)) is not None:
            return consumers
        members = (
            Member(
                member.member_id,
                member.client_id,
                host_text(member.client_host),
                member.group_instance_id,
                bytes(member.member_metadata),
                bytes(member.member_assignment),
            )
            for member in found.members
        )
        return Group(
            group,
            found.group_state,
            found.protocol_type,
            found.protocol_data,
            coordinator.address,
            tuple(sorted(members, key=lambda member: member.member_id)),
        )


def _consumer_group(coordinator: GroupCoordinator, group: str) -> Group | None:
    """Return the group, if it is one of the consumer protocol (KIP-848)."""
    body = {"group_ids": [group], "include_authorized_operations": False}
    try:
        (found,) = coordinator.request(CONSUMER_GROUP_DESCRIBE, 0, body).groups
    except MusterError:
        return None  # a broker that does not have this API closes the connection
    if found.error_code is not ErrorCode.none:
        return None
    members = (
        Member(
            member.member_id,
            member.client_id,
            host_text(member.client_host),
            member.instance_id,
            b"",
            consumer_protocol.write_assignment(
                (
                    (topic.topic_name, index)
                    for topic in member.assignment.topic_partitions
                    for index in topic.partitions
                ),
                version=0,
            ),
        )
        for member in found.members
    )
    return Group(
        group,
        found.group_state,
        consumer_protocol.PROTOCOL_TYPE,
        found.assignor_name,
        coordinator.address,
        tuple(sorted(members, key=lambda member: member.member_id)),
        epoch=found.group_epoch,
    )


def in_words(members: Sequence[Member]) -> str:
    """List the members' names; if there are many, the first few."""
    named = ", ".join(
        f"{member.member_id} (client {member.client_id or '-'} on {member.host or '-'}"
        f"{f', instance {member.group_instance_id}' if member.group_instance_id else ''})"
        for member in members[:_NAMED]
    )
    return f"{named} and {len(members) - _NAMED} more" if len(members) > _NAMED else named


def check_empty(group: str, members: Sequence[Member], what: str) -> None:
    """Raise MusterError naming the members, if there are any."""
    if members:
        raise MusterError(
            f"group {group} has {counted(len(members), 'member')}, so {what}; stop first: {in_words(members)}"
        )
