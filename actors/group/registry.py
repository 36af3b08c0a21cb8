"""Who consumes for which group, as statements to the gateways and to ZooKeeper.

A member is registered when a generation that has it completes. During a rebalance it keeps the partitions it had:
a cooperative consumer goes on fetching them, and an eager one fetches nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from actors.group.consumer_protocol import PROTOCOL_TYPE, assigned_partitions
from actors.group.messages import NO_GENERATION
from actors.group.state import Group, Member
from actors.group.types import Context, GroupId
from placement.registration import Kind, Registration, Withdrawal


class Registry:
    """The statements that hold now. Every change gives the statement that tells of it."""

    def __init__(self, partition: int, epoch: int) -> None:
        self._partition = partition
        self._epoch = epoch
        self._sequence = 0
        self._known: dict[GroupId, dict[str, Registration]] = {}

    def registrations(self) -> tuple[Registration, ...]:
        return tuple(registration for members in self._known.values() for registration in members.values())

    def joined(self, group: Group, member: Member) -> Registration | None:
        """The member is of the group's generation. None if it was registered before."""
        if member.id in self._known.get(group.id, {}):
            return None
        return self._state(self._of_member(group, member, None))

    def assigned(self, group: Group, member: Member) -> Registration | None:
        """The member's assignment is known. None if that is what was said last."""
        partitions = assigned_partitions(member.assignment) if group.protocol_type == PROTOCOL_TYPE else None
        return self._state(self._of_member(group, member, partitions))

    def seen(self, group: GroupId, context: Context, partitions: Iterable[tuple[str, int]]) -> Registration | None:
        """A client without membership used the group for these partitions. None if that was known."""
        member_id = simple_member_id(context)
        known = self._known.get(group, {}).get(member_id)
        before = known.partitions if known and known.partitions else frozenset()
        return self._state(
            Registration(
                group=group,
                member_id=member_id,
                kind=Kind.SIMPLE,
                client_id=context.client_id,
                host=context.host,
                generation=NO_GENERATION,
                partitions=before.union(partitions),
                offsets_partition=self._partition,
                epoch=self._epoch,
                sequence=0,
            )
        )

    def gone(self, group: GroupId, member_id: str) -> Withdrawal | None:
        """The client is no longer of the group. None if it was not registered."""
        members = self._known.get(group, {})
        if members.pop(member_id, None) is None:
            return None
        if not members:
            del self._known[group]
        return Withdrawal(
            group=group,
            member_id=member_id,
            offsets_partition=self._partition,
            epoch=self._epoch,
            sequence=self._next(),
        )

    def members_of(self, group: GroupId) -> tuple[str, ...]:
        """Member ids that are registered for the group."""
        return tuple(self._known.get(group, ()))

    def _of_member(self, group: Group, member: Member, partitions: frozenset[tuple[str, int]] | None) -> Registration:
        return Registration(
            group=group.id,
            member_id=member.id,
            kind=Kind.MEMBER,
            client_id=member.client_id,
            host=member.client_host,
            generation=group.generation,
            partitions=partitions,
            offsets_partition=self._partition,
            epoch=self._epoch,
            sequence=0,
        )

    def _state(self, registration: Registration) -> Registration | None:
        members = self._known.setdefault(GroupId(registration.group), {})
        known = members.get(registration.member_id)
        if known is not None and replace(known, sequence=0) == registration:
            return None
        stated = members[registration.member_id] = replace(registration, sequence=self._next())
        return stated

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence


def simple_member_id(context: Context) -> str:
    """What stands for the member id of a client without membership."""
    return f"{context.host}/{context.client_id or ''}"
