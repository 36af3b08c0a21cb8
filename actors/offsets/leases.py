"""The leases that gateways have of one partition's groups: see :mod:`muster.actors.group.lease`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count

from muster.actors.group.lease import SeenHeartbeat
from muster.actors.group.types import GroupId, MemberId
from muster.actors.wire import envelope
from muster.actors.wire.envelope import Kind, SeenLease
from muster.actors.wire.server import Peer


@dataclass(slots=True)
class _Leased:
    """What one gateway has of one group."""

    number: int
    members: dict[MemberId, int] = field(default_factory=dict)


class Leases:
    """Numbers groups and members for the gateways, in the order in which they get them."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._groups: defaultdict[Peer, dict[GroupId, _Leased]] = defaultdict(dict)
        self._members: defaultdict[Peer, dict[int, tuple[GroupId, MemberId]]] = defaultdict(dict)
        self._ended: dict[tuple[Peer, int], tuple[GroupId, _Leased]] = {}
        """Leases that have ended, and whose gateways have not confirmed it; what these report still counts."""
        self._awaited: Counter[GroupId] = Counter()
        """How many of them a group has."""

    def reply(self, peer: Peer, token: int, frame: bytes, group: GroupId, member: MemberId) -> None:
        """Answer a heartbeat, with a lease of its member."""
        leased = self._groups[peer].get(group)
        if leased is None:
            leased = self._groups[peer][group] = _Leased(next(self._numbers))
        number = leased.members.get(member)
        if number is None:
            number = leased.members[member] = next(self._numbers)
            self._members[peer][number] = (group, member)
        peer.send(envelope.lease_head(token, leased.number, number), frame)

    def revoke(self, groups: Iterable[GroupId]) -> list[GroupId]:
        """End the groups' leases. Returns the groups that no gateway has to confirm."""
        for group in groups:
            for peer, known in self._groups.items():
                if (leased := known.pop(group, None)) is not None:
                    peer.send(envelope.token_head(Kind.REVOKED, leased.number))
                    self._ended[peer, leased.number] = group, leased
                    self._awaited[group] += 1
        return [group for group in groups if group not in self._awaited]

    def seen(self, peer: Peer, leases: Iterable[SeenLease], now_ms: int) -> Iterator[SeenHeartbeat]:
        """The heartbeats that a gateway reports."""
        known = self._members[peer]
        for number, age_ms in leases:
            if (found := known.get(number)) is not None:
                yield SeenHeartbeat(*found, now_ms - age_ms)

    def confirmed(self, peer: Peer, number: int) -> list[GroupId]:
        """The gateway does not use that lease any more. Returns its group if that was the last one to be confirmed."""
        found = self._ended.pop((peer, number), None)
        if found is None:
            return []
        group, leased = found
        for member in leased.members.values():
            self._members[peer].pop(member, None)
        self._awaited[group] -= 1
        if self._awaited[group]:
            return []
        del self._awaited[group]
        return [group]

    def left(self, peer: Peer, now_ms: int) -> tuple[list[SeenHeartbeat], list[GroupId]]:
        """The gateway is gone, and so is what it has not reported: each of its members may have been seen just now.

        Also returns the groups for which it was the last to confirm something.
        """
        self._groups.pop(peer, None)
        seen = [SeenHeartbeat(group, member, now_ms) for group, member in self._members.pop(peer, {}).values()]
        ended = [number for each, number in self._ended if each is peer]
        confirmed = [group for number in ended for group in self.confirmed(peer, number)]
        self._members.pop(peer, None)
        return seen, confirmed
