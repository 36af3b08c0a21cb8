"""The state that the modules of one coordinator share, and the effects of the current step.

A step begins with :meth:`Shard.begin` and ends with :meth:`Shard.finish`. In between, the modules reply, append
records, hold replies until the log has those records, and create updates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from muster.actors.group.codec.consumer_records import (
    ConsumerKey,
    ConsumerRecord,
    ConsumerValue,
    consumer_record,
)
from muster.actors.group.codec.records import (
    CommittedOffset,
    GroupKey,
    GroupMetadata,
    OffsetKey,
    group_record,
    offset_record,
    offset_records,
)
from muster.actors.group.config import GroupConfig
from muster.actors.group.consumer.state import ConsumerGroup
from muster.actors.group.consumer.topics import Topics
from muster.actors.group.errors import ApiError, translate
from muster.actors.group.events import Event, RemovedOffset
from muster.actors.group.hard import AnyPrior, HardState, OffsetPriors, TopicPartition
from muster.actors.group.messages import OffsetFetch, Request, Response, failed
from muster.actors.group.registry import Registry
from muster.actors.group.state import Group, Member
from muster.actors.group.timers import TimerKind, TimerName, Timers
from muster.actors.group.transactions.pending import PendingPrior
from muster.actors.group.types import GroupId, MemberId, Outcome, Producer, Record, Token, TxnMarker, WriteId, maker
from muster.placement.mapping.registration import RegistrationUpdate


class Held(NamedTuple):
    """A reply that is sent when everything appended so far is durable."""

    token: Token
    request: Request
    response: Response


new_held = maker(Held)


class Committer(NamedTuple):
    """Who sent a commit, for :class:`muster.actors.group.events.OffsetsCommitted`."""

    generation: int | None
    member_id: MemberId | None
    client_id: str | None
    host: str


class Follow(NamedTuple):
    """Work after the write: when it is durable, or has failed (with the log's error)."""

    written: Callable[[], None]
    failed: Callable[[ErrorCode], None]


@dataclass(slots=True)
class Write:
    """An append that the log has not confirmed."""

    id: WriteId
    records: list[Record] = field(default_factory=list)
    producer: Producer | None = None
    marker: TxnMarker | None = None
    priors: list[AnyPrior] = field(default_factory=list)
    offsets_of: set[GroupId] = field(default_factory=set)
    """The groups of which it changes offsets."""
    groups: set[GroupId] = field(default_factory=set)
    """The groups whose metadata it changes."""
    held: list[Held] = field(default_factory=list)
    follows: list[Follow] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    """Reported once it is durable, after the follow-ups."""


class Shard:
    def __init__(self, *, partition: int, epoch: int, config: GroupConfig, new_id: Callable[[], str]) -> None:
        self.config = config
        self.new_id = new_id
        self.hard = HardState()
        self.groups: dict[GroupId, Group] = {}
        """Classic groups, and those that only store offsets. No group is also a consumer group."""
        self.topics = Topics()
        self.timers: Timers[TimerName] = Timers()
        self.registry = Registry(partition, epoch)
        self.committers: dict[int, dict[GroupId, Committer]] = {}
        """Who has committed the pending offsets of a producer (by its id) and a group, if this is known."""
        self.now_ms = 0
        self._writes: dict[WriteId, Write] = {}
        self._last_write = 0
        self._open = Write(WriteId(0))
        self._replies: list[tuple[Token, Response]] = []
        self._updates: list[RegistrationUpdate] = []
        self._events: list[Event] = []
        self._revoked: list[GroupId] = []
        self._leases: list[tuple[Token, GroupId, MemberId]] = []

    def begin(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def finish(self) -> Outcome:
        """Return the outcome of the step.

        Without records, held replies join the latest write, or are sent without one.
        """
        step, self._open = self._open, Write(WriteId(0))
        write = None
        if step.records or step.marker is not None:
            self._last_write += 1
            write = step.id = WriteId(self._last_write)
            self._writes[write] = step
        elif self._writes:
            latest = next(reversed(self._writes.values()))
            latest.held += step.held
        elif step.held:
            self._replies += [(held.token, held.response) for held in step.held]
        outcome = Outcome(
            tuple(self._replies),
            tuple(step.records),
            write,
            step.producer,
            step.marker,
            tuple(self._updates),
            tuple(self._events),
            tuple(self._revoked),
            tuple(self._leases),
        )
        self._replies, self._updates, self._events = [], [], []
        self._revoked, self._leases = [], []
        return outcome

    def abandon(self) -> None:
        """Drop a step that has raised: nothing of it is written, and no later step may write it."""
        step, self._open = self._open, Write(WriteId(0))
        self._undo(step.priors, step.groups)
        self._replies, self._updates, self._events = [], [], []
        self._revoked, self._leases = [], []

    @property
    def writes(self) -> bool:
        """Whether the step has records so far."""
        return bool(self._open.records)

    def reply(self, token: Token, response: Response) -> None:
        self._replies.append((token, response))

    def reply_when_durable(self, token: Token, request: Request, response: Response) -> None:
        """Hold the reply until this step's records and all earlier ones are durable."""
        self._open.held.append(new_held((token, request, response)))

    def append_group(self, group: Group, value: GroupMetadata | None) -> None:
        """Write the group's record (None: its tombstone) and apply it immediately."""
        key = GroupKey(group.id)
        self._open.records.append(group_record(key, value))
        self._open.priors.append((key, self.hard.put(key, value)))
        self._open.groups.add(group.id)

    def consumer_group(self, group_id: GroupId) -> ConsumerGroup | None:
        return self.hard.consumer_groups.get(group_id)

    def append_consumer(
        self, group_id: GroupId, kind: ConsumerRecord, value: ConsumerValue | None, name: str = ""
    ) -> None:
        """Write a record of a consumer group (None: its tombstone) and apply it immediately."""
        key = ConsumerKey(kind, group_id, name)
        self._open.records.append(consumer_record(key, value))
        self._open.priors.append((key, self.hard.put(key, value)))
        self._open.groups.add(group_id)

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """If it raises ApiError, undo the records and events inside. Other effects must come afterwards."""
        step = self._open
        records, priors, follows = len(step.records), len(step.priors), len(step.follows)
        groups, events, late_events = {*step.groups}, len(self._events), len(step.events)
        try:
            yield
        except ApiError:
            self._undo(step.priors[priors:], step.groups)
            del step.records[records:], step.priors[priors:], step.follows[follows:], step.events[late_events:]
            del self._events[events:]
            self._open.groups = groups
            raise

    def append_offsets(
        self, group: GroupId, topic: str, indexes: Sequence[int], offsets: Sequence[CommittedOffset]
    ) -> list[CommittedOffset | None]:
        """Write offsets of these partitions of one topic and apply them immediately. Returns the previous ones."""
        if not offsets:
            return []
        self._open.records += offset_records(group, topic, indexes, offsets)
        if self.hard.pending:
            for index in indexes:
                self._open.priors += self.hard.supersede(OffsetKey(group, topic, index), removed=False)
        priors = self.hard.put_offsets(group, topic, indexes, offsets)
        self._open.priors.append(priors)
        self._open.offsets_of.add(group)
        return priors.before

    def append_offset_tombstones(
        self, group: GroupId, partitions: Iterable[TopicPartition]
    ) -> tuple[RemovedOffset, ...]:
        """Write tombstones for those of the partitions that have an offset, committed or pending.

        Returns the committed offsets that are removed.
        """
        offsets, pending = self.hard.offsets(group), self.hard.pending.of_group(group)
        found = [each for each in dict.fromkeys(partitions) if each in offsets or each in pending]
        removed = tuple([RemovedOffset(*each, offsets[each].offset) for each in found if each in offsets])
        for topic, partition in found:
            key = OffsetKey(group, topic, partition)
            self._open.records.append(offset_record(key, None))
            self._open.priors += self.hard.supersede(key, removed=True)
            self._open.priors.append((key, self.hard.put(key, None)))
        self._open.offsets_of.add(group)
        return removed

    def append_pending(
        self, producer: Producer, group: GroupId, topic: str, indexes: Sequence[int], offsets: Sequence[CommittedOffset]
    ) -> None:
        """Write offsets in the producer's transaction. They take effect with its marker. Nothing else in this step."""
        self._open.producer = producer
        self._open.records += offset_records(group, topic, indexes, offsets)
        for index, offset in zip(indexes, offsets, strict=True):
            key = OffsetKey(group, topic, index)
            self._open.priors.append(self.hard.pending.add(producer.producer_id, key, offset))

    def append_marker(self, marker: TxnMarker) -> list[tuple[OffsetKey, CommittedOffset | None, CommittedOffset]]:
        """Write the marker, and apply it immediately. Nothing else in this step.

        Returns the offsets that are now committed: key, the committed offset until then, and now.
        """
        ended = self.hard.end_transaction(marker.producer.producer_id, commit=marker.commit)
        self._open.marker = marker
        self._open.priors += ended.priors
        self._open.offsets_of |= {key.group for key, _, _ in ended.committed}
        return ended.committed

    def follow(self, written: Callable[[], None], failed: Callable[[ErrorCode], None]) -> None:
        """Call one of these when this step's records (at least one) are durable, or could not be written."""
        self._open.follows.append(Follow(written, failed))

    def is_durable(self, group: GroupId) -> bool:
        """Whether the log has the group's metadata as it is now."""
        return group not in self._open.groups and not any(group in write.groups for write in self._writes.values())

    def grant(self, token: Token, group: GroupId, member: MemberId) -> None:
        """Send the reply to ``token`` with a lease."""
        self._leases.append((token, group, member))

    def revoke(self, group: GroupId) -> None:
        """End the group's leases."""
        self._revoked.append(group)

    def say(self, update: RegistrationUpdate | None) -> None:
        """Send an update; None means that nothing changed."""
        if update is not None:
            self._updates.append(update)

    def report(self, event: Event) -> None:
        self._events.append(event)

    def report_when_durable(self, event: Event) -> None:
        """Report it when this step's records (at least one) are durable."""
        self._open.events.append(event)

    def written(self, write: WriteId) -> None:
        """Complete that write and all earlier ones: they are durable. Unknown ids are ignored."""
        for known in [*self._writes]:
            if known > write:
                break
            settled = self._writes.pop(known)
            for follow in settled.follows:
                follow.written()
            self._events += settled.events
            self._replies += [(held.token, held.response) for held in settled.held]

    def write_failed(self, write: WriteId, error: ErrorCode) -> list[GroupId]:
        """Undo that write and all later ones, which were decided on top of it.

        Returns the groups whose metadata they had changed.
        """
        if write not in self._writes:
            return []
        lost = self._take(known for known in self._writes if known >= write)
        for settled in reversed(lost):
            self._undo(settled.priors, settled.groups)
        for settled in lost:
            for follow in settled.follows:
                follow.failed(error)
            self._fail_held(settled, error)
        return sorted({group_id for settled in lost for group_id in settled.groups})

    def fail_all_held(self, error: ErrorCode) -> None:
        """Answer all requests that wait for the log. Follow-ups of the writes are dropped."""
        for write in self._writes.values():
            self._fail_held(write, error)
            write.held, write.follows = [], []

    def committed_offsets(self, group: GroupId) -> dict[TopicPartition, CommittedOffset]:
        """Return the group's offsets in the durable part of the log."""
        offsets = self.hard.offsets(group)
        if not any(group in write.offsets_of for write in self._writes.values()):
            return offsets
        durable: dict[TopicPartition, CommittedOffset | None] = dict(offsets)
        for write in reversed(self._writes.values()):
            for prior in reversed(write.priors):
                if isinstance(prior, PendingPrior):
                    continue
                if isinstance(prior, OffsetPriors):
                    if prior.group == group:
                        durable.update(zip(prior.partitions, prior.before, strict=True))
                elif isinstance(key := prior[0], OffsetKey) and key.group == group:
                    durable[key.topic, key.partition] = prior[1] if isinstance(prior[1], CommittedOffset) else None
        return {partition: offset for partition, offset in durable.items() if offset is not None}

    def arm_session(self, group: Group, member: Member) -> None:
        """Give the member a full session timeout from now."""
        group.awaited.discard(member.id)
        self.timers.set(session_timer(group, member), self.now_ms + member.session_timeout_ms)

    def _undo(self, priors: Sequence[AnyPrior], groups: Iterable[GroupId]) -> None:
        """Undo changes of the state, which may be of the metadata of these groups."""
        self.hard.undo(reversed(priors))
        for group_id in groups:
            group = self.consumer_group(group_id)
            if group is not None:
                group.undone()

    def _take(self, wanted: Iterable[WriteId]) -> list[Write]:
        return [self._writes.pop(write) for write in [*wanted]]

    def _fail_held(self, settled: Write, error: ErrorCode) -> None:
        for held in settled.held:
            self.reply(held.token, failed(held.request, _translate_for(held.request, error)))


def session_timer(group: Group, member: Member) -> TimerName:
    return TimerName(TimerKind.SESSION, group.id, member.id)


def join_timer(group: Group) -> TimerName:
    return TimerName(TimerKind.JOIN, group.id)


def sync_timer(group: Group) -> TimerName:
    return TimerName(TimerKind.SYNC, group.id)


def stuck_timer(group: Group | ConsumerGroup) -> TimerName:
    return TimerName(TimerKind.STUCK, group.id)


def pending_timer(group: Group, member_id: str) -> TimerName:
    return TimerName(TimerKind.PENDING, group.id, member_id)


def _translate_for(request: Request, error: ErrorCode) -> ErrorCode:
    """Like ``translate``; a stable OffsetFetch gets NOT_COORDINATOR where others get COORDINATOR_NOT_AVAILABLE."""
    translated = translate(error)
    if isinstance(request, OffsetFetch) and translated is ErrorCode.coordinator_not_available:
        return ErrorCode.not_coordinator
    return translated
