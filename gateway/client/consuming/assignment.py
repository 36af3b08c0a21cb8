"""The partitions that a member has, and the offsets that it may commit. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

TopicPartition = tuple[str, int]
"""Topic and partition."""


class Assignment:
    """A partition may be lost and come back while its records are handled: then they are another member's, or anew."""

    def __init__(self) -> None:
        self._owned: dict[TopicPartition, int] = {}
        self._count = 0
        self._handled: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """Partitions of the member, in order."""
        return tuple(sorted(self._owned))

    def number_of(self, partition: TopicPartition) -> int | None:
        """Return the number of the assignment that has the partition; None if the member does not have it."""
        return self._owned.get(partition)

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Note partitions that were assigned."""
        self._count += 1
        self._owned |= dict.fromkeys(partitions, self._count)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget partitions that were revoked or lost, with what was not committed of them."""
        for each in partitions:
            for known in (self._owned, self._handled, self._committed):
                known.pop(each, None)

    def note_handled(self, ends: Mapping[TopicPartition, int], assignments: Mapping[TopicPartition, int]) -> None:
        """Note the offsets up to which records are handled, of partitions that were not lost since they were read."""
        for each, end in ends.items():
            if self._owned.get(each) == assignments[each]:
                self._handled[each] = end

    def to_commit(self) -> dict[TopicPartition, int]:
        """Return offsets that are handled and not committed."""
        return {each: end for each, end in self._handled.items() if self._committed.get(each) != end}

    def note_committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Note offsets that the coordinator has accepted."""
        self._committed |= {each: end for each, end in offsets.items() if each in self._owned}
