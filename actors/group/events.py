"""What operators want to know of the groups of a partition: for metrics, the journal and the log.

Events come in the order in which things happened, each with the time of its step. What a JoinGroup or SyncGroup did
to its member comes before what it did to the group; who was removed or added comes before the rebalance that this
starts, in the same step. Heartbeats are none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from muster.actors.group.state import GroupState
from muster.actors.group.types import GroupId, MemberId, Who


class Cause(StrEnum):
    """Why a rebalance was started."""

    MEMBER_JOINED = "member joined"
    LEADER_REJOINED = "leader rejoined"
    PROTOCOLS_CHANGED = "member rejoined with other protocols"
    STATIC_MEMBER_REPLACED = "static member replaced"
    MEMBER_LEFT = "member left"
    SESSION_EXPIRED = "session expired"
    SYNC_TIMEOUT = "members did not sync in time"
    ASSIGNMENT_NOT_WRITTEN = "assignment could not be written"
    TOO_MANY_MEMBERS = "group above group.max.size"


class Removal(StrEnum):
    """Why a member was removed without its asking."""

    SESSION_EXPIRED = "session expired"
    JOIN_EXPIRED = "new member waited too long"
    REBALANCE_TIMEOUT = "did not rejoin in time"
    SYNC_TIMEOUT = "did not sync in time"
    GROUP_FULL = "group above group.max.size"


class PendingEnd(StrEnum):
    """Why a handed-out member id is not awaited any more."""

    JOINED = "joined"
    LEFT = "left"
    EXPIRED = "did not join within its session timeout"
    GROUP_FULL = "group above group.max.size"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRestored:
    """Loading found a group with members: it is Stable."""

    group: GroupId
    generation: int
    protocol_type: str | None
    assignments: tuple[tuple[Who, bytes], ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceStarted:
    """The group is PreparingRebalance. A rebalance of it that was not over yet has thereby ended."""

    group: GroupId
    cause: Cause
    member_id: MemberId
    """Who caused it; "" where that was no single member."""
    client_id: str | None
    host: str
    group_instance_id: str | None
    reason: str | None
    """What the member gave as its reason: JoinGroup v8, LeaveGroup v5 (KIP-800)."""
    from_state: GroupState
    """Out of Empty the group waits for ``group.initial.rebalance.delay.ms`` first."""
    generation: int
    """The last one."""
    members: tuple[Who, ...] = field(repr=False)
    """Those that are members now: without who left, with who was added."""
    joined: frozenset[MemberId] = field(repr=False)
    """Those of them whose JoinGroup is here already."""
    pending: tuple[Who, ...] = field(repr=False)
    """Handed-out ids that are awaited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationCompleted:
    """The join phase ended: with members the assignment is awaited, without the group is Empty."""

    group: GroupId
    generation: int
    members: int
    duration_ms: int
    """Since the rebalance was started."""
    protocol_type: str | None
    protocol: str | None
    """None if the group is Empty."""
    leader: MemberId | None
    subscriptions: tuple[tuple[Who, bytes], ...] = field(repr=False)
    """Each member's metadata for the protocol, of its last JoinGroup."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentStored:
    """The leader's assignment is in the log, the group Stable. Whoever has sent SyncGroup is answered."""

    group: GroupId
    generation: int
    members: int
    duration_ms: int
    """Since the join phase ended."""
    assignments: tuple[tuple[MemberId, bytes], ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceAborted:
    """The coordinator resigned in the middle, or the new group could not be written."""

    group: GroupId


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberAdded:
    """Somebody new, whose first JoinGroup this is (or whose second, with the id that it was handed)."""

    group: GroupId
    member: Who


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberJoined:
    """A JoinGroup was accepted, of a new member or a known one; perhaps it is answered at once."""

    group: GroupId
    member_id: MemberId


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSynced:
    """A SyncGroup of the current generation was accepted."""

    group: GroupId
    generation: int
    member_id: MemberId


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberExpired:
    group: GroupId
    member_id: MemberId
    client_id: str | None
    host: str
    group_instance_id: str | None
    cause: Removal


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberLeft:
    group: GroupId
    member_id: MemberId
    client_id: str | None
    host: str
    group_instance_id: str | None
    reason: str | None
    """LeaveGroup v5."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticMemberReplaced:
    group: GroupId
    group_instance_id: str
    old_member_id: MemberId
    new_member_id: MemberId
    client_id: str | None
    """Of the new one, as its host."""
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingMemberAdded:
    """A member id was handed out; its JoinGroup is awaited (KIP-394)."""

    group: GroupId
    member: Who


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingMemberRemoved:
    group: GroupId
    member_id: MemberId
    cause: PendingEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceStuck:
    """A phase of a rebalance lasts longer than ``rebalance.stuck.ms``. Once per phase."""

    group: GroupId
    state: GroupState
    generation: int
    """The last one in PreparingRebalance, the one that waits for its assignment in CompletingRebalance."""
    duration_ms: int
    members: tuple[Who, ...] = field(repr=False)
    """Whose JoinGroup or SyncGroup is awaited; in CompletingRebalance the leader first, if it is one of them."""
    leader: MemberId | None
    pending: tuple[Who, ...] = field(repr=False)
    """Handed-out ids that are awaited, in PreparingRebalance."""
    deadline_ms: int | None
    """When the phase ends by itself, ms since the Unix epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceMovedOn:
    """A phase that was reported as stuck is over."""

    group: GroupId
    state: GroupState
    """What the phase was."""
    duration_ms: int


class CommittedPartition(NamedTuple):
    topic: str
    partition: int
    before: int | None
    """The committed offset until then."""
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsCommitted:
    group: GroupId
    generation: int | None
    """None by a consumer with assign(), or by who is none."""
    member_id: MemberId | None
    """None without a generation."""
    client_id: str | None
    host: str
    partitions: tuple[CommittedPartition, ...] = field(repr=False)

    @property
    def by_member(self) -> bool:
        return self.generation is not None

    @property
    def count(self) -> int:
        return len(self.partitions)


class RemovedOffset(NamedTuple):
    topic: str
    partition: int
    before: int
    """The committed offset until then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsExpired:
    group: GroupId
    partitions: tuple[RemovedOffset, ...] = field(repr=False)

    @property
    def count(self) -> int:
        return len(self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsDeleted:
    """By OffsetDelete or DeleteGroups, or since their topic was deleted."""

    group: GroupId
    partitions: tuple[RemovedOffset, ...] = field(repr=False)

    @property
    def count(self) -> int:
        return len(self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDeleted:
    """By DeleteGroups, or by expiry."""

    group: GroupId


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsSkipped:
    """Loading met records of a type that this coordinator does not serve; it went on without them."""

    key_type: int
    count: int
    first_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLoaded:
    groups: int
    offsets: int


Event = (
    GroupRestored
    | RebalanceStarted
    | GenerationCompleted
    | AssignmentStored
    | RebalanceAborted
    | MemberAdded
    | MemberJoined
    | MemberSynced
    | MemberExpired
    | MemberLeft
    | StaticMemberReplaced
    | PendingMemberAdded
    | PendingMemberRemoved
    | RebalanceStuck
    | RebalanceMovedOn
    | OffsetsCommitted
    | OffsetsExpired
    | OffsetsDeleted
    | GroupDeleted
    | RecordsSkipped
    | PartitionLoaded
)

ROUTINE = (
    GenerationCompleted,
    GroupRestored,
    MemberAdded,
    MemberJoined,
    MemberSynced,
    PendingMemberAdded,
    PendingMemberRemoved,
    RebalanceStuck,
    RebalanceMovedOn,
    OffsetsCommitted,
)
"""What no log needs as it is: what healthy clients do all day, and what the watchdog says in its own words."""
