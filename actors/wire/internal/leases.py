"""Leases that came on a coordinator's channel: what a gateway may answer for it.

See :mod:`muster.actors.group.lease` for their rules.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from enum import Enum, auto

from muster.actors.wire.internal import envelope
from muster.actors.wire.internal.envelope import Kind
from muster.placement.lease import LEASE_MS, REPORT_MS

_LEASE_S = LEASE_MS / 1000
_PING_S = _LEASE_S / 4
"""How often a coordinator that has given leases is pinged."""
_REPORT_S = REPORT_MS / 1000
_BATCH_S = 0.005
"""At most every so often, members are reported at once; those that come in between are reported and answered together.
A report by itself costs the coordinator 55 us of processor time, and a heartbeat is in no hurry."""


class GroupLease:
    """The lease of a group, until the coordinator ends it."""

    __slots__ = ("is_revoked",)

    def __init__(self, *, is_revoked: bool = False) -> None:
        self.is_revoked = is_revoked


_OVER = GroupLease(is_revoked=True)


class Use(Enum):
    """Whether a gateway may answer a heartbeat."""

    YES = auto()
    NO = auto()
    LATER = auto()
    """After a report of this heartbeat, which is due soon, together with those of others."""


class MemberLease:
    """Permits a gateway to answer one member's heartbeats."""

    __slots__ = ("_group", "_leases", "is_reported", "is_waiting", "number", "reported_s", "seen_s")

    def __init__(self, leases: ChannelLeases, group: GroupLease, number: int) -> None:
        self._leases = leases
        self._group = group
        self.number = number
        self.seen_s: float | None = None
        """When the last heartbeat that is not reported yet was received."""
        self.reported_s = 0.0
        """When the last one that is reported was received."""
        self.is_waiting = False
        """Whether a heartbeat waits for its report."""
        self.is_reported = False
        """Whether that report has just been sent."""

    def use(self, now_s: float, again: Callable[[], None]) -> Use:
        """Whether a heartbeat may be answered, which is then reported. ``now_s``: of ``time.monotonic``.

        If it may be later, ``again`` is called then, and the answer to this is another one.
        """
        if self._group.is_revoked or now_s - self._leases.alive_s > _LEASE_S:
            return Use.NO
        if self.is_reported:
            self.is_reported = False
        elif self.is_waiting:
            return Use.LATER
        elif self.seen_s is not None:
            self.seen_s = now_s
        elif now_s - self.reported_s <= _REPORT_S:
            self.seen_s = now_s
            self._leases.report_repeated(self)
        else:
            self.seen_s = now_s
            return self._leases.report(self, now_s, again)
        return Use.YES

    @property
    def is_over(self) -> bool:
        """Whether it can never be used again."""
        return self._group.is_revoked


class ChannelLeases:
    """The leases of one channel; all of them end with it."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self.alive_s = 0.0
        """The latest time at which the coordinator is known to have been alive: the last ping that it sent back."""
        self._send = send
        self._groups: dict[int, GroupLease] = {}
        self._repeated: list[MemberLease] = []
        """To be reported when the timer ends."""
        self._reporting: asyncio.TimerHandle | None = None
        self._batch: list[tuple[MemberLease, Callable[[], None]]] = []
        """To be reported, and then used again, when its timer ends."""
        self._batching: asyncio.TimerHandle | None = None
        self._batched_s = 0.0
        """When the last batch was reported."""
        self._pinging: asyncio.TimerHandle | None = None
        self._is_over = False

    def grant(self, group: int, member: int) -> MemberLease:
        """Return the lease with these numbers, which the coordinator has just sent.

        It is over if the channel is closed.
        """
        if self._is_over:
            return MemberLease(self, _OVER, member)
        found = self._groups.get(group)
        if found is None:
            found = self._groups[group] = GroupLease()
            if self._pinging is None:
                self._ping()
        return MemberLease(self, found, member)

    def _ping(self) -> None:
        """Ping the coordinator from the first lease to the last. It sends the time of the ping back."""
        self._pinging = None
        if self._groups:
            self.ping()
            self._pinging = asyncio.get_running_loop().call_later(_PING_S, self._ping)

    def ping(self) -> None:
        """Ping the actor at the other end, whichever it is."""
        self._send(envelope.write_ping(int(time.monotonic() * 1000)))

    def alive(self, pinged_ms: int) -> None:
        """Note the coordinator's response to the ping of that time: every end of a lease before it has arrived."""
        self.alive_s = pinged_ms / 1000

    def revoke(self, group: int) -> None:
        """End the group's lease for the coordinator, which waits for what was answered until now."""
        if (found := self._groups.pop(group, None)) is not None:
            found.is_revoked = True
        if self._reporting is not None:
            self._reporting.cancel()
            self._report_repeated()
        self._send(envelope.token_head(Kind.REVOKED, group))

    def report(self, lease: MemberLease, now_s: float, again: Callable[[], None]) -> Use:
        """Report the lease's heartbeat before it is answered: at once, or soon if others were a moment ago."""
        wait_s = self._batched_s + _BATCH_S - now_s
        if wait_s <= 0 and not self._batch:
            self._batched_s = now_s
            self._report([lease])
            return Use.YES
        lease.is_waiting = True
        self._batch.append((lease, again))
        if self._batching is None:
            self._batching = asyncio.get_running_loop().call_later(wait_s, self._report_batch)
        return Use.LATER

    def _report_batch(self) -> None:
        self._batching = None
        self._batched_s = time.monotonic()
        batch, self._batch = self._batch, []
        self._report([lease for lease, _ in batch if not lease.is_over])
        for lease, again in batch:
            lease.is_waiting, lease.is_reported = False, True
            again()
            lease.is_reported = False

    def report_repeated(self, lease: MemberLease) -> None:
        """Report the lease's heartbeat within ``REPORT_MS``, together with those of others."""
        self._repeated.append(lease)
        if self._reporting is None:
            self._reporting = asyncio.get_running_loop().call_later(_REPORT_S, self._report_repeated)

    def _report_repeated(self) -> None:
        self._reporting = None
        repeated, self._repeated = self._repeated, []
        self._report(repeated)

    def _report(self, leases: list[MemberLease]) -> None:
        now_s = time.monotonic()
        seen = []
        for lease in leases:
            assert lease.seen_s is not None
            seen.append((lease.number, int((now_s - lease.seen_s) * 1000)))
            lease.reported_s, lease.seen_s = lease.seen_s, None
        if seen:
            self._send(envelope.write_seen(seen))

    def end(self) -> None:
        """End all leases: the channel is closed, or lost. May be called again."""
        self._is_over = True
        for group in self._groups.values():
            group.is_revoked = True
        self._groups.clear()
        self._repeated.clear()
        batch, self._batch = self._batch, []
        for _, again in batch:
            asyncio.get_running_loop().call_soon(again)
        for timer in (self._reporting, self._pinging, self._batching):
            if timer is not None:
                timer.cancel()
        self._reporting = self._pinging = self._batching = None
