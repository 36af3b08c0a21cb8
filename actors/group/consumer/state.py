"""A consumer group: what its records say, what follows from them, and what only memory has.

Records are the state: a change is a record, which :meth:`ConsumerGroup.put` applies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from enum import Enum
from typing import TypeVar

from muster.actors.group.codec.consumer_records import (
    ConsumerKey,
    ConsumerRecord,
    ConsumerValue,
    CurrentAssignment,
    GroupEpoch,
    MemberMetadata,
    MemberState,
    PartitionMetadata,
    ResolvedRegex,
    Target,
    TargetEpoch,
    TopicIdPartition,
)
from muster.actors.group.types import GroupId, MemberId, Who
from muster.placement.client import Context

_K = TypeVar("_K")
_V = TypeVar("_V")

FIRST_EPOCH = 1
"""The epoch of a group without a record of it, and of its assignment."""
LEFT_FOR_A_WHILE = -2
"""The epoch of a static member that will return."""
NOT_RECONCILED = CurrentAssignment(epoch=0, previous_epoch=0, assigned={}, revoking={})
"""Assignment of a member without a record of it."""


class ConsumerGroupState(Enum):
    """Values are the names that ConsumerGroupDescribe and ListGroups show."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup:
    def __init__(self, group_id: GroupId) -> None:
        self.id = group_id
        self.members: dict[MemberId, MemberMetadata] = {}
        self.targets: dict[MemberId, Target] = {}
        self.current: dict[MemberId, CurrentAssignment] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self._epoch: GroupEpoch | None = None
        self._target_epoch: TargetEpoch | None = None
        self._partition_metadata: PartitionMetadata | None = None

        self.static_members: dict[str, MemberId] = {}
        self.holders: dict[TopicIdPartition, MemberId] = {}
        """Who has each partition, or still has to give it up."""
        self._named: Counter[str] = Counter()
        """How many members subscribe to a topic by its name."""
        self._regexes: Counter[str] = Counter()
        """How many members subscribe by a regular expression."""
        self._settled: Counter[int] = Counter()
        """How many members have all of the target assignment of an epoch, and nothing else."""
        self._classic: Counter[bool] = Counter()
        """How many members have the classic protocol, and how many have not."""
        self._protocols: Counter[str] = Counter()
        """How many members with the classic protocol offer an assignor."""
        self._subscribed: frozenset[str] | None = None

        self.contexts: dict[MemberId, Context] = {}
        """Where the latest request of a member came from; lost with the actor."""
        self.seen_topics = -1
        """The version of the topics that the epoch takes account of; -1 after loading."""
        self.creation_pending = False
        """The group is not in the log yet: reads do not show it."""
        self.unsettled_ms: int | None = None
        """Since when the group has not been Stable; None while it is, and without members."""
        self.stuck: ConsumerGroupState | None = None
        """The state in which the rebalance was reported as stuck."""

    def __eq__(self, other: object) -> bool:
        """Whether the records are equal."""
        return isinstance(other, ConsumerGroup) and self._records() == other._records()

    __hash__ = None  # type: ignore[assignment]

    def _records(self) -> tuple[object, ...]:
        singles = (self.id, self._epoch, self._target_epoch, self._partition_metadata)
        return (*singles, self.members, self.targets, self.current, self.regexes)

    @property
    def epoch(self) -> int:
        return self._epoch.epoch if self._epoch else FIRST_EPOCH

    @property
    def metadata_hash(self) -> int:
        return self._epoch.metadata_hash if self._epoch else 0

    @property
    def target_epoch(self) -> int:
        return self._target_epoch.epoch if self._target_epoch else FIRST_EPOCH

    @property
    def assigned_at_ms(self) -> int:
        """When the target assignment was computed; 0 if unknown."""
        return self._target_epoch.timestamp_ms if self._target_epoch else 0

    @property
    def has_records(self) -> bool:
        return any(self._records()[1:])

    @property
    def has_partition_metadata(self) -> bool:
        """Whether the log has the record that Kafka replaced by a hash."""
        return self._partition_metadata is not None

    def undone(self) -> None:
        """Forget what followed from records that were undone."""
        self.seen_topics = -1
        if self.is_settled():
            self.unsettled_ms = None

    def is_settled(self) -> bool:
        """Whether no member has to get to its target."""
        return self.state() in (ConsumerGroupState.STABLE, ConsumerGroupState.EMPTY)

    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if self._settled[self.target_epoch] == len(self.members):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def is_reconciled(self, member_id: MemberId) -> bool:
        """Whether the member has everything that the target assignment gives it, and nothing else."""
        current = self.assignment_of(member_id)
        return current.state is MemberState.STABLE and current.epoch == self.target_epoch

    def assignment_of(self, member_id: MemberId) -> CurrentAssignment:
        return self.current.get(member_id, NOT_RECONCILED)

    def target_of(self, member_id: MemberId) -> frozenset[TopicIdPartition]:
        target = self.targets.get(member_id)
        return target.partitions if target else frozenset()

    def topics_of(self, member_id: MemberId) -> frozenset[str]:
        """Return the topics that the member subscribes to by name or by its regular expression, existing or not."""
        member = self.members[member_id]
        resolved = self.regexes.get(member.regex or "")
        return frozenset(member.topics) | frozenset(resolved.topics if resolved else ())

    def subscribed_topics(self) -> frozenset[str]:
        """Return the topics that any member subscribes to."""
        if self._subscribed is None:
            resolved = (self.regexes[regex].topics for regex in self._regexes if regex in self.regexes)
            self._subscribed = frozenset(self._named).union(*resolved)
        return self._subscribed

    def wanted_regexes(self) -> Collection[str]:
        """Return the regular expressions that members have."""
        return self._regexes.keys()

    def is_classic_without(self, gone: Collection[MemberId]) -> bool:
        """Whether members are left without these, and all of them have the classic protocol."""
        left = self._classic - Counter(self.members[member_id].classic is not None for member_id in gone)
        return left[True] > 0 and not left[False]

    def supports(self, offered: Iterable[str], member_id: MemberId) -> bool:
        """Whether all members with the classic protocol but this one have one of the offered assignors in common."""
        own = self.members.get(member_id)
        classic = own.classic if own else None
        names = {name for name, _ in classic.protocols} if classic else set()
        others = self._classic[True] - (classic is not None)
        return any(self._protocols[name] - (name in names) == others for name in offered)

    def who(self, member_id: MemberId) -> Who:
        member, context = self.members[member_id], self.contexts.get(member_id)
        client_id = context.client_id if context else member.client_id
        host = context.host if context else member.client_host.removeprefix("/")
        return Who(member_id, client_id, host, member.instance_id)

    def get(self, key: ConsumerKey) -> ConsumerValue | None:
        member_id = MemberId(key.name)
        match key.kind:
            case ConsumerRecord.METADATA:
                return self._epoch
            case ConsumerRecord.PARTITION_METADATA:
                return self._partition_metadata
            case ConsumerRecord.TARGET_ASSIGNMENT_METADATA:
                return self._target_epoch
            case ConsumerRecord.MEMBER_METADATA:
                return self.members.get(member_id)
            case ConsumerRecord.TARGET_ASSIGNMENT_MEMBER:
                return self.targets.get(member_id)
            case ConsumerRecord.CURRENT_MEMBER_ASSIGNMENT:
                return self.current.get(member_id)
            case ConsumerRecord.REGULAR_EXPRESSION:
                return self.regexes.get(key.name)

    def put(self, key: ConsumerKey, value: object) -> None:
        """Apply a record; None for its tombstone. Raises TypeError if the value is not one of that key."""
        member_id = MemberId(key.name)
        match key.kind, value:
            case ConsumerRecord.METADATA, GroupEpoch() | None:
                self._epoch = value
            case ConsumerRecord.PARTITION_METADATA, PartitionMetadata() | None:
                self._partition_metadata = value
            case ConsumerRecord.TARGET_ASSIGNMENT_METADATA, TargetEpoch() | None:
                self._target_epoch = value
            case ConsumerRecord.MEMBER_METADATA, MemberMetadata() | None:
                self._put_member(member_id, value)
            case ConsumerRecord.TARGET_ASSIGNMENT_MEMBER, Target() | None:
                _put(self.targets, member_id, value)
            case ConsumerRecord.CURRENT_MEMBER_ASSIGNMENT, CurrentAssignment() | None:
                self._put_current(member_id, value)
            case ConsumerRecord.REGULAR_EXPRESSION, ResolvedRegex() | None:
                _put(self.regexes, key.name, value)
                self._subscribed = None
            case _:
                raise TypeError(f"{value!r} is no value of {key!r}")

    def _put_member(self, member_id: MemberId, value: MemberMetadata | None) -> None:
        before = self.members.get(member_id)
        if before is not None:
            self._count(member_id, before, -1)
            if before.instance_id is not None and self.static_members.get(before.instance_id) == member_id:
                del self.static_members[before.instance_id]
        _put(self.members, member_id, value)
        if value is None:
            self.contexts.pop(member_id, None)
        else:
            self._count(member_id, value, 1)
            if value.instance_id is not None:
                self.static_members[value.instance_id] = member_id
        self._subscribed = None

    def _count(self, member_id: MemberId, member: MemberMetadata, change: int) -> None:
        """Add the member to what is counted, or take it away, with -1."""
        for topic in {*member.topics}:
            _change(self._named, topic, change)
        if member.regex:
            _change(self._regexes, member.regex, change)
        _change(self._classic, member.classic is not None, change)
        if member.classic is not None:
            for name in {name for name, _ in member.classic.protocols}:
                _change(self._protocols, name, change)
        self._count_settled(member_id, change)

    def _count_settled(self, member_id: MemberId, change: int) -> None:
        current = self.assignment_of(member_id)
        if current.state is MemberState.STABLE:
            _change(self._settled, current.epoch, change)

    def _put_current(self, member_id: MemberId, value: CurrentAssignment | None) -> None:
        before = self.assignment_of(member_id)
        if member_id in self.members:
            self._count_settled(member_id, -1)
        for partition in (*before.assigned, *before.revoking):
            if self.holders.get(partition) == member_id:
                del self.holders[partition]
        _put(self.current, member_id, value)
        if value is not None:
            self.holders |= dict.fromkeys((*value.assigned, *value.revoking), member_id)
        if member_id in self.members:
            self._count_settled(member_id, 1)


def _change(counts: Counter[_K], key: _K, change: int) -> None:
    """Count, without keys that no member has."""
    counts[key] += change
    if not counts[key]:
        del counts[key]


def _put(known: dict[_K, _V], key: _K, value: _V | None) -> None:
    if value is None:
        known.pop(key, None)
    else:
        known[key] = value
