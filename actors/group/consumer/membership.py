"""Members of a consumer group: how they come, are checked, are replaced and go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kio.schema.errors import ErrorCode

from muster.actors.group.codec.consumer_records import (
    ConsumerRecord,
    CurrentAssignment,
    MemberMetadata,
    Target,
    TopicIdPartition,
)
from muster.actors.group.consumer import epochs
from muster.actors.group.consumer.state import LEFT_FOR_A_WHILE, ConsumerGroup
from muster.actors.group.consumer.timers import session_timer, timers_of
from muster.actors.group.errors import ApiError
from muster.actors.group.events import Cause, MemberAdded, StaticMemberReplaced
from muster.actors.group.shard import Shard
from muster.actors.group.types import GroupId, MemberId
from muster.placement.client import Context


def unknown_member(group_id: str, member_id: str) -> ApiError:
    return ApiError(ErrorCode.unknown_member_id, message=f"Member {member_id} is not a member of group {group_id}.")


def check_static(group: ConsumerGroup, member_id: MemberId, instance_id: str) -> None:
    """Whether the member is the one with that instance id. Raises ApiError."""
    current = group.static_members.get(instance_id)
    if current is None:
        raise ApiError(ErrorCode.unknown_member_id, message=f"Instance id {instance_id} is unknown.")
    if current != member_id:
        message = f"Static member {member_id} with instance id {instance_id} was fenced by member {current}."
        raise ApiError(ErrorCode.fenced_instance_id, message=message)


def check_epoch(
    group: ConsumerGroup, member_id: MemberId, epoch: int, owned: frozenset[TopicIdPartition] | None
) -> None:
    """Whether the member may heartbeat with that epoch. Raises ApiError.

    The previous epoch is accepted if the response that had the next one may have been lost.
    """
    current = group.assignment_of(member_id)
    if epoch == current.epoch:
        return
    if epoch > current.epoch:
        raise _fenced("greater", epoch, current.epoch)
    if epoch != current.previous_epoch or owned is None or not owned <= current.assigned.keys():
        raise _fenced("smaller", epoch, current.epoch)


def _fenced(how: str, epoch: int, current: int) -> ApiError:
    message = (
        f"The consumer group member has a {how} member epoch ({epoch}) than the one known by the group coordinator "
        f"({current}). The member must abandon all its partitions and rejoin."
    )
    return ApiError(ErrorCode.fenced_member_epoch, message=message)


def check_room(shard: Shard, group: ConsumerGroup | None, member_id: MemberId, instance_id: str | None) -> None:
    """Raise ApiError if the group is full and the member is new; a static one may take its own place again."""
    size = shard.config.group_consumer_max_size
    if group is None or member_id in group.members or instance_id in group.static_members:
        return
    if len(group.members) >= size:
        message = f"The consumer group has reached its maximum capacity of {size} members."
        raise ApiError(ErrorCode.group_max_size_reached, message=message)


def check_released(group: ConsumerGroup, member_id: MemberId, instance_id: str, old_id: MemberId) -> None:
    """Raise ApiError unless a static member with the consumer protocol has left before another takes its place."""
    if group.members[old_id].classic is None and group.assignment_of(old_id).epoch != LEFT_FOR_A_WHILE:
        message = (
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id "
            f"is owned by {old_id} member."
        )
        raise ApiError(ErrorCode.unreleased_instance_id, message=message)


def put_member(shard: Shard, group_id: GroupId, member_id: MemberId, member: MemberMetadata) -> ConsumerGroup:
    """Write the member's record, if it differs. This creates the group, if there is none."""
    group = shard.consumer_group(group_id)
    if group is None or group.members.get(member_id) != member:
        shard.append_consumer(group_id, ConsumerRecord.MEMBER_METADATA, member, member_id)
    return shard.hard.consumer_groups[group_id]


def replace_member(shard: Shard, group: ConsumerGroup, old_id: MemberId, new_id: MemberId) -> None:
    """Give the subscription and partitions of a static member to its next process, which begins at epoch 0."""
    member, target = group.members[old_id], group.targets.get(old_id)
    current = group.assignment_of(old_id)
    _write_tombstones(shard, group, old_id)
    append = shard.append_consumer
    append(group.id, ConsumerRecord.MEMBER_METADATA, member, new_id)
    append(group.id, ConsumerRecord.TARGET_ASSIGNMENT_MEMBER, target or Target(), new_id)
    taken_over = CurrentAssignment(epoch=0, previous_epoch=0, assigned=current.assigned, revoking={})
    append(group.id, ConsumerRecord.CURRENT_MEMBER_ASSIGNMENT, taken_over, new_id)


def remove_members(shard: Shard, group: ConsumerGroup, gone: Iterable[MemberId], cause: Cause) -> None:
    """Write that these members have gone, at least one, and the group's next epoch."""
    removed = [*gone]
    regexes = {group.members[member_id].regex for member_id in removed}
    for member_id in removed:
        _write_tombstones(shard, group, member_id)
    drop_regexes(shard, group, regexes)
    epochs.raise_epoch(shard, group, cause, removed[0])


def report_arrival(
    shard: Shard, group: ConsumerGroup, member_id: MemberId, *, joined: bool, replaced: MemberId | None
) -> None:
    """Report a member that is new, or has replaced another one, or neither."""
    who = group.who(member_id)
    if joined:
        shard.report(MemberAdded(group=group.id, member=who))
    if replaced is not None:
        shard.report(
            StaticMemberReplaced(
                group=group.id,
                group_instance_id=who.group_instance_id or "",
                old_member_id=replaced,
                new_member_id=member_id,
                client_id=who.client_id,
                host=who.host,
            )
        )


def drop_regexes(shard: Shard, group: ConsumerGroup, regexes: Iterable[str | None]) -> None:
    """Forget the results of those of the regular expressions that no member has any more."""
    for regex in sorted(filter(None, regexes)):
        if regex in group.regexes and regex not in group.wanted_regexes():
            shard.append_consumer(group.id, ConsumerRecord.REGULAR_EXPRESSION, None, regex)


def forget(shard: Shard, group: ConsumerGroup, member_id: MemberId, *, left: bool = False) -> None:
    """Withdraw the registration of a member that has gone, and cancel its timers; ``left``: at its own request."""
    for timer in timers_of(group.id, member_id):
        shard.timers.cancel(timer)
    shard.say(shard.registry.gone(group.id, member_id, left=left))


def meet(shard: Shard, group: ConsumerGroup, member_id: MemberId, context: Context) -> None:
    """Note that the member sent a request from ``context``."""
    if group.contexts.get(member_id) != context:
        group.contexts[member_id] = context
        shard.say(shard.registry.met_consumer(group, member_id))


def arm_session(shard: Shard, group: ConsumerGroup, member_id: MemberId) -> None:
    """Give the member a full session timeout from now."""
    classic = group.members[member_id].classic
    timeout_ms = classic.session_timeout_ms if classic else shard.config.session_timeout_ms(group.id)
    shard.timers.set(session_timer(group.id, member_id), shard.now_ms + timeout_ms)


def left_for_a_while(current: CurrentAssignment) -> CurrentAssignment:
    """Return the assignment of a static member that will return."""
    return replace(current, epoch=LEFT_FOR_A_WHILE, revoking={})


def _write_tombstones(shard: Shard, group: ConsumerGroup, member_id: MemberId) -> None:
    for kind in (
        ConsumerRecord.CURRENT_MEMBER_ASSIGNMENT,
        ConsumerRecord.TARGET_ASSIGNMENT_MEMBER,
        ConsumerRecord.MEMBER_METADATA,
    ):
        shard.append_consumer(group.id, kind, None, member_id)
