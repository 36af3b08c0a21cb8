"""Invariants of waiting requests and of responses."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from muster.actors.group.messages import (
    DeleteGroupsResponse,
    JoinGroup,
    OffsetCommitResponse,
    OffsetDeleteResponse,
    SyncGroup,
    TxnOffsetCommitResponse,
    WriteTxnMarkerResponse,
)
from muster.actors.group.state import GroupState
from muster.actors.group.timers import TimerKind, TimerName
from muster.actors.group.types import Token
from tests.simulation.actor import Received, Step, StepKind
from tests.simulation.planted.broken import Broken
from tests.simulation.view import View

E = ErrorCode
SLACK_MS = 200
"""Timers have a resolution of 1 ms; a join deadline that no member has met is armed again, at least 100 ms ahead."""


def no_request_is_answered_twice(view: View, step: Step) -> None:
    """Check that no request gets two responses: a client would take the second for that to its next request."""
    if step.strays:
        raise Broken(f"{step.strays} are answered, but no request waits under these tokens")


def every_waiting_request_can_end(view: View, step: Step) -> None:
    """Check that a parked request has a timer, and a held response a write in flight.

    They would wait forever otherwise.
    """
    if step.kind is StepKind.RESIGNED:
        if view.actor.waiting:
            raise Broken(f"the coordinator has resigned and leaves {view.actor.waiting} waiting")
        return
    parked: dict[Token, bool] = {}
    writing = bool(view.log.pending)
    for group_id, group in step.after.items():
        joins = view.timers.get(TimerName(TimerKind.JOIN, group_id)) is not None
        syncs = view.timers.get(TimerName(TimerKind.SYNC, group_id)) is not None
        for member in group.members.values():
            if member.parked_join is not None:
                ends = joins if group.state is GroupState.PREPARING_REBALANCE else writing
                parked[member.parked_join] = ends and group.state is not GroupState.EMPTY
            if member.parked_sync is not None:
                parked[member.parked_sync] = group.state is GroupState.COMPLETING_REBALANCE and (syncs or writing)
    for token, received in view.actor.waiting.items():
        if not parked.get(token, writing):
            raise Broken(f"{received.request} of {received.sender} waits for nothing that will happen")
    for token in parked.keys() - view.actor.waiting.keys():
        raise Broken(f"token {token} is parked, but no request waits under it")
    if view.actor.waiting and not writing and view.core.next_deadline_ms() is None:
        raise Broken(f"{len(view.actor.waiting)} requests wait, and no timer is set")


def no_request_waits_too_long(view: View, step: Step) -> None:
    """JoinGroup waits for a join phase, SyncGroup for a sync phase, everything else at most for the log."""
    due_ms = view.core.next_deadline_ms()
    if due_ms is None or due_ms <= step.now_ms:
        return
    for received in view.actor.waiting.values():
        waited_ms = step.now_ms - received.arrived_ms - (view.actor.stalled_ms - received.stalled_ms)
        if waited_ms > _bound_ms(view, received):
            raise Broken(f"{received.request} of {received.sender} waits since {waited_ms} ms")


def _bound_ms(view: View, received: Received) -> int:
    config = view.actor.config
    bound_ms = config.offsets_commit_timeout_ms + SLACK_MS
    request = received.request
    if isinstance(request, JoinGroup | SyncGroup):
        bound_ms += view.promises.longest_rebalance_ms[request.group_id]
    if isinstance(request, JoinGroup):
        bound_ms += config.group_initial_rebalance_delay_ms
    return bound_ms


def what_is_acknowledged_is_durable(view: View, step: Step) -> None:
    """Check that the log has what was acknowledged, and everything decided before it: a client may forget it."""
    for received, response in step.answered:
        match response:
            case OffsetCommitResponse() | OffsetDeleteResponse() | TxnOffsetCommitResponse():
                done = any(p.error_code is E.none for topic in response.topics for p in topic.partitions)
            case WriteTxnMarkerResponse():
                done = response.error_code is E.none
            case DeleteGroupsResponse():
                done = any(result.error_code is E.none for result in response.results)
            case _:
                continue
        waits_for = [batch.write for batch in view.log.pending if received.write is not None]
        if done and received.write is not None and received.write in waits_for:
            raise Broken(f"{received.request} is answered before write {received.write} is durable")
