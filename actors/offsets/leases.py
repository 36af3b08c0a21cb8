"""The leases that gateways have of one partition's groups: see :mod:`muster.actors.group.lease`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count

from muster.actors.group.lease import SeenHeartbeat
from muster.actors.group.types import GroupId, MemberId
from muster.actors.wire.internal import envelope
from muster.actors.wire.internal.envelope import Kind, SeenLease
from muster.actors.wire.internal.listener import Peer
from muster.placement.lease import REPORT_MS


@dataclass(slots=True)
class _LeasedGroup:
    """Leases of one group at one gateway."""

    id: GroupId
    number: int
    members: dict[MemberId, int] = field(default_factory=dict)
    """Their numbers."""


@dataclass(slots=True)
class _LeasedMember:
    group: GroupId
    id: MemberId
    seen_ms: int | None = None
    """When the gateway saw the last heartbeat that it has reported."""


@dataclass(slots=True)
class _Gateway:
    """Leases at one gateway."""

    groups: dict[GroupId, _LeasedGroup] = field(default_factory=dict)
    ended: dict[int, _LeasedGroup] = field(default_factory=dict)
    """Leases that have ended, and that the gateway has not confirmed; what it reports of them still counts."""
    members: dict[int, _LeasedMember] = field(default_factory=dict)


class Leases:
    """Numbers groups and members for the gateways, in the order in which they get them."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._gateways: dict[Peer, _Gateway] = {}
        self._awaited: Counter[GroupId] = Counter()
        """How many gateways have not confirmed that the group's lease has ended."""

    def reply(self, peer: Peer, token: int, frame: bytes, group: GroupId, member: MemberId) -> None:
        """Answer a heartbeat, with a lease of its member."""
        gateway = self._gateways.get(peer)
        if gateway is None:
            gateway = self._gateways[peer] = _Gateway()
        leased = gateway.groups.get(group)
        if leased is None:
            leased = gateway.groups[group] = _LeasedGroup(group, next(self._numbers))
        number = leased.members.get(member)
        if number is None:
            number = leased.members[member] = next(self._numbers)
            gateway.members[number] = _LeasedMember(group, member)
        peer.send(envelope.lease_head(token, leased.number, number), frame)

    def revoke(self, groups: Iterable[GroupId]) -> list[GroupId]:
        """End the groups' leases. Returns the groups that no gateway has to confirm."""
        for group in groups:
            for peer, gateway in self._gateways.items():
                if (leased := gateway.groups.pop(group, None)) is not None:
                    peer.send(envelope.token_head(Kind.REVOKED, leased.number))
                    gateway.ended[leased.number] = leased
                    self._awaited[group] += 1
        return [group for group in groups if group not in self._awaited]

    def seen(self, peer: Peer, leases: Iterable[SeenLease], now_ms: int) -> Iterator[SeenHeartbeat]:
        """Yield the heartbeats that a gateway reports."""
        gateway = self._gateways.get(peer)
        for number, age_ms in leases:
            member = None if gateway is None else gateway.members.get(number)
            if member is not None:
                member.seen_ms = now_ms - age_ms
                yield SeenHeartbeat(member.group, member.id, member.seen_ms)

    def confirmed(self, peer: Peer, number: int) -> list[GroupId]:
        """Count a gateway's confirmation that a lease has ended; return its group if it was the last one."""
        gateway = self._gateways.get(peer)
        leased = None if gateway is None else gateway.ended.pop(number, None)
        if gateway is None or leased is None:
            return []
        for member in leased.members.values():
            gateway.members.pop(member, None)
        return self._is_confirmed(leased.id)

    def _is_confirmed(self, group: GroupId) -> list[GroupId]:
        self._awaited[group] -= 1
        if self._awaited[group]:
            return []
        del self._awaited[group]
        return [group]

    def left(self, peer: Peer) -> tuple[list[SeenHeartbeat], list[GroupId]]:
        """Drop a lost gateway; return heartbeats that it can have seen after the last report of each member.

        If only its process has ended, what it had sent has arrived, and no member expires early. If its node is lost or
        cut off, reports of its last ``LEASE_MS`` may be lost, too: those heartbeats do not count, although they were
        answered.

        Also returns the groups for which it was the last to confirm something.
        """
        gateway = self._gateways.pop(peer, None)
        if gateway is None:
            return [], []
        seen = [
            SeenHeartbeat(member.group, member.id, member.seen_ms + REPORT_MS)
            for member in gateway.members.values()
            if member.seen_ms is not None
        ]
        return seen, [group for leased in gateway.ended.values() for group in self._is_confirmed(leased.id)]
