"""Which partitions nobody of a group consumed during a rebalance, and for how long, as the coordinator can tell.

The rule, for a partition that the last stored assignment gave to somebody (its owner):

* Its owner *kept* it if the owner's JoinGroup of this rebalance says that it owns it (ConsumerProtocolSubscription
  v1, KIP-429). A cooperative consumer says so of all it has; an eager one has given up everything before it joins.
* Kept and given to its owner again: it did not stand still.
* Kept and given to another member at once: it stood still from the time when the assignment was stored.
* Kept and given to nobody, as a cooperative assignor does before it gives it to another: it stands still from the
  time when the assignment was stored. That time counts in the entry of the generation that gives it to somebody;
  if the next stored assignment gives it to nobody either, nobody wants it, and it does not count.
* Not kept (eager, or its owner is a member no more): it stood still from the beginning of the rebalance.
* It stands still until the member that it was given to has been sent its assignment; if it was given to nobody, until
  the assignment was stored. When the rebalance ends otherwise (restarted, Empty, aborted), until that end: if it goes
  on standing still, the next rebalance counts the rest. Nothing is counted twice.

What the coordinator cannot know: when an eager member really stopped (it learns of the rebalance by its next
heartbeat, or goes on until it has worked off what it has: less than is counted here); when a member whose session
expired really stopped (before: more than is counted); whether a static member that did not join again still consumes;
how long an assignment is on its way, and when the member's first fetch follows; what a leader assigns that is not of
protocol type ``consumer``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from muster.actors.group.codec.consumer_protocol import assigned_partitions
from muster.actors.group.types import MemberId
from muster.actors.offsets.history.journal_entry import MAX_PARTITIONS, Pause, StoodStill

TopicPartition = tuple[str, int]
Owned = Mapping[MemberId, Collection[TopicPartition]]


def owners_of(assignments: Iterable[tuple[MemberId, bytes]]) -> dict[TopicPartition, MemberId]:
    """Who was given which partition; an assignment that cannot be read gives none."""
    return {
        partition: member_id
        for member_id, assignment in assignments
        for partition in assigned_partitions(assignment) or ()
    }


class Stillness:
    """The partitions of one rebalance."""

    def __init__(
        self, owners: dict[TopicPartition, MemberId], taken: Mapping[TopicPartition, int], began_ms: int
    ) -> None:
        """``owners`` is the last stored assignment; ``taken``: since when which partitions wait for a new owner."""
        self._owners = owners
        self._taken = taken
        self._began_ms = began_ms
        self._lost_ms: dict[TopicPartition, int] = {}
        self._awaiting: dict[MemberId, dict[TopicPartition, int]] = {}

    def renamed(self, old_id: MemberId, new_id: MemberId) -> None:
        """A static member has another id, and the same assignment."""
        self._owners = {partition: new_id if owner == old_id else owner for partition, owner in self._owners.items()}
        if old_id in self._awaiting:
            self._awaiting[new_id] = self._awaiting.pop(old_id)

    def assigned(
        self, owners: Mapping[TopicPartition, MemberId], owned: Owned, now_ms: int
    ) -> dict[TopicPartition, int]:
        """The assignment was stored; what members own is as they joined. Gives what now waits for a new owner."""
        taken: dict[TopicPartition, int] = {}
        for partition, since_ms in self._taken.items():
            if partition in owners:
                self._await(partition, owners[partition], since_ms)
        for partition, owner in self._owners.items():
            new_owner = owners.get(partition)
            if partition in owned.get(owner, ()):
                if new_owner is None:
                    taken[partition] = now_ms
                elif new_owner != owner:
                    self._await(partition, new_owner, now_ms)
            elif new_owner is None:
                self._lost_ms[partition] = now_ms - self._began_ms
            else:
                self._await(partition, new_owner, self._began_ms)
        return taken

    def received(self, member_id: MemberId, now_ms: int) -> None:
        """The member was sent its assignment."""
        for partition, since_ms in self._awaiting.pop(member_id, {}).items():
            self._lost_ms[partition] = now_ms - since_ms

    def summary(self, now_ms: int, *, stored: bool, owned: Owned | None) -> StoodStill:
        """What stood still until now. ``owned`` None: not known, nobody has kept anything."""
        lost_ms = dict(self._lost_ms)
        for partitions in self._awaiting.values():
            lost_ms |= {partition: now_ms - since_ms for partition, since_ms in partitions.items()}
        if not stored:
            lost_ms |= {
                partition: now_ms - self._began_ms
                for partition, owner in self._owners.items()
                if partition not in (owned or {}).get(owner, ())
            }
        longest = sorted(lost_ms, key=lambda partition: (-lost_ms[partition], partition))
        return StoodStill(
            assigned=len(self._owners.keys() | self._taken.keys()),
            count=len(lost_ms),
            lost_ms=sum(lost_ms.values()),
            partitions=tuple(Pause(*partition, lost_ms[partition]) for partition in longest[:MAX_PARTITIONS]),
            left_out=max(0, len(longest) - MAX_PARTITIONS),
        )

    def kept_by(self, members: Collection[MemberId]) -> dict[MemberId, set[TopicPartition]]:
        """As if these members had kept what they were given: for a cooperative join phase that is not over."""
        kept: dict[MemberId, set[TopicPartition]] = {}
        for partition, owner in self._owners.items():
            if owner in members:
                kept.setdefault(owner, set()).add(partition)
        return kept

    def _await(self, partition: TopicPartition, owner: MemberId, since_ms: int) -> None:
        self._awaiting.setdefault(owner, {})[partition] = since_ms
