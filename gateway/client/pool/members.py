"""Members of the pool's group, and the end of those whose actor is dead."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from muster.actors.group.codec.consumer_protocol import assigned_partitions
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.client.kafka.requests import check

if TYPE_CHECKING:
    from muster.gateway.client.kafka.brokers import Brokers
    from muster.gateway.client.kafka.leaders import TopicPartition

log = logging.getLogger(__name__)

REASON = "Ray reports that its actor is dead"
_DESCRIBE_GROUPS, _CONSUMER_GROUP_DESCRIBE, _LEAVE_GROUP = (15, 5), (69, 0), (13, 5)
_DEAD = "Dead"
_GONE = {ErrorCode.none, ErrorCode.unknown_member_id, ErrorCode.group_id_not_found}


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
    from muster.gateway.client.errors import NoResponse

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


def slot_of(member: Member, prefix: str) -> int | None:
    """Return the slot of a member of the pool; None for other members."""
    slot = member.client_id.removeprefix(prefix)
    return int(slot) if slot != member.client_id and slot.isdecimal() else None


def orphans(members: Iterable[Member], prefix: str, slots: Collection[int]) -> list[Member]:
    """Return the members of the pool that are in none of the slots, which are those whose actor may be alive."""
    return [each for each in members if (slot := slot_of(each, prefix)) is not None and slot not in slots]


def evict(coordinator: Brokers, group: str, members: Collection[Member]) -> int:
    """Remove the members from their group, of either protocol. Return how many were still in it.

    Raises Refused or NoResponse.
    """
    if not members:
        return 0
    named = [{"member_id": each.member_id, "group_instance_id": None, "reason": REASON} for each in members]
    response = coordinator.request(*_LEAVE_GROUP, {"group_id": group, "members": named})
    if response.error_code not in _GONE:
        check(response, f"members of group {group} cannot be removed")
    removed = 0
    for each in response.members:
        if each.error_code not in _GONE:
            check(each, f"member {each.member_id} of group {group} cannot be removed")
        elif each.error_code is ErrorCode.none:
            removed += 1
            log.warning("member %s was removed from group %s: %s", each.member_id, group, REASON)
    return removed
