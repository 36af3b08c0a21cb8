"""Which client consumes for which group, as registration updates to the gateways and to ZooKeeper.

A member is registered when a generation that includes it completes. During a rebalance it keeps its previous
partitions: a cooperative consumer continues to fetch them, and an eager one fetches nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat

from muster.actors.group.codec.consumer_protocol import PROTOCOL_TYPE, assigned_partitions
from muster.actors.group.consumer.state import ConsumerGroup
from muster.actors.group.messages import NO_GENERATION
from muster.actors.group.state import Group, Member
from muster.actors.group.types import GroupId, MemberId
from muster.placement.client import ANONYMOUS, Context
from muster.placement.mapping.registration import (
    Kind,
    Position,
    Registration,
    SimpleCommit,
    TopicOffsets,
    Withdrawal,
)

COMMIT_INTERVAL_MS = 1_000
"""The shortest time between two updates about commits of a partition on one connection: some clients commit each
record."""


class Registry:
    """The current registrations. Every change returns the update that describes it."""

    def __init__(self, partition: int, epoch: int) -> None:
        self._partition = partition
        self._epoch = epoch
        self._sequence = 0
        self._known: dict[GroupId, dict[str, Registration]] = {}
        self._speakers = _Speakers()
        self._commits_ms: dict[tuple[GroupId, str, str, str, int], int] = {}
        """When a simple consumer's commit of a partition on a connection was last reported, the earliest first."""

    def registrations(self) -> tuple[Registration, ...]:
        return tuple(registration for members in self._known.values() for registration in members.values())

    def of_group(self, group_id: GroupId) -> tuple[Registration, ...]:
        """Return the clients of one group."""
        return tuple(self._known.get(group_id, {}).values())

    def joined(self, group: Group, member: Member) -> Registration | None:
        """Register a member of the group's generation. None if it was registered before."""
        self._speakers.heard(group.id, member.id, member.context)
        if member.id in self._known.get(group.id, {}):
            return None
        return self._state(self._of_member(group, member, None, group.generation))

    def assigned(self, group: Group, member: Member) -> Registration | None:
        """Update a member's assignment. None if it was already reported."""
        self._speakers.heard(group.id, member.id, member.context)
        partitions = assigned_partitions(member.assignment) if group.protocol_type == PROTOCOL_TYPE else None
        return self._state(self._of_member(group, member, partitions, group.generation))

    def met(self, group: Group, member: Member) -> Registration | None:
        """Update a member's client after a request.

        None if it is not registered, or its client was already reported.
        """
        known = self._known.get(group.id, {}).get(member.id)
        if known is None:
            return None
        self._speakers.heard(group.id, member.id, member.context)
        return self._state(self._of_member(group, member, known.partitions, known.generation))

    def reconciled(
        self, group: ConsumerGroup, member_id: MemberId, partitions: frozenset[tuple[str, int]]
    ) -> Registration | None:
        """Update the partitions that a consumer group's member has, or still has to give up. None if that was known."""
        context = group.contexts.get(member_id)
        self._speakers.heard(group.id, member_id, context)
        who = group.who(member_id)
        return self._state(
            Registration(
                group=group.id,
                member_id=member_id,
                kind=Kind.MEMBER,
                client_id=who.client_id,
                host=who.host,
                principal=context.principal if context else None,
                generation=group.assignment_of(member_id).epoch,
                partitions=partitions,
                offsets_partition=self._partition,
                epoch=self._epoch,
                sequence=0,
            )
        )

    def met_consumer(self, group: ConsumerGroup, member_id: MemberId) -> Registration | None:
        """Update a consumer group's member after a request. None if it is not registered, or its client is known."""
        known = self._known.get(group.id, {}).get(member_id)
        if known is None or known.partitions is None:
            return None
        return self.reconciled(group, member_id, known.partitions)

    def seen(self, group: GroupId, context: Context, partitions: Iterable[tuple[str, int]]) -> Registration | None:
        """Register a client without membership that used the group for these partitions. None if that was known."""
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
                principal=context.principal,
                generation=NO_GENERATION,
                partitions=before.union(partitions),
                offsets_partition=self._partition,
                epoch=self._epoch,
                sequence=0,
            )
        )

    def answered(
        self, group: GroupId, context: Context, topics: tuple[TopicOffsets, ...], *, member_id: str | None
    ) -> Position | None:
        """Return the position of a client that received these committed offsets. None if the client is not known.

        ``member_id``: if it sent one.
        """
        named = self._named(group, context, member_id)
        known = named or self._owner(group, context, topics)
        if known is None:
            return None
        return Position(
            group=group,
            member_id=known.member_id,
            principal=known.principal,
            host=known.host,
            client_id=known.client_id,
            topics=topics,
            offsets_partition=self._partition,
            epoch=self._epoch,
            sequence=self._next(),
            is_hint=named is None,
        )

    def committed(
        self, group: GroupId, context: Context, positions: tuple[tuple[str, int, int], ...], now_ms: int
    ) -> SimpleCommit | None:
        """Report offsets that a client without membership committed.

        None if it committed all of them within COMMIT_INTERVAL_MS before.
        """
        source = (group, simple_member_id(context), context.connection)
        while self._commits_ms and now_ms - next(iter(self._commits_ms.values())) >= COMMIT_INTERVAL_MS:
            del self._commits_ms[next(iter(self._commits_ms))]
        positions = tuple(each for each in positions if (*source, *each[:2]) not in self._commits_ms)
        if not positions:
            return None
        self._commits_ms.update(((*source, topic, index), now_ms) for topic, index, _ in positions)
        return SimpleCommit(
            group=group,
            member_id=source[1],
            principal=context.principal,
            host=context.host,
            client_id=context.client_id,
            connection=context.connection,
            positions=positions,
            offsets_partition=self._partition,
            epoch=self._epoch,
            sequence=self._next(),
        )

    def gone(self, group: GroupId, member_id: str, *, left: bool = False) -> Withdrawal | None:
        """Withdraw a client that no longer belongs to the group; ``left``: at its own request.

        None if it was not registered.
        """
        members = self._known.get(group, {})
        self._speakers.forget(group, member_id)
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
            left=left,
        )

    def members_of(self, group: GroupId) -> tuple[str, ...]:
        """Member ids that are registered for the group."""
        return tuple(self._known.get(group, ()))

    def _named(self, group: GroupId, context: Context, member_id: str | None) -> Registration | None:
        """Return the member that sent this request.

        Classic members do not identify themselves in OffsetFetch, but send it on the connection of their heartbeats.
        """
        members = self._known.get(group, {})
        for named in (member_id, self._speakers.member_on(group, context.connection)):
            known = members.get(named or "")
            if known is not None and _is_client(known, context):
                return known
        return None

    def _owner(self, group: GroupId, context: Context, topics: tuple[TopicOffsets, ...]) -> Registration | None:
        """Return the only member of that client that owns these partitions, if it requests on another connection.

        franz-go fetches offsets on another connection. An admin tool with its client id and address looks the same.
        """
        owners = [
            known
            for known in self._known.get(group, {}).values()
            if known.kind is Kind.MEMBER
            and _is_client(known, context)
            and known.partitions is not None
            and _are_all_in(known.partitions, topics)
        ]
        return owners[0] if len(owners) == 1 else None

    def _of_member(
        self, group: Group, member: Member, partitions: frozenset[tuple[str, int]] | None, generation: int
    ) -> Registration:
        context = member.context
        return Registration(
            group=group.id,
            member_id=member.id,
            kind=Kind.MEMBER,
            client_id=context.client_id if context else member.client_id,
            host=context.host if context else member.client_host,
            principal=context.principal if context else None,
            generation=generation,
            partitions=partitions,
            offsets_partition=self._partition,
            epoch=self._epoch,
            sequence=0,
        )

    def _state(self, registration: Registration) -> Registration | None:
        members = self._known.setdefault(GroupId(registration.group), {})
        known = members.get(registration.member_id)
        if known is not None and registration._replace(sequence=known.sequence) == known:
            return None
        stated = members[registration.member_id] = registration._replace(sequence=self._next())
        return stated

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence


class _Speakers:
    """Which registered members of a group send their requests on which connection."""

    KEPT = 2
    """Connections kept per member: franz-go has one for JoinGroup and SyncGroup, and another for the rest."""

    def __init__(self) -> None:
        self._members: dict[tuple[GroupId, str], set[str]] = {}
        """By group and connection."""
        self._connections: dict[tuple[GroupId, str], tuple[str, ...]] = {}
        """By group and member."""

    def heard(self, group: GroupId, member_id: MemberId, context: Context | None) -> None:
        """Note that the member's latest request came from there."""
        connection = context.connection if context else ""
        known = self._connections.get((group, member_id), ())
        if not connection or connection in known:
            return
        kept = (connection, *known)[: self.KEPT]
        self._members.setdefault((group, connection), set()).add(member_id)
        self._connections[group, member_id] = kept
        for left in set(known) - set(kept):
            self._drop(group, left, member_id)

    def member_on(self, group: GroupId, connection: str) -> str | None:
        """None if no member sends its requests there, or several do."""
        members = self._members.get((group, connection), set())
        return next(iter(members)) if len(members) == 1 else None

    def forget(self, group: GroupId, member_id: str) -> None:
        for connection in self._connections.pop((group, member_id), ()):
            self._drop(group, connection, member_id)

    def _drop(self, group: GroupId, connection: str, member_id: str) -> None:
        members = self._members[group, connection]
        members.remove(member_id)
        if not members:
            del self._members[group, connection]


def simple_member_id(context: Context) -> str:
    """Return the member id used for a client without membership, different for different clients.

    Addresses contain no ``/``, so the id of a null client id never equals that of a client id that was sent.
    """
    client = context.host if context.client_id is None else f"{context.host}/{context.client_id}"
    return client if context.principal == ANONYMOUS else f"{context.principal}@{client}"


def _are_all_in(partitions: frozenset[tuple[str, int]], topics: tuple[TopicOffsets, ...]) -> bool:
    return all(partitions.issuperset(zip(repeat(topic), indexes)) for topic, indexes, _ in topics)


def _is_client(registration: Registration, context: Context) -> bool:
    return (
        registration.host == context.host
        and registration.client_id == context.client_id
        and registration.principal in (None, context.principal)
    )
