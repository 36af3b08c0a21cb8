"""Members of a group, of either protocol, as its coordinator describes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from muster.actors.group.codec.consumer_protocol import assigned_partitions
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.client.errors import NoResponse
from muster.gateway.client.kafka.refusals import check

if TYPE_CHECKING:
    from muster.gateway.client.kafka.brokers import Brokers
    from muster.gateway.client.kafka.leaders import TopicPartition

_DESCRIBE_GROUPS, _CONSUMER_GROUP_DESCRIBE = (15, 5), (69, 0)
_DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group."""

    member_id: str
    client_id: str
    partitions: frozenset[TopicPartition]
    """Its assignment; empty during a rebalance of a classic group."""


def members_of(coordinator: Brokers, group: str) -> list[Member]:
    """Return the members, of either protocol; none of a group that does not exist. Raises Refused or NoResponse."""
    body = {"groups": [group], "include_authorized_operations": False}
    (found,) = coordinator.request(*_DESCRIBE_GROUPS, body).groups
    check(found, f"group {group} cannot be described")
    if found.group_state == _DEAD:
        return _of_consumer_group(coordinator, group)
    return [
        Member(
            each.member_id, each.client_id, frozenset(assigned_partitions(bytes(each.member_assignment)) or frozenset())
        )
        for each in found.members
    ]


def _of_consumer_group(coordinator: Brokers, group: str) -> list[Member]:
    """Return the members of a group of the consumer protocol (KIP-848), which DescribeGroups takes for dead."""
    body = {"group_ids": [group], "include_authorized_operations": False}
    try:
        (found,) = coordinator.request(*_CONSUMER_GROUP_DESCRIBE, body, timeout_s=0).groups
    except NoResponse:  # a broker without this API closes the connection
        return []
    if found.error_code in (ErrorCode.group_id_not_found, ErrorCode.unsupported_version):
        return []
    check(found, f"group {group} cannot be described")
    return [Member(each.member_id, each.client_id, _assigned(each.assignment)) for each in found.members]


def _assigned(assignment: Any) -> frozenset[TopicPartition]:
    return frozenset((topic.topic_name, index) for topic in assignment.topic_partitions for index in topic.partitions)
