"""Invariants of members: which clients are members, which requests they may send, and when they may be expelled."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from muster.actors.group.apis.join import NEW_MEMBER_JOIN_TIMEOUT_MS
from muster.actors.group.events import MemberExpired, MemberLeft, Removal
from muster.actors.group.messages import (
    HeartbeatResponse,
    JoinGroup,
    JoinGroupResponse,
    LeaveGroup,
    OffsetCommitResponse,
    OffsetDeleteResponse,
    Response,
    SyncGroupResponse,
    TxnOffsetCommitResponse,
)
from muster.actors.group.timers import TimerKind, TimerName
from muster.actors.group.types import GroupId, MemberId
from tests.simulation.actor import Step, StepKind
from tests.simulation.known_offsets import PERHAPS
from tests.simulation.planted.broken import Broken
from tests.simulation.shots import GroupShot, MemberShot
from tests.simulation.view import View

E = ErrorCode


def only_members_speak_for_the_group(view: View, step: Step) -> None:
    """Check that a heartbeat, sync or commit is accepted exactly if its sender is in the group's current generation.

    Accepting too much lets the past overwrite the present; refusing a member makes it stop without reason.
    """
    for received, response in step.answered:
        if received.expected is None:
            continue
        wrong = _errors(response) - {received.expected}
        failed_write = step.kind in (StepKind.FAILED, StepKind.RESIGNED)
        if wrong - (PERHAPS if failed_write else set()) - _of_the_partition(response):
            raise Broken(f"{received.request} is answered {response}, right is {received.expected!r}")


def no_member_is_expelled_without_a_reason(view: View, step: Step) -> None:
    """Check that clients that heartbeat, rejoin and sync in time remain members, and that none joins without JoinGroup.

    This is based on what reached the coordinator: an id disappears because its session or its phase has ended, because
    a LeaveGroup names it, or because the next process of its instance replaces it.
    """
    if step.kind in (StepKind.LOADED, StepKind.FAILED, StepKind.RESIGNED):
        return
    explained = _explained(view, step)
    for group_id, before in step.before.items():
        after = step.after.get(group_id)
        for member_id in before.members.keys() - (after.members if after else {}).keys():
            if (group_id, member_id) not in explained and not _replaced(step, before.members[member_id]):
                raise Broken(f"{member_id} is no member of {group_id} any more, for no reason")
    for group_id, after in step.after.items():
        known = step.before[group_id].members if group_id in step.before else {}
        for member_id in after.members.keys() - known.keys():
            request = step.received.request if step.received else None
            if not isinstance(request, JoinGroup) or request.group_id != group_id:
                raise Broken(f"{member_id} is a member of {group_id} without a JoinGroup")


def _explained(view: View, step: Step) -> set[tuple[GroupId, MemberId]]:
    explained = set()
    for event in step.outcome.events:
        if isinstance(event, MemberExpired):
            _check_expired(view, step, event)
        elif isinstance(event, MemberLeft):
            _check_left(step, event)
        else:
            continue
        explained.add((event.group, event.member_id))
    return explained


def _check_left(step: Step, event: MemberLeft) -> None:
    request = step.received.request if step.received else None
    if not isinstance(request, LeaveGroup) or request.group_id != event.group:
        raise Broken(f"{event} without a LeaveGroup")
    statics = step.before[event.group].static_members
    named = {m.member_id or statics.get(m.group_instance_id or "") for m in request.members}
    if event.member_id not in named:
        raise Broken(f"{event}, but the request names {named}")


def _check_expired(view: View, step: Step, event: MemberExpired) -> None:
    """Compare each cause of removal with the member's requests.

    A new member that heartbeats (clients do not, but a liar may in its name) has only a session from then, as in Kafka.
    """
    watch = view.promises.watches[event.group]
    group = step.before[event.group]
    member = group.members.get(event.member_id)
    if member is None:
        raise Broken(f"{event}: was no member")
    now_ms = step.now_ms
    match event.cause:
        case Removal.SESSION_EXPIRED:
            until_ms = watch.alive_until_ms.get(event.member_id, 0)
            good = now_ms >= until_ms and not member.waits
            why = f"its session lasts until {until_ms}, {member}"
        case Removal.JOIN_EXPIRED:
            due_ms = watch.added_ms.get(event.member_id, 0) + NEW_MEMBER_JOIN_TIMEOUT_MS
            due_ms = min(due_ms, watch.alive_until_ms.get(event.member_id, due_ms))
            good, why = now_ms >= due_ms and member.is_new, f"it may wait until {due_ms}, {member}"
        case Removal.REBALANCE_TIMEOUT:
            due_ms = watch.prepared_ms + member.rebalance_timeout_ms
            good = now_ms >= due_ms and member.parked_join is None
            why = f"it may join until {due_ms}, {member}"
        case Removal.SYNC_TIMEOUT:
            due_ms = watch.completed_ms + member.rebalance_timeout_ms
            good = now_ms >= due_ms and event.member_id not in watch.synced
            why = f"it may sync until {due_ms}, synced: {watch.synced}"
        case Removal.GROUP_FULL:
            received = step.received.request if step.received else None
            good, why = (
                isinstance(received, JoinGroup) and received.member_id == event.member_id,
                f"the request was {received}",
            )
    if not good:
        raise Broken(f"{event} at {now_ms}, but {why}")


def _replaced(step: Step, member: MemberShot) -> bool:
    request = step.received.request if step.received else None
    return (
        isinstance(request, JoinGroup)
        and not request.member_id
        and request.group_instance_id is not None
        and request.group_instance_id == member.group_instance_id
    )


def an_instance_has_one_member(view: View, step: Step) -> None:
    """Check that a static member that was replaced is fenced: its instance id belongs to its successor alone."""
    for group_id, group in step.changed.items():
        owners = {m.group_instance_id: i for i, m in group.members.items() if m.group_instance_id is not None}
        static = [member for member in group.members.values() if member.group_instance_id is not None]
        if owners != group.static_members or len(static) != len(owners):
            raise Broken(f"{group_id} maps {group.static_members}, members are {group.members}")
        if group.leader is not None and group.leader not in group.members:
            raise Broken(f"{group_id} is led by {group.leader}, who is no member")
        if not group.pending_syncs <= group.members.keys():
            raise Broken(f"{group_id} awaits SyncGroup of {group.pending_syncs - group.members.keys()}")


def silent_members_can_expire(view: View, step: Step) -> None:
    """Check that a member without a pending request has a session that ends; a group must not keep dead members."""
    if step.kind is StepKind.RESIGNED:
        return
    now_ms, timers = step.now_ms, view.timers
    for group_id, group in step.after.items():
        for member_id, member in group.members.items():
            if member.waits and not member.is_new:
                continue
            deadline_ms = timers.get(TimerName(TimerKind.SESSION, group_id, member_id))
            longest_ms = NEW_MEMBER_JOIN_TIMEOUT_MS if member.is_new else _longest_session_ms(view)
            if deadline_ms is None or deadline_ms > now_ms + longest_ms:
                raise Broken(f"{member_id} of {group_id} expires at {deadline_ms}")
        _check_pending(view, step, group_id, group)


def _check_pending(view: View, step: Step, group_id: GroupId, group: GroupShot) -> None:
    for member_id in group.pending_joins:
        deadline_ms = view.timers.get(TimerName(TimerKind.PENDING, group_id, member_id))
        if deadline_ms is None or deadline_ms > step.now_ms + _longest_session_ms(view):
            raise Broken(f"the handed-out id {member_id} of {group_id} is forgotten at {deadline_ms}")
        if member_id in group.members:
            raise Broken(f"{member_id} of {group_id} is a member and a handed-out id")


def _longest_session_ms(view: View) -> int:
    return view.actor.config.group_max_session_timeout_ms


def _errors(response: Response) -> set[ErrorCode]:
    match response:
        case HeartbeatResponse() | SyncGroupResponse() | JoinGroupResponse():
            return {response.error_code}
        case OffsetDeleteResponse():
            return {response.error_code}
        case OffsetCommitResponse() | TxnOffsetCommitResponse():
            return {partition.error_code for topic in response.topics for partition in topic.partitions}
    return set()


def _of_the_partition(response: Response) -> set[ErrorCode]:
    """Errors that concern one partition, for any requester."""
    is_commit = isinstance(response, OffsetCommitResponse | TxnOffsetCommitResponse)
    return {E.offset_metadata_too_large} if is_commit else set()
