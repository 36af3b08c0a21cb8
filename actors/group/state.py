"""A classic group and its members: the coordinator's state in memory.

Most of it is soft. Parked requests, pending ids, timers and a rebalance in progress are deliberately lost with the
actor; members are restored from the group's record (:func:`restored`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from muster.actors.group.codec.consumer_protocol import PROTOCOL_TYPE, subscribed_topics
from muster.actors.group.codec.records import NO_TIMESTAMP, GroupMetadata, MemberMetadata
from muster.actors.group.messages import JoinedMember, JoinGroup
from muster.actors.group.protocols import Protocols, Support, select
from muster.actors.group.types import GroupId, MemberId, Token, Who
from muster.placement.client import Context


class GroupState(Enum):
    """Values are the names that DescribeGroups and ListGroups show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_E, _P, _C, _S, _D = GroupState
MAY_COME_FROM: Mapping[GroupState, frozenset[GroupState]] = {
    _E: frozenset({_P}),
    _P: frozenset({_E, _C, _S}),
    _C: frozenset({_P}),
    _S: frozenset({_C}),
    _D: frozenset({_E, _P, _C, _S, _D}),
}
"""Legal transitions. A new group is Empty; a loaded one is Empty or Stable."""


class IllegalMove(AssertionError):
    """The coordinator tried a transition that is not in ``MAY_COME_FROM``."""


class Parked(NamedTuple):
    """A JoinGroup that waits for the other members."""

    token: Token
    request: JoinGroup


@dataclass(slots=True, kw_only=True)
class Member:
    id: MemberId
    group_instance_id: str | None
    client_id: str | None
    client_host: str
    """Without Java's leading slash. Both as in the group's record: from the member's first JoinGroup."""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    parked_join: Parked | None = None
    parked_sync: Token | None = None
    is_new: bool = False
    """Added, with its first join not completed yet."""
    context: Context | None = None
    """Where its latest request came from; None after loading, until the first request."""
    lease: int = -1
    """The number of the group's lease that a gateway has for this member."""

    @property
    def who(self) -> Who:
        return Who(self.id, self.client_id, self.client_host, self.group_instance_id)

    def metadata(self, protocol: str | None) -> bytes:
        """Metadata for that protocol; b"" if the member does not offer it."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")


@dataclass(slots=True)
class InitialDelay:
    """The wait of a group that leaves Empty, in ms."""

    wait_ms: int
    """Length of the current wait."""
    remaining_ms: int
    """By how much it may still be extended."""
    member_added: bool = False
    """Whether a member was added since the wait began."""


@dataclass(slots=True, kw_only=True)
class Group:
    id: GroupId
    state_since_ms: int
    """When the group entered its state; NO_TIMESTAMP if an old record lacks it."""
    state: GroupState = GroupState.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    """None for a simple group, and until the first member joins."""
    protocol: str | None = None
    leader: MemberId | None = None
    members: dict[MemberId, Member] = field(default_factory=dict)
    """In the order of their addition."""
    static_members: dict[str, MemberId] = field(default_factory=dict)
    pending_joins: dict[MemberId, Who] = field(default_factory=dict)
    """Ids that were handed out and that no JoinGroup has used yet."""
    pending_syncs: set[MemberId] = field(default_factory=set)
    parked_joins: int = 0
    """The number of members with a parked JoinGroup."""
    support: Support = field(default_factory=Support)
    """Which protocols the members offer."""
    subscribed_topics: frozenset[str] | None = None
    """None if unknown: another protocol type, or an unreadable subscription."""
    initial_delay: InitialDelay | None = None
    """While PreparingRebalance after Empty, until the wait is over."""
    stuck: bool = False
    """Whether the watchdog has reported the current phase of the rebalance."""
    assignment_under_way: dict[MemberId, bytes] | None = None
    """The last one that the leader sent, while it is being written and the group is CompletingRebalance."""
    creation_pending: bool = False
    """The group is not in the log yet: reads do not show it."""
    lease: int = 0
    """The number of the group's lease (:mod:`muster.actors.group.lease`). A member with the same number has it."""
    confirmed_lease: int = -1
    """No gateway uses leases up to this number any more."""
    lease_over_ms: int = 0
    """From then on no gateway uses a lease that has ended, confirmed or not."""
    awaited: set[MemberId] = field(default_factory=set)
    """Members whose session has ended, but of whom a gateway may have unreported heartbeats."""
    on_revoke: Callable[[], None] | None = field(default=None, repr=False, compare=False)
    """Called once when the lease ends; None while no gateway has it."""

    def move(self, state: GroupState, now_ms: int) -> None:
        """Enter a state. Raises IllegalMove if ``MAY_COME_FROM`` does not allow it."""
        if self.state not in MAY_COME_FROM[state]:
            raise IllegalMove(f"group {self.id!r}: {self.state.value} to {state.value}")
        self.revoke()
        self.state = state
        self.state_since_ms = now_ms

    @property
    def is_simple(self) -> bool:
        """Whether the group only stores offsets, as far as is known."""
        return self.protocol_type is None

    @property
    def in_initial_delay(self) -> bool:
        return self.initial_delay is not None

    @property
    def all_joined(self) -> bool:
        """Whether no join is awaited: every member's join is parked and no handed-out id is outstanding."""
        return not self.pending_joins and self.parked_joins == len(self.members)

    def rebalance_timeout_ms(self) -> int:
        """Longest rebalance timeout of any member in ms; 0 without members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def add(self, member: Member) -> None:
        self.members[member.id] = member
        self._count(member)
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.id
        if self.leader is None:
            self.leader = member.id

    def revoke(self) -> None:
        """End the lease, if a gateway has it."""
        if self.on_revoke is not None:
            self.lease += 1
            self.on_revoke()
            self.on_revoke = None

    def remove(self, member: Member) -> None:
        """Remove a member. If it was the leader, the longest-standing remaining member becomes leader."""
        self.revoke()
        del self.members[member.id]
        self._discount(member)
        self.pending_syncs.discard(member.id)
        if member.group_instance_id is not None and self.static_members.get(member.group_instance_id) == member.id:
            del self.static_members[member.group_instance_id]
        if self.leader == member.id:
            self.leader = next(iter(self.members), None)

    def put_back(self, member: Member, before: Member) -> None:
        """Replace ``member`` by ``before``, which has the same id."""
        self.revoke()
        self._discount(member)
        self.members[before.id] = before
        self._count(before)

    def park_join(self, member: Member, join: Parked) -> None:
        """Park the member's JoinGroup, and take the member's protocols from it."""
        self._discount(member)
        member.parked_join = join
        member.protocols = join.request.protocols
        self._count(member)

    def take_parked_join(self, member: Member) -> Parked | None:
        """Take the member's parked JoinGroup in order to answer it."""
        join, member.parked_join = member.parked_join, None
        self.parked_joins -= join is not None
        return join

    def _count(self, member: Member) -> None:
        self.support.add(member.protocols)
        self.parked_joins += member.parked_join is not None

    def _discount(self, member: Member) -> None:
        self.support.remove(member.protocols)
        self.parked_joins -= member.parked_join is not None

    def rename(self, old_id: MemberId, new_id: MemberId) -> Member:
        """Give a static member its next id, everywhere the old one is used."""
        self.revoke()
        self.members = {
            new_id if member_id == old_id else member_id: member for member_id, member in self.members.items()
        }
        member = self.members[new_id]
        member.id = new_id
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        if old_id in self.pending_syncs:
            self.pending_syncs.remove(old_id)
            self.pending_syncs.add(new_id)
        return member

    def offered(self) -> Iterator[Protocols]:
        return (member.protocols for member in self.members.values())

    def select_protocol(self) -> str:
        return select(list(self.offered()))

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """Return the members, as the leader's JoinGroup response lists them."""
        return tuple(
            JoinedMember(
                member_id=member.id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata(self.protocol),
            )
            for member in self.members.values()
        )

    def compute_subscribed_topics(self) -> None:
        """Read the subscriptions of the selected protocol; unknown for other types, or if one is unreadable."""
        if self.protocol_type != PROTOCOL_TYPE:
            self.subscribed_topics = None
            return
        topics: set[str] = set()
        for member in self.members.values():
            subscription = subscribed_topics(member.metadata(self.protocol))
            if subscription is None:
                self.subscribed_topics = None
                return
            topics |= subscription
        self.subscribed_topics = frozenset(topics)

    def is_subscribed(self, topic: str) -> bool:
        """Unknown subscriptions of a ``consumer`` group count as subscribed."""
        if self.subscribed_topics is not None:
            return topic in self.subscribed_topics
        return self.protocol_type == PROTOCOL_TYPE

    def snapshot(self, assignments: Mapping[MemberId, bytes]) -> GroupMetadata:
        """Return the group's record, with these assignments."""
        return GroupMetadata(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            state_timestamp_ms=self.state_since_ms,
            members=tuple(
                MemberMetadata(
                    member_id=member.id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id or "",
                    client_host=f"/{member.client_host}",
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    session_timeout_ms=member.session_timeout_ms,
                    subscription=member.metadata(self.protocol),
                    assignment=assignments.get(member.id, b""),
                )
                for member in self.members.values()
            ),
        )

    def assignments(self) -> dict[MemberId, bytes]:
        return {member.id: member.assignment for member in self.members.values()}


def restored(group_id: GroupId, record: GroupMetadata | None) -> Group:
    """Return the group after loading: Stable if its record has members, else Empty. Without a record it is simple."""
    if record is None:
        return Group(id=group_id, state_since_ms=NO_TIMESTAMP)
    group = Group(
        id=group_id,
        state=GroupState.STABLE if record.members else GroupState.EMPTY,
        state_since_ms=record.state_timestamp_ms,
        generation=record.generation,
        protocol_type=record.protocol_type or None,
        protocol=record.protocol,
        leader=record.leader,
    )
    for stored in record.members:
        group.add(_restored_member(stored, record.protocol))
    group.compute_subscribed_topics()
    return group


def _restored_member(stored: MemberMetadata, protocol: str | None) -> Member:
    return Member(
        id=stored.member_id,
        group_instance_id=stored.group_instance_id,
        client_id=stored.client_id,
        client_host=stored.client_host.removeprefix("/"),
        session_timeout_ms=stored.session_timeout_ms,
        rebalance_timeout_ms=stored.rebalance_timeout_ms,
        protocols=((protocol, stored.subscription),) if protocol is not None else (),
        assignment=stored.assignment,
    )
