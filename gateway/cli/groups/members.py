"""A group of any protocol type as DescribeGroups tells it, and its members in words.

confluent-kafka describes consumer groups alone, and lists no others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muster.actors.wire.codec import ErrorCode
from muster.gateway.cli.coordinator import Coordinator
from muster.gateway.cli.errors import CliError
from muster.gateway.cli.output import counted

DESCRIBE_GROUPS = 15
_DESCRIBE_GROUPS_VERSION = 5
_DEAD = "Dead"
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Member:
    member_id: str
    client_id: str
    host: str
    group_instance_id: str | None
    subscription: bytes
    """What it joined with, of the protocol that was chosen."""
    assignment: bytes
    """See :mod:`muster.gateway.cli.groups.assignments`."""


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    state: str
    """Kafka's name for it; Dead of a group that does not exist."""
    protocol_type: str
    """``consumer``, ``connect``...; empty where only offsets were committed, or nothing is known."""
    protocol: str
    coordinator: str
    """HOST:PORT"""
    members: tuple[Member, ...]

    @property
    def exists(self) -> bool:
        return self.state != _DEAD


def described(bootstrap: str, group: str) -> Group:
    """The group; of one that does not exist, without members and Dead. CliError."""
    if not group:
        raise CliError("a group has a name")
    with Coordinator(bootstrap, group) as coordinator:
        body = {"groups": [group], "include_authorized_operations": False}
        (found,) = coordinator.ask(DESCRIBE_GROUPS, _DESCRIBE_GROUPS_VERSION, body).groups
        if found.error_code is not ErrorCode.none:
            raise CliError(f"group {group} cannot be described: {found.error_code.name.upper()}")
        members = (
            Member(
                member.member_id,
                member.client_id,
                member.client_host,
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


def require(bootstrap: str, group: str) -> Group:
    """The group. CliError if there is none."""
    found = described(bootstrap, group)
    if not found.exists:
        raise unknown(group)
    return found


def unknown(group: str) -> CliError:
    return CliError(f"there is no group {group}; see muster groups list")


def in_words(members: Sequence[Member]) -> str:
    """Who they are, of many the first few."""
    named = ", ".join(
        f"{member.member_id} (client {member.client_id or '-'} on {member.host or '-'}"
        f"{f', instance {member.group_instance_id}' if member.group_instance_id else ''})"
        for member in members[:_NAMED]
    )
    return f"{named} and {len(members) - _NAMED} more" if len(members) > _NAMED else named


def check_empty(group: str, members: Sequence[Member], what: str) -> None:
    """CliError that names the members, if there are any."""
    if members:
        raise CliError(
            f"group {group} has {counted(len(members), 'member')}, so {what}; stop first: {in_words(members)}"
        )
