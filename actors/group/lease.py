"""Leases: while a group is Stable, gateways may answer the heartbeats of its members themselves.

Most requests of a group are heartbeats, and while nothing changes all of them get the same response. So the response
to a forwarded heartbeat may come with a lease. The gateway then answers that member's heartbeats with NONE, and reports
them at once; those of a member that sends many in a row are reported every ``REPORT_MS``. The lease of a group ends
before the group leaves Stable or loses or renames a member: the shell tells all gateways first, on the connection on
which it sends responses. A gateway that the message does not reach stops by itself ``LEASE_MS`` after it has sent the
last ping that the coordinator has sent back.

A member does not expire while a gateway may have a heartbeat of it that is not reported yet: if its session ends with a
lease, the lease ends first, and the member stays until all gateways have confirmed that, or ``LEASE_MS`` have passed.

Kafka has no leases: there a broker that receives a heartbeat is the coordinator itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from muster.actors.group.shard import Shard, session_timer
from muster.actors.group.state import Group, Member
from muster.actors.group.timers import TimerKind, TimerName
from muster.actors.group.types import GroupId, MemberId, Token
from muster.placement.lease import LEASE_MS


class SeenHeartbeat(NamedTuple):
    """A heartbeat that a gateway has answered."""

    group: GroupId
    member: MemberId
    at_ms: int


def grant(shard: Shard, group: Group, member: Member, token: Token) -> None:
    """Let the gateway that sent the heartbeat ``token`` answer the next ones. The group is Stable."""
    member.lease = group.lease
    if group.on_revoke is None:
        group.on_revoke = lambda: _ended(shard, group)
    shard.grant(token, group.id, member.id)


def _ended(shard: Shard, group: Group) -> None:
    group.lease_over_ms = shard.now_ms + LEASE_MS
    shard.revoke(group.id)


def seen(shard: Shard, heartbeats: Iterable[SeenHeartbeat]) -> None:
    """Gateways have answered these: each counts as if it had arrived here at its time."""
    for group_id, member_id, at_ms in heartbeats:
        group = shard.groups.get(group_id)
        member = group.members.get(member_id) if group else None
        if group is None or member is None:
            continue
        timer, ends_ms = session_timer(group, member), at_ms + member.session_timeout_ms
        deadline_ms = shard.timers.get(timer)
        if deadline_ms is None or member.is_new:
            continue
        if member.id in group.awaited and ends_ms > shard.now_ms:
            group.awaited.discard(member.id)
            shard.timers.set(timer, ends_ms)
        elif deadline_ms < ends_ms:
            shard.timers.set(timer, ends_ms)


def postpone(shard: Shard, group: Group, member: Member) -> bool:
    """When a member's session ends while a gateway may have its lease: end the lease, and wait for its reports."""
    if member.lease == group.lease:
        group.revoke()
    if member.lease <= group.confirmed_lease or shard.now_ms >= group.lease_over_ms:
        return False
    group.awaited.add(member.id)
    shard.timers.set(session_timer(group, member), group.lease_over_ms)
    return True


def confirmed(shard: Shard, groups: Iterable[GroupId]) -> None:
    """Gateways use none of the leases of these groups that have ended, and have reported what they have seen."""
    for group_id in groups:
        if (group := shard.groups.get(group_id)) is None:
            continue
        group.confirmed_lease = group.lease - 1
        awaited, group.awaited = group.awaited, set()
        for member in [group.members[each] for each in awaited if each in group.members]:
            shard.timers.set(session_timer(group, member), shard.now_ms)


def heard_ms(shard: Shard, group_id: GroupId) -> dict[MemberId, int]:
    """Return when the session of each member began anew, by a heartbeat or another request; ms since the Unix epoch.

    After a failover that is when the coordinator took over, for who has not been heard since. New members that wait for
    their first generation are left out, and those whose session has ended while a gateway may know better.
    """
    timeouts_ms: dict[MemberId, int] = {}
    if (group := shard.groups.get(group_id)) is not None:
        members = (each for each in group.members.values() if not each.is_new and each.id not in group.awaited)
        timeouts_ms = {each.id: each.session_timeout_ms for each in members}
    elif (consumers := shard.hard.consumer_groups.get(group_id)) is not None:
        own_ms = shard.config.session_timeout_ms(group_id)
        timeouts_ms = {
            member_id: own_ms if member.classic is None else member.classic.session_timeout_ms
            for member_id, member in consumers.members.items()
        }
    deadlines = {each: shard.timers.get(TimerName(TimerKind.SESSION, group_id, each)) for each in timeouts_ms}
    return {each: at_ms - timeouts_ms[each] for each, at_ms in deadlines.items() if at_ms is not None}
