"""Events in the groups of a partition, for operators: they feed metrics, the journal and the log.

Events come in the order in which they happened, each with the time of its step. The effects of a JoinGroup or
SyncGroup on its member come before those on the group; removed and added members come before the rebalance that this
starts, in the same step. Heartbeats cause no events.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from muster.actors.group.consumer.state import ConsumerGroupState
from muster.actors.group.state import GroupState
from muster.actors.group.types import GroupId, MemberId, Who


class Cause(StrEnum):
    """Why a rebalance was started, or the epoch of a consumer group raised."""

    MEMBER_JOINED = "member joined"
    LEADER_REJOINED = "leader rejoined"
    PROTOCOLS_CHANGED = "member rejoined with other protocols"
    STATIC_MEMBER_REPLACED = "static member replaced"
    MEMBER_LEFT = "member left"
    SESSION_EXPIRED = "session expired"
    SYNC_TIMEOUT = "members did not sync in time"
    ASSIGNMENT_NOT_WRITTEN = "assignment could not be written"
    TOO_MANY_MEMBERS = "group above group.max.size"
    SUBSCRIPTION_CHANGED = "member changed its subscription"
    ASSIGNOR_CHANGED = "most members want another assignor"
    REGEX_RESOLVED = "topics of a regular expression changed"
    TOPICS_CHANGED = "subscribed topics changed"
    MEMBER_FENCED = "member fenced"


class Removal(StrEnum):
    """Why a member was removed without its request."""

    SESSION_EXPIRED = "session expired"
    JOIN_EXPIRED = "new member waited too long"
    REBALANCE_TIMEOUT = "did not rejoin in time"
    SYNC_TIMEOUT = "did not sync in time"
    GROUP_FULL = "group above group.max.size"


class PendingEnd(StrEnum):
    """Why a handed-out member id is no longer awaited."""

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
    """The group is PreparingRebalance. This ends any earlier rebalance of the group that was not over."""

    group: GroupId
    cause: Cause
    member_id: MemberId
    """The member that caused it; "" if no single member did."""
    client_id: str | None
    host: str
    group_instance_id: str | None
    reason: str | None
    """The reason that the member sent: JoinGroup v8, LeaveGroup v5 (KIP-800)."""
    from_state: GroupState
    """After Empty, the group first waits for ``group.initial.rebalance.delay.ms``."""
    generation: int
    """The last one."""
    members: tuple[Who, ...] = field(repr=False)
    """The current members: without those that left, with those that were added."""
    joined: frozenset[MemberId] = field(repr=False)
    """The members whose JoinGroup has already arrived."""
    pending: tuple[Who, ...] = field(repr=False)
    """Handed-out ids that are awaited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationCompleted:
    """The join phase ended. With members the assignment is awaited; without members the group is Empty."""

    group: GroupId
    generation: int
    members: int
    duration_ms: int
    """Since the rebalance started."""
    protocol_type: str | None
    protocol: str | None
    """None if the group is Empty."""
    leader: MemberId | None
    subscriptions: tuple[tuple[Who, bytes], ...] = field(repr=False)
    """Each member's metadata for the protocol, from its last JoinGroup."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentStored:
    """The leader's assignment is in the log, the group Stable. Members that have sent SyncGroup are answered."""

    group: GroupId
    generation: int
    members: int
    duration_ms: int
    """Since the join phase ended."""
    assignments: tuple[tuple[MemberId, bytes], ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceAborted:
    """The coordinator resigned during the rebalance, or the new group could not be written."""

    group: GroupId


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberAdded:
    """A new member, with its first JoinGroup (or its second, with the id that was handed out) or first heartbeat."""

    group: GroupId
    member: Who


class MemberJoined(NamedTuple):
    """A JoinGroup of a new or known member was accepted; it may be answered immediately."""

    group: GroupId
    member_id: MemberId


class MemberSynced(NamedTuple):
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
    """Client id of the new member; ``host`` is its, too."""
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
    """A phase of a rebalance takes longer than ``rebalance.stuck.ms``. Once per phase."""

    group: GroupId
    state: GroupState | ConsumerGroupState
    generation: int
    """In PreparingRebalance the last one, in CompletingRebalance the one that waits for its assignment.

    The epoch of a consumer group.
    """
    duration_ms: int
    members: tuple[Who, ...] = field(repr=False)
    """The members whose JoinGroup or SyncGroup is awaited; in CompletingRebalance the leader first, if awaited.

    Of a consumer group, those that do not have their target yet; first those that have to give up partitions.
    """
    leader: MemberId | None
    pending: tuple[Who, ...] = field(repr=False)
    """Handed-out ids that are awaited, in PreparingRebalance."""
    deadline_ms: int | None
    """When the phase ends on its own, ms since the Unix epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceMovedOn:
    """A phase that was reported as stuck is over."""

    group: GroupId
    state: GroupState | ConsumerGroupState
    """The state that the phase was in when it was reported."""
    duration_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEpochRaised:
    """A consumer group needs another assignment."""

    group: GroupId
    epoch: int
    cause: Cause
    triggered_by: Who | None
    """The member that caused it; None if none did, or it has gone."""
    from_state: str
    """Before, as ConsumerGroupDescribe shows it."""
    members: int
    """How many there are now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAssigned:
    """The coordinator has computed the target assignment of a consumer group."""

    group: GroupId
    epoch: int
    assignor: str
    targets: tuple[tuple[Who, frozenset[tuple[str, int]]], ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberReconciled:
    """A member of a consumer group has come closer to its target assignment; this is in the log."""

    group: GroupId
    member_id: MemberId
    epoch: int
    partitions: frozenset[tuple[str, int]] = field(repr=False)
    """Partitions that the member may use now."""
    is_reconciled: bool
    """Whether that is its target."""
    is_last: bool
    """Whether all members have their targets now: the group is Stable."""
    members: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupRestored:
    """Loading found a consumer group with members."""

    group: GroupId
    epoch: int
    assignments: tuple[tuple[Who, frozenset[tuple[str, int]]], ...] = field(repr=False)


class GroupType(StrEnum):
    """Values are the names that ListGroups shows."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConverted:
    """The group has another protocol now, with the same offsets."""

    group: GroupId
    to: GroupType
    assignments: tuple[tuple[Who, frozenset[tuple[str, int]]], ...] = field(repr=False)
    """Partitions of the members that the group has kept."""


CommittedPartition = tuple[str, int, int | None, int]
"""Topic, partition, the committed offset until then, and now. A plain tuple: there is one for each partition."""


class OffsetsCommitted(NamedTuple):
    """Offsets of a group are in the log. A named tuple, since most events are commits."""

    group: GroupId
    generation: int | None
    """None for a consumer with assign(), or a client that is not a consumer."""
    member_id: MemberId | None
    """None without a generation."""
    client_id: str | None
    host: str
    partitions: tuple[CommittedPartition, ...]


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
    """By OffsetDelete or DeleteGroups, or because their topic was deleted."""

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
    """Loading found records of a type that this coordinator does not serve, and skipped them."""

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
    | GroupEpochRaised
    | TargetAssigned
    | MemberReconciled
    | ConsumerGroupRestored
    | GroupConverted
)

ROUTINE = (
    ConsumerGroupRestored,
    GenerationCompleted,
    GroupRestored,
    MemberAdded,
    MemberJoined,
    MemberReconciled,
    MemberSynced,
    PendingMemberAdded,
    PendingMemberRemoved,
    RebalanceStuck,
    RebalanceMovedOn,
    OffsetsCommitted,
    TargetAssigned,
)
"""Events that no log needs as they are: the routine of healthy clients, and what the watchdog logs in its own words."""
