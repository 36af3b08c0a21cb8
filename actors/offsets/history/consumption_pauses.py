"""Consumption pauses: which partitions no member of a group consumed during a rebalance, and for how long.

The coordinator can only estimate them. The rule, for a partition that the last stored assignment gave to an owner:

* The owner *kept* it if the owner's JoinGroup of this rebalance lists it as owned (ConsumerProtocolSubscription v1,
  KIP-429). A cooperative consumer lists all it has; an eager one has revoked everything before it joins.
* Kept and assigned to the owner again: no pause.
* Kept and assigned to another member immediately: the pause begins when the assignment is stored.
* Kept and assigned to no member, as a cooperative assignor does before it assigns it to another: the pause begins when
  the assignment is stored. It counts in the entry of the generation that assigns the partition to a member; if the
  next stored assignment does not either, the partition is unused and the pause does not count.
* Not kept (eager, or the owner has left the group): the pause begins with the rebalance.
* The pause ends when the member that the partition is assigned to has been sent its assignment; if no member is, when
  the assignment is stored. If the rebalance ends otherwise (restarted, Empty, aborted), the pause ends with it, and the
  next rebalance counts the rest, if any. Nothing is counted twice.

The coordinator cannot know: when an eager member really stopped (it learns of the rebalance by its next heartbeat, or
continues until it has processed what it has: less than is counted here); when a member whose session expired really
stopped (earlier: more than is counted); whether a static member that did not join again still consumes; how long an
assignment takes to arrive, and when the member's first fetch follows; what a leader assigns that is not of protocol
type ``consumer``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from muster.actors.group.codec.consumer_protocol import assigned_partitions
from muster.actors.group.types import MemberId
from muster.actors.tables.rebalance_entry import MAX_PARTITIONS, Pause, PauseSummary

TopicPartition = tuple[str, int]
Owned = Mapping[MemberId, Collection[TopicPartition]]


def owners_of(assignments: Iterable[tuple[MemberId, bytes]]) -> dict[TopicPartition, MemberId]:
    """Return the owner of each partition; an unreadable assignment assigns none."""
    return {
        partition: member_id
        for member_id, assignment in assignments
        for partition in assigned_partitions(assignment) or ()
    }


class ConsumptionPauses:
    """The consumption pauses of one rebalance."""

    def __init__(
        self, owners: dict[TopicPartition, MemberId], taken: Mapping[TopicPartition, int], began_ms: int
    ) -> None:
        """``owners`` is the last stored assignment; ``taken``: partitions that wait for a new owner, and since when."""
        self._owners = owners
        self._taken = taken
        self._began_ms = began_ms
        self._lost_ms: dict[TopicPartition, int] = {}
        self._awaiting: dict[MemberId, dict[TopicPartition, int]] = {}

    def renamed(self, old_id: MemberId, new_id: MemberId) -> None:
        """Give a static member its new id; it keeps its assignment."""
        self._owners = {partition: new_id if owner == old_id else owner for partition, owner in self._owners.items()}
        if old_id in self._awaiting:
            self._awaiting[new_id] = self._awaiting.pop(old_id)

    def assigned(
        self, owners: Mapping[TopicPartition, MemberId], owned: Owned, now_ms: int
    ) -> dict[TopicPartition, int]:
        """Count a stored assignment. ``owned`` is from the JoinGroups. Returns partitions that wait for a new owner."""
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
        """End the pauses of partitions that the member was sent now."""
        for partition, since_ms in self._awaiting.pop(member_id, {}).items():
            self._lost_ms[partition] = now_ms - since_ms

    def summary(self, now_ms: int, *, stored: bool, owned: Owned | None) -> PauseSummary:
        """Return the pauses until now. ``owned`` None: unknown, so no member counts as having kept anything."""
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
        return PauseSummary(
            assigned=len(self._owners.keys() | self._taken.keys()),
            count=len(lost_ms),
            lost_ms=sum(lost_ms.values()),
            partitions=tuple(Pause(*partition, lost_ms[partition]) for partition in longest[:MAX_PARTITIONS]),
            left_out=max(0, len(longest) - MAX_PARTITIONS),
        )

    def kept_by(self, members: Collection[MemberId]) -> dict[MemberId, set[TopicPartition]]:
        """Return the partitions of these members: kept, in a cooperative join phase that has not ended."""
        kept: dict[MemberId, set[TopicPartition]] = {}
        for partition, owner in self._owners.items():
            if owner in members:
                kept.setdefault(owner, set()).add(partition)
        return kept

    def _await(self, partition: TopicPartition, owner: MemberId, since_ms: int) -> None:
        self._awaiting.setdefault(owner, {})[partition] = since_ms
