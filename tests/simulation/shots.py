"""Snapshots of the coordinator's groups, to compare with the next one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from muster.actors.group.state import Group, GroupState, Member
from muster.actors.group.types import GroupId, MemberId, Token


class MemberShot(NamedTuple):
    group_instance_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    is_new: bool
    parked_join: Token | None
    parked_sync: Token | None
    assignment: bytes

    @property
    def waits(self) -> bool:
        return self.parked_join is not None or self.parked_sync is not None


class GroupShot(NamedTuple):
    state: GroupState
    generation: int
    leader: MemberId | None
    protocol_type: str | None
    protocol: str | None
    members: Mapping[MemberId, MemberShot]
    static_members: Mapping[str, MemberId]
    pending_joins: frozenset[MemberId]
    pending_syncs: frozenset[MemberId]
    state_since_ms: int
    in_initial_delay: bool

    def parked_joins(self) -> int:
        return sum(1 for member in self.members.values() if member.parked_join is not None)


Shots = Mapping[GroupId, GroupShot]


def shoot(groups: Mapping[GroupId, Group]) -> Shots:
    return {group_id: _group(group) for group_id, group in groups.items()}


def _group(group: Group) -> GroupShot:
    return GroupShot(
        group.state,
        group.generation,
        group.leader,
        group.protocol_type,
        group.protocol,
        {member_id: _member(member) for member_id, member in group.members.items()},
        dict(group.static_members),
        frozenset(group.pending_joins),
        frozenset(group.pending_syncs),
        group.state_since_ms,
        group.in_initial_delay,
    )


def _member(member: Member) -> MemberShot:
    return MemberShot(
        member.group_instance_id,
        member.session_timeout_ms,
        member.rebalance_timeout_ms,
        member.is_new,
        member.parked_join.token if member.parked_join else None,
        member.parked_sync,
        member.assignment,
    )
