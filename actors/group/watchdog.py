"""Whom a rebalance waits for, and a report when a phase takes too long.

A phase (PreparingRebalance, CompletingRebalance) is stuck when it takes longer than ``rebalance.stuck.ms``, or than
half the group's rebalance timeout if that is shorter: early enough to look before the coordinator removes the members
that it waits for. The initial delay of a group that was Empty is not a wait for any member. In a consumer group
everything until it is Stable is one phase, with as many epochs as there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from muster.actors.group.consumer.state import ConsumerGroup, ConsumerGroupState
from muster.actors.group.consumer.timers import revocation_timer
from muster.actors.group.events import RebalanceMovedOn, RebalanceStuck
from muster.actors.group.shard import Shard, join_timer, stuck_timer, sync_timer
from muster.actors.group.state import Group, GroupState
from muster.actors.group.types import GroupId, MemberId, Who

MAX_MEMBERS = 50
"""The maximum of members in a list of such a wait, or of a rebalance that has ended."""
MAX_NAMED = 10
"""The maximum of members that one line names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceWait:
    """A phase of a rebalance that has not ended. Times are ms since the Unix epoch."""

    group: GroupId
    state: GroupState | ConsumerGroupState
    generation: int
    """The epoch of a consumer group."""
    since_ms: int
    deadline_ms: int | None
    """When the phase ends on its own, or the initial delay does; joins may extend the latter."""
    initial_delay: bool
    leader: MemberId | None
    members: tuple[Who, ...]
    """Members whose JoinGroup or SyncGroup is awaited; none in the initial delay, and while the log is awaited.

    Of a consumer group, those that do not have their target yet; first those that have to give up partitions.
    """
    pending: tuple[Who, ...]
    """Handed-out ids that are awaited."""

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON; the lists of members are bounded."""
        return {
            "group": self.group,
            "state": self.state.value,
            "generation": self.generation,
            "since_ms": self.since_ms,
            "deadline_ms": self.deadline_ms,
            "initial_delay": self.initial_delay,
            "leader": self.leader,
            "members": [who._asdict() for who in self.members[:MAX_MEMBERS]],
            "members_left_out": max(0, len(self.members) - MAX_MEMBERS),
            "pending": [who._asdict() for who in self.pending[:MAX_MEMBERS]],
            "pending_left_out": max(0, len(self.pending) - MAX_MEMBERS),
        }


def watch(shard: Shard, group: Group) -> None:
    """Watch a phase that begins, or whose initial delay continues: it counts from the end of the delay."""
    since_ms = deadline_ms(shard, group) if group.in_initial_delay else None
    shard.timers.set(stuck_timer(group), (since_ms or shard.now_ms) + _patience_ms(shard, group.rebalance_timeout_ms()))


def phase_over(shard: Shard, group: Group, state: GroupState, since_ms: int) -> None:
    """End the watch of the phase ``state``, which began at ``since_ms``."""
    shard.timers.cancel(stuck_timer(group))
    if group.stuck:
        group.stuck = False
        shard.report(RebalanceMovedOn(group=group.id, state=state, duration_ms=shard.now_ms - since_ms))


def on_stuck(shard: Shard, group_id: GroupId) -> None:
    """Report, once, that the phase has taken too long."""
    group = shard.groups.get(group_id)
    if group is None or group.stuck or not in_rebalance(group):
        return
    if group.in_initial_delay:
        watch(shard, group)
        return
    group.stuck = True
    shard.report(
        RebalanceStuck(
            group=group.id,
            state=group.state,
            generation=group.generation,
            duration_ms=shard.now_ms - group.state_since_ms,
            members=awaited(group),
            leader=group.leader,
            pending=awaited_ids(group),
            deadline_ms=deadline_ms(shard, group),
        )
    )


def unsettled(shard: Shard, group: ConsumerGroup) -> None:
    """Watch a consumer group that is not Stable, and has members."""
    if group.unsettled_ms is None:
        group.unsettled_ms = shard.now_ms
        watch_consumers(shard, group)


def watch_consumers(shard: Shard, group: ConsumerGroup) -> None:
    """Report the consumer group when it has not been Stable for too long; nothing if it is."""
    if group.unsettled_ms is not None and group.stuck is None:
        timeouts = (member.rebalance_timeout_ms for member in group.members.values())
        patience_ms = _patience_ms(shard, max(timeouts, default=0))
        shard.timers.set(stuck_timer(group), group.unsettled_ms + patience_ms)


def settled(shard: Shard, group: ConsumerGroup) -> None:
    """End the watch of a consumer group that is Stable, or ends."""
    since_ms, state = group.unsettled_ms, group.stuck
    group.unsettled_ms = group.stuck = None
    shard.timers.cancel(stuck_timer(group))
    if since_ms is not None and state is not None:
        shard.report(RebalanceMovedOn(group=group.id, state=state, duration_ms=shard.now_ms - since_ms))


def on_stuck_consumers(shard: Shard, group: ConsumerGroup) -> None:
    """Report, once, that the consumer group has not been Stable for too long."""
    wait = wait_of_consumers(shard, group)
    if wait is None or group.stuck is not None:
        return
    group.stuck = group.state()
    shard.report(
        RebalanceStuck(
            group=group.id,
            state=wait.state,
            generation=wait.generation,
            duration_ms=shard.now_ms - wait.since_ms,
            members=wait.members,
            leader=None,
            pending=(),
            deadline_ms=wait.deadline_ms,
        )
    )


def in_rebalance(group: Group) -> bool:
    return group.state in (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE)


def awaited(group: Group) -> tuple[Who, ...]:
    """Members whose JoinGroup (SyncGroup) the phase waits for; the leader first, if its assignment is awaited."""
    members = group.members.values()
    if group.state is GroupState.PREPARING_REBALANCE:
        return tuple(member.who for member in members if not member.parked_join)
    late = [member for member in members if member.id in group.pending_syncs]
    return tuple(member.who for member in sorted(late, key=lambda member: member.id != group.leader))


def awaited_ids(group: Group) -> tuple[Who, ...]:
    """Handed-out ids that the phase waits for."""
    return tuple(group.pending_joins.values()) if group.state is GroupState.PREPARING_REBALANCE else ()


def wait_of(shard: Shard, group: Group) -> RebalanceWait:
    """Return what the group waits for. It must be in a rebalance."""
    return RebalanceWait(
        group=group.id,
        state=group.state,
        generation=group.generation,
        since_ms=group.state_since_ms,
        deadline_ms=deadline_ms(shard, group),
        initial_delay=group.in_initial_delay,
        leader=group.leader,
        members=awaited(group),
        pending=awaited_ids(group),
    )


def wait_of_consumers(shard: Shard, group: ConsumerGroup) -> RebalanceWait | None:
    """Return what the consumer group waits for; None if it is Stable or Empty."""
    if group.is_settled():
        return None
    deadlines = [shard.timers.get(revocation_timer(group.id, member_id)) for member_id in group.members]
    return RebalanceWait(
        group=group.id,
        state=group.state(),
        generation=group.epoch,
        since_ms=shard.now_ms if group.unsettled_ms is None else group.unsettled_ms,
        deadline_ms=min((each for each in deadlines if each is not None), default=None),
        initial_delay=False,
        leader=None,
        members=tuple(map(group.who, _awaited_consumers(group))),
        pending=(),
    )


def _awaited_consumers(group: ConsumerGroup) -> list[MemberId]:
    """Members that do not have their target yet; first those that have to give up partitions."""
    late = [each for each in group.members if not group.is_reconciled(each)]
    return sorted(late, key=lambda each: not group.assignment_of(each).revoking)


def deadline_ms(shard: Shard, group: Group) -> int | None:
    """When the phase ends on its own."""
    preparing = group.state is GroupState.PREPARING_REBALANCE
    return shard.timers.get(join_timer(group) if preparing else sync_timer(group))


def described(stuck: RebalanceStuck, now_ms: int) -> str:
    """One line for the operator."""
    names = [_named(who, "leader" if who.member_id == stuck.leader else "member") for who in stuck.members]
    names += [_named(who, "new client with handed-out id") for who in stuck.pending]
    left_out = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    waits_for = f"{_request(stuck.state)} of {', '.join(names[:MAX_NAMED])}{left_out}" if names else "the log"
    is_classic = isinstance(stuck.state, GroupState)
    end = ""
    if stuck.deadline_ms is not None:
        what = "continues without them" if is_classic else "members that give up no partitions are removed"
        end = f"; {what} in {max(0, stuck.deadline_ms - now_ms) / 1000:.1f} s"
    return on_one_line(
        f"group {stuck.group}: {stuck.state.value} for {stuck.duration_ms / 1000:.1f} s"
        f" ({'generation' if is_classic else 'epoch'} {stuck.generation}), waits for {waits_for}{end}"
    )


def _request(state: GroupState | ConsumerGroupState) -> str:
    """Return the request that the members are awaited with."""
    if isinstance(state, ConsumerGroupState):
        return "heartbeats"
    return "JoinGroup" if state is GroupState.PREPARING_REBALANCE else "SyncGroup"


def on_one_line(text: str) -> str:
    """Escape line ends and other control characters: clients may have chosen them."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def _named(who: Who, what: str) -> str:
    instance = f", group.instance.id {who.group_instance_id}" if who.group_instance_id is not None else ""
    return f"{what} {who.member_id} (client.id {who.client_id}, host {who.host}{instance})"


def _patience_ms(shard: Shard, rebalance_timeout_ms: int) -> int:
    return max(1, min(shard.config.rebalance_stuck_ms, rebalance_timeout_ms // 2))
