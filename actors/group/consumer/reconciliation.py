"""How a member moves from the partitions that it has to those that it should have (KIP-848).

A partition has one holder at a time. A member that has to give partitions up keeps its epoch until it confirms, by no
longer naming them as its own; only then the next member gets them, and only then it gets others itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from muster.actors.group.codec.consumer_records import CurrentAssignment, MemberState, TopicIdPartition


class Goal(NamedTuple):
    """Where a member should get to."""

    epoch: int
    """Epoch of the target assignment."""
    partitions: frozenset[TopicIdPartition]
    subscribed: frozenset[UUID]
    """The topics that the member subscribes to now: it gets and keeps no partitions of others."""
    subscription_changed: bool
    """Whether the member has just changed its subscription."""


class UnknownMemberState(Exception):
    """A later Kafka wrote a state that this one does not know: the member has to begin anew."""


def next_assignment(
    current: CurrentAssignment,
    goal: Goal,
    owned: frozenset[TopicIdPartition] | None,
    taken: frozenset[TopicIdPartition],
) -> CurrentAssignment:
    """Return the member's next assignment, or ``current`` if it does not change.

    ``owned``: the partitions that the member says it has; None if it does not say. ``taken``: those of the goal's
    partitions that other members hold. Raises UnknownMemberState.
    """
    match current.state:
        case MemberState.STABLE:
            if current.epoch != goal.epoch:
                return _advance(current, current.epoch, goal, owned, taken)
            return _drop_topics(current, goal, owned) if goal.subscription_changed else current
        case MemberState.UNREVOKED_PARTITIONS:
            if not _still_owns(owned, current.revoking):
                return _advance(current, current.epoch, goal, owned, taken)
            return _drop_topics(current, goal, owned) if goal.subscription_changed else current
        case MemberState.UNRELEASED_PARTITIONS:
            return _advance(current, current.epoch, goal, owned, taken)
        case MemberState.UNKNOWN:
            if owned is None or owned:
                raise UnknownMemberState
            return _advance(current, goal.epoch, goal, owned, taken)


def _still_owns(owned: frozenset[TopicIdPartition] | None, revoking: Mapping[TopicIdPartition, int]) -> bool:
    return owned is None or not owned.isdisjoint(revoking)


def _advance(
    current: CurrentAssignment,
    epoch: int,
    goal: Goal,
    owned: frozenset[TopicIdPartition] | None,
    taken: frozenset[TopicIdPartition],
) -> CurrentAssignment:
    wanted = {partition for partition in goal.partitions if partition[0] in goal.subscribed}
    kept = {partition: since for partition, since in current.assigned.items() if partition in wanted}
    revoked = {partition: since for partition, since in current.assigned.items() if partition not in wanted}
    if revoked and _still_owns(owned, revoked):
        return CurrentAssignment(
            epoch=epoch,
            previous_epoch=current.epoch,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            revoking=revoked,
        )
    missing = wanted - kept.keys()
    return CurrentAssignment(
        epoch=goal.epoch,
        previous_epoch=current.epoch,
        state=MemberState.STABLE if missing.isdisjoint(taken) else MemberState.UNRELEASED_PARTITIONS,
        assigned=kept | dict.fromkeys(missing - taken, goal.epoch),
        revoking={},
    )


def _drop_topics(
    current: CurrentAssignment, goal: Goal, owned: frozenset[TopicIdPartition] | None
) -> CurrentAssignment:
    """Without partitions of topics that the member no longer subscribes to; its epoch does not change."""
    kept = {partition: since for partition, since in current.assigned.items() if partition[0] in goal.subscribed}
    if len(kept) == len(current.assigned):
        return current
    dropped = {partition: since for partition, since in current.assigned.items() if partition not in kept}
    revoking = {**current.revoking, **dropped}
    still_owns = _still_owns(owned, revoking)
    return CurrentAssignment(
        epoch=current.epoch,
        previous_epoch=current.epoch,
        state=MemberState.UNREVOKED_PARTITIONS if still_owns else current.state,
        assigned=kept,
        revoking=revoking if still_owns else current.revoking,
    )
