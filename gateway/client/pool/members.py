"""Members of the pool in its group, and the end of those whose actor is dead."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.client.kafka.groups import Member
from muster.gateway.client.kafka.refusals import check

if TYPE_CHECKING:
    from muster.gateway.client.kafka.brokers import Brokers

log = logging.getLogger(__name__)

REASON = "Ray reports that its actor is dead"
_LEAVE_GROUP = (13, 5)
_GONE = {ErrorCode.none, ErrorCode.unknown_member_id, ErrorCode.group_id_not_found}


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
