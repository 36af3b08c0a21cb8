"""The protocol's verdict on a request, given the state of the group: the tables of Kafka's classic protocol.

Written independently of the coordinator's own checks, so that each can reveal errors in the other.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from muster.actors.group.messages import Heartbeat, OffsetCommit, OffsetDelete, Request, SyncGroup, TxnOffsetCommit
from muster.actors.group.state import GroupState
from muster.actors.group.types import MemberId
from tests.simulation.shots import GroupShot, Shots

E = ErrorCode
EMPTY, PREPARING, COMPLETING, STABLE, _ = GroupState


def verdict(request: Request, groups: Shots) -> ErrorCode | None:
    """Return the error that the response must carry; None if that is open.

    It is open if the request parks, or is judged elsewhere.
    """
    match request:
        case Heartbeat():
            return _heartbeat(request, groups)
        case SyncGroup():
            return _sync(request, groups)
        case OffsetCommit():
            return _commit(request, groups)
        case TxnOffsetCommit():
            return _txn_commit(request, groups)
        case OffsetDelete():
            return _offset_delete(request, groups)
    return None


def _identity(group: GroupShot, member_id: MemberId, instance: str | None) -> ErrorCode:
    if instance is not None and instance not in group.static_members:
        return E.unknown_member_id
    if instance is not None and group.static_members[instance] != member_id:
        return E.fenced_instance_id
    return E.none if member_id in group.members else E.unknown_member_id


def _membership(group: GroupShot, member_id: MemberId, instance: str | None, generation: int) -> ErrorCode:
    error = _identity(group, member_id, instance)
    return E.illegal_generation if error is E.none and generation != group.generation else error


def _heartbeat(request: Heartbeat, groups: Shots) -> ErrorCode:
    if not request.group_id:
        return E.invalid_group_id
    if (group := groups.get(request.group_id)) is None:
        return E.unknown_member_id
    error = _membership(group, request.member_id, request.group_instance_id, request.generation_id)
    return E.rebalance_in_progress if error is E.none and group.state is PREPARING else error


def _sync(request: SyncGroup, groups: Shots) -> ErrorCode | None:
    named = (request.protocol_type, request.protocol_name)
    if request.api_version >= 5 and None in named:
        return E.inconsistent_group_protocol
    if not request.group_id:
        return E.invalid_group_id
    if (group := groups.get(request.group_id)) is None:
        return E.unknown_member_id
    error = _membership(group, request.member_id, request.group_instance_id, request.generation_id)
    if error is not E.none:
        return error
    if any(
        mine not in (None, theirs) for mine, theirs in zip(named, (group.protocol_type, group.protocol), strict=True)
    ):
        return E.inconsistent_group_protocol
    if group.state is PREPARING:
        return E.rebalance_in_progress
    return None if group.state is COMPLETING else E.none


def _commit(request: OffsetCommit, groups: Shots) -> ErrorCode:
    group = groups.get(request.group_id)
    generation, instance = request.generation_id, request.group_instance_id
    if group is None:
        absent = E.group_id_not_found if request.api_version >= 9 else E.illegal_generation
        return absent if generation >= 0 else E.none
    if generation < 0 and group.state is EMPTY:
        return E.none
    if generation < 0 and not request.member_id and instance is None:
        return E.unknown_member_id
    error = _membership(group, request.member_id, instance, generation)
    return E.rebalance_in_progress if error is E.none and group.state is COMPLETING else error


def _txn_commit(request: TxnOffsetCommit, groups: Shots) -> ErrorCode:
    if not request.group_id:
        return E.invalid_group_id
    group = groups.get(request.group_id)
    generation, instance = request.generation_id, request.group_instance_id
    if group is None:
        return E.illegal_generation if generation >= 0 else E.none
    if generation < 0 and (group.state is EMPTY or (not request.member_id and instance is None)):
        return E.none
    return _membership(group, request.member_id, instance, generation)


def _offset_delete(request: OffsetDelete, groups: Shots) -> ErrorCode:
    if not request.group_id:
        return E.invalid_group_id
    if (group := groups.get(request.group_id)) is None:
        return E.group_id_not_found
    return E.none if group.state is EMPTY or group.protocol_type == "consumer" else E.non_empty_group
