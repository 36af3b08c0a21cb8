"""What operators want to know of the groups of a partition: for metrics and the journal."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from actors.group.types import GroupId, MemberId


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceStarted:
    group: GroupId
    cause: Cause
    member_id: MemberId
    """Who caused it; "" where that was no single member."""
    client_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationCompleted:
    """The join phase ended: with members the assignment is awaited, without the group is Empty."""

    group: GroupId
    generation: int
    members: int
    duration_ms: int
    """Since the rebalance was started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentStored:
    """The leader's assignment is in the log, the group Stable."""

    group: GroupId
    generation: int
    members: int
    duration_ms: int
    """Since the join phase ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberExpired:
    group: GroupId
    member_id: MemberId
    client_id: str | None
    cause: Removal


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberLeft:
    group: GroupId
    member_id: MemberId
    client_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticMemberReplaced:
    group: GroupId
    group_instance_id: str
    old_member_id: MemberId
    new_member_id: MemberId


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsCommitted:
    group: GroupId
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsExpired:
    group: GroupId
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsDeleted:
    """By OffsetDelete, or since their topic was deleted."""

    group: GroupId
    count: int


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
    RebalanceStarted
    | GenerationCompleted
    | AssignmentStored
    | MemberExpired
    | MemberLeft
    | StaticMemberReplaced
    | OffsetsCommitted
    | OffsetsExpired
    | OffsetsDeleted
    | GroupDeleted
    | RecordsSkipped
    | PartitionLoaded
)
