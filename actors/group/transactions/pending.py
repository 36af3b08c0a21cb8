"""Offsets committed in transactions that no marker has ended yet: the part of the hard state that is not visible.

A transaction's offsets are held per producer id. COMMIT makes each of them the committed offset, unless a record that
comes later in the log has already done so; ABORT drops them. Epochs are not compared here: the log has refused the
records and markers of old ones. As Kafka's OffsetMetadataManager (KIP-98, KIP-447).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from muster.actors.group.codec.records import CommittedOffset, OffsetKey
from muster.actors.group.types import GroupId

_TopicPartition = tuple[str, int]


class PendingOffset(NamedTuple):
    producer_id: int
    value: CommittedOffset
    superseded: bool = False
    """A later record has set the committed offset: COMMIT will not."""


Pending = tuple[PendingOffset, ...]
"""Pending offsets of one partition, at most one of each producer, in the order of their records in the log."""


class PendingPrior(NamedTuple):
    """Pending offsets of a partition before a change."""

    key: OffsetKey
    before: Pending


class PendingOffsets:
    """Pending offsets of all groups. Every method that changes them returns what undoes it, in order."""

    def __init__(self) -> None:
        self._groups: dict[GroupId, dict[_TopicPartition, Pending]] = {}
        self._producers: dict[int, dict[OffsetKey, None]] = {}
        """Which offsets a producer has pending."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PendingOffsets) and self._groups == other._groups

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return bool(self._groups)

    def groups(self) -> Collection[GroupId]:
        """Return the groups with pending offsets."""
        return self._groups.keys()

    def of_group(self, group: GroupId) -> Mapping[_TopicPartition, Pending]:
        """Pending offsets of a group by partition; empty without any."""
        return self._groups.get(group, {})

    def of(self, key: OffsetKey) -> Pending:
        """Pending offsets of a partition."""
        return self.of_group(key.group).get((key.topic, key.partition), ())

    def keys_of(self, producer_id: int) -> list[OffsetKey]:
        """Return the partitions for which that producer has a pending offset."""
        return [*self._producers.get(producer_id, ())]

    def add(self, producer_id: int, key: OffsetKey, value: CommittedOffset) -> PendingPrior:
        """Add a record in a transaction of that producer. It replaces an earlier one of the same producer."""
        before = self.of(key)
        others = [each for each in before if each.producer_id != producer_id]
        return self._put(key, (*others, PendingOffset(producer_id, value)))

    def committed(self, key: OffsetKey) -> list[PendingPrior]:
        """Mark pending offsets as superseded: a record outside transactions has set the committed offset."""
        before = self.of(key)
        if all(each.superseded for each in before):
            return []
        return [self._put(key, _superseded(before))]

    def removed(self, key: OffsetKey) -> list[PendingPrior]:
        """Remove the pending offsets of every producer: a tombstone was written."""
        return [self._put(key, ())] if self.of(key) else []

    def take(self, producer_id: int, key: OffsetKey, *, commit: bool) -> tuple[CommittedOffset | None, PendingPrior]:
        """End the producer's transaction by a marker. Returns the offset that is now committed, None for none.

        ``key`` must be one of ``keys_of(producer_id)``.
        """
        before = self.of(key)
        place = next(place for place, each in enumerate(before) if each.producer_id == producer_id)
        earlier, own, later = before[:place], before[place], before[place + 1 :]
        takes_effect = commit and not own.superseded
        prior = self._put(key, (*(_superseded(earlier) if takes_effect else earlier), *later))
        return own.value if takes_effect else None, prior

    def undo(self, prior: PendingPrior) -> None:
        """Undo a change; several in reverse order."""
        self._put(prior.key, prior.before)

    def _put(self, key: OffsetKey, pending: Pending) -> PendingPrior:
        group, partition = key.group, (key.topic, key.partition)
        before = self.of(key)
        for each in before:
            own = self._producers[each.producer_id]
            del own[key]
            if not own:
                del self._producers[each.producer_id]
        for each in pending:
            self._producers.setdefault(each.producer_id, {})[key] = None
        if pending:
            self._groups.setdefault(group, {})[partition] = pending
        elif before:
            del self._groups[group][partition]
            if not self._groups[group]:
                del self._groups[group]
        return PendingPrior(key, before)


def _superseded(pending: Pending) -> Pending:
    return tuple([each._replace(superseded=True) for each in pending])
