"""Eviction: an administrator sends a member's LeaveGroup (KIP-345), and its partitions go to the others."""

from __future__ import annotations

from collections.abc import Sequence

from muster.actors.runtime.narrow import is_abbreviation
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.client.errors import MusterError
from muster.gateway.client.groups.coordinators import GroupCoordinator
from muster.gateway.client.groups.members import Member, in_words

LEAVE_GROUP = 13
_LEAVE_GROUP_VERSION = 5


def which(group: str, members: Sequence[Member], wanted: str) -> Member:
    """Return the member with that member id (whole, or as a table shortens it), instance id or client id.

    Raises MusterError if there is none, or several.
    """
    for name in ("member_id", "group_instance_id", "client_id"):
        found = [member for member in members if getattr(member, name) == wanted]
        if len(found) == 1:
            return found[0]
        if found:
            raise MusterError(f"{len(found)} members of group {group} have the client id {wanted}: {in_words(found)}")
    found = [member for member in members if is_abbreviation(wanted, member.member_id)]
    if len(found) == 1:
        return found[0]
    if found:
        raise MusterError(f"{len(found)} members of group {group} have member ids like {wanted}: {in_words(found)}")
    who = f"its members are {in_words(members)}" if members else "it has no members"
    raise MusterError(f"group {group} has no member {wanted}; {who}")


def evict(coordinator: GroupCoordinator, who: Member, reason: str) -> None:
    """Remove the member. Raises MusterError, also if it is no member any more.

    ``reason``: in its LeaveGroup (KIP-800), which the coordinator records.
    """
    leaving = {
        "member_id": who.member_id,
        "group_instance_id": who.group_instance_id or None,
        "reason": reason,
    }
    group = coordinator.group
    response = coordinator.request(LEAVE_GROUP, _LEAVE_GROUP_VERSION, {"group_id": group, "members": [leaving]})
    error = next((each.error_code for each in response.members if each.error_code), response.error_code)
    if error is ErrorCode.unknown_member_id:
        raise MusterError(f"{who.member_id} left group {group} before it could be evicted")
    if error is ErrorCode.fenced_instance_id:
        raise MusterError(f"instance {who.group_instance_id} rejoined group {group} under another member id; try again")
    if error is not ErrorCode.none:
        raise MusterError(f"{who.member_id} cannot be evicted from group {group}: {error.name.upper()}")
