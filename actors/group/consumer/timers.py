"""Names of the timers of members of consumer groups."""

from __future__ import annotations

from muster.actors.group.timers import TimerKind, TimerName
from muster.actors.group.types import GroupId, MemberId

_OF_MEMBER = (TimerKind.SESSION, TimerKind.REVOCATION, TimerKind.CLASSIC_JOIN, TimerKind.CLASSIC_SYNC)


def session_timer(group: GroupId, member_id: MemberId) -> TimerName:
    return TimerName(TimerKind.SESSION, group, member_id)


def revocation_timer(group: GroupId, member_id: MemberId) -> TimerName:
    return TimerName(TimerKind.REVOCATION, group, member_id)


def join_timer(group: GroupId, member_id: MemberId) -> TimerName:
    return TimerName(TimerKind.CLASSIC_JOIN, group, member_id)


def sync_timer(group: GroupId, member_id: MemberId) -> TimerName:
    return TimerName(TimerKind.CLASSIC_SYNC, group, member_id)


def timers_of(group: GroupId, member_id: MemberId) -> tuple[TimerName, ...]:
    """All of them."""
    return tuple(TimerName(kind, group, member_id) for kind in _OF_MEMBER)
