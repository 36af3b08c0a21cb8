"""Hard state: the content of the log.

While loading, :meth:`HardState.replay` reads it from records. While serving, each value is stored when its record is
written; tests check that reading the record back gives the same state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from sys import intern
from typing import NamedTuple

from muster.actors.group.codec.consumer_records import ConsumerKey
from muster.actors.group.codec.records import (
    CommittedOffset,
    GroupKey,
    GroupMetadata,
    OffsetKey,
    RecordKey,
    UnknownKey,
    Value,
    decode_key,
    decode_value,
)
from muster.actors.group.consumer.state import ConsumerGroup
from muster.actors.group.transactions.pending import PendingOffsets, PendingPrior
from muster.actors.group.types import GroupId, Record

TopicPartition = tuple[str, int]
Prior = tuple[RecordKey, Value | None]


class OffsetPriors(NamedTuple):
    """The previous values of offsets of one group that were put together."""

    group: GroupId
    partitions: list[TopicPartition]
    before: list[CommittedOffset | None]


AnyPrior = Prior | OffsetPriors | PendingPrior


class EndedTransaction(NamedTuple):
    priors: list[AnyPrior]
    committed: list[tuple[OffsetKey, CommittedOffset | None, CommittedOffset]]
    """Offsets that the marker has committed: key, the committed offset until then, and now."""


class HardState:
    """The last value of every key in the partition's log."""

    def __init__(self) -> None:
        self.groups: dict[GroupId, GroupMetadata] = {}
        self.consumer_groups: dict[GroupId, ConsumerGroup] = {}
        """Groups with at least one record of a consumer group."""
        self._offsets: dict[GroupId, dict[TopicPartition, CommittedOffset]] = {}
        self.pending = PendingOffsets()
        """Offsets of transactions that have not ended."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HardState):
            return NotImplemented
        return (
            self.groups == other.groups
            and self._offsets == other._offsets
            and self.pending == other.pending
            and self.consumer_groups == other.consumer_groups
        )

    __hash__ = None  # type: ignore[assignment]

    def replay(self, record: Record, producer_id: int | None = None) -> RecordKey | UnknownKey:
        """Apply a record, if ``producer_id`` is given one in a transaction.

        Raises CorruptRecord if it is unreadable.
        """
        key = decode_key(record.key)
        if isinstance(key, UnknownKey):
            return key
        value = None if record.value is None else decode_value(key, record.value)
        if producer_id is not None and isinstance(value, CommittedOffset) and isinstance(key, OffsetKey):
            self.pending.add(producer_id, key, value)
            return key
        if isinstance(key, OffsetKey):
            self.supersede(key, removed=value is None)
        self.put(key, value)
        return key

    def put(self, key: RecordKey, value: Value | None) -> Value | None:
        """Apply a record by what it says. Returns the key's previous value."""
        prior = self.get(key)
        self._put(key, value)
        return prior

    def put_offsets(
        self, group: GroupId, topic: str, indexes: Sequence[int], values: Sequence[CommittedOffset]
    ) -> OffsetPriors:
        """Put offsets of these partitions, at least one and all different, of one topic. Returns the previous ones."""
        known = self._offsets.setdefault(group, {})
        partitions = [*zip(repeat(intern(topic)), indexes)]
        priors = OffsetPriors(group, partitions, [*map(known.get, partitions)])
        known.update(zip(partitions, values, strict=True))
        return priors

    def supersede(self, key: OffsetKey, *, removed: bool) -> list[PendingPrior]:
        """Set or remove an offset by a record outside transactions. Returns what it changed of the pending."""
        return self.pending.removed(key) if removed else self.pending.committed(key)

    def end_transaction(self, producer_id: int, *, commit: bool) -> EndedTransaction:
        """Apply a marker. One of a producer without pending offsets changes nothing."""
        ended = EndedTransaction([], [])
        for key in self.pending.keys_of(producer_id):
            value, prior = self.pending.take(producer_id, key, commit=commit)
            ended.priors.append(prior)
            if value is not None:
                before = self.put(key, value)
                ended.priors.append((key, before))
                assert before is None or isinstance(before, CommittedOffset)
                ended.committed.append((key, before, value))
        return ended

    def undo(self, priors: Iterable[AnyPrior]) -> None:
        """Undo changes, latest first."""
        for prior in priors:
            if isinstance(prior, PendingPrior):
                self.pending.undo(prior)
            elif isinstance(prior, OffsetPriors):
                for (topic, partition), before in zip(prior.partitions, prior.before, strict=True):
                    self._put(OffsetKey(prior.group, topic, partition), before)
            else:
                self._put(*prior)

    def get(self, key: RecordKey) -> Value | None:
        if isinstance(key, GroupKey):
            return self.groups.get(key.group)
        if isinstance(key, ConsumerKey):
            group = self.consumer_groups.get(key.group)
            return group.get(key) if group else None
        return self._offsets.get(key.group, {}).get((key.topic, key.partition))

    def offsets(self, group: GroupId) -> dict[TopicPartition, CommittedOffset]:
        """Return the committed offsets of a group, read only; empty without any."""
        return self._offsets.get(group, {})

    def partitions(self, group: GroupId) -> list[TopicPartition]:
        """Return the partitions for which the group has an offset, committed or pending."""
        return [*dict.fromkeys([*self.offsets(group), *self.pending.of_group(group)])]

    def has_offsets(self, group: GroupId) -> bool:
        """Whether the group has any offset, committed or pending."""
        return bool(self.offsets(group) or self.pending.of_group(group))

    def offset_count(self) -> int:
        return sum(len(offsets) for offsets in self._offsets.values())

    def known_groups(self) -> Iterator[GroupId]:
        """Yield groups with a record or with offsets, even only pending ones, once, in order of their first record."""
        yield from dict.fromkeys([*self.groups, *self.consumer_groups, *self._offsets, *self.pending.groups()])

    def _put(self, key: RecordKey, value: Value | None) -> None:
        if isinstance(key, ConsumerKey):
            self._put_consumer(key, value)
            return
        match key, value:
            case GroupKey(), GroupMetadata():
                self.groups[key.group] = value
            case GroupKey(), None:
                self.groups.pop(key.group, None)
            case OffsetKey(), CommittedOffset():
                self._offsets.setdefault(key.group, {})[key.topic, key.partition] = value
            case OffsetKey(), None:
                self._remove_offset(key)
            case _:
                raise TypeError(f"{value!r} is no value of {key!r}")

    def _put_consumer(self, key: ConsumerKey, value: Value | None) -> None:
        group = self.consumer_groups.get(key.group)
        if group is None:
            if value is None:
                return
            group = self.consumer_groups[key.group] = ConsumerGroup(key.group)
        group.put(key, value)
        if value is None and not group.has_records:
            del self.consumer_groups[key.group]

    def _remove_offset(self, key: OffsetKey) -> None:
        offsets = self._offsets.get(key.group)
        if offsets is not None:
            offsets.pop((key.topic, key.partition), None)
            if not offsets:
                del self._offsets[key.group]
