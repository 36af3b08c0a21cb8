"""Bytes that were sent for a group and that its commits do not explain: are they another reader's?

A group that reads again what it has committed past commits afterwards: the same offset, or a lower one, or a higher one
once it has caught up. Members need not: a program may join, seek back and leave. So bytes are in doubt if they were
sent below the group's committed offset, at a time when the group had no members, and no commit of that partition
followed. They are :data:`~muster.actors.audit.report.Cause.MISLABELLED` once attributions and commits had time to
arrive, unless a commit within AT_WORK_MS shows that the group was at work.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from muster.actors.audit.members import Period, had_members
from muster.actors.audit.spans import Spans

AT_WORK_MS = 600_000
"""How long after it was sent something, a group's commit shows that the group was sent it."""
MAX_DOUBTS = 64


@dataclass(slots=True)
class Doubt:
    """Bytes that one run sent below the committed offset."""

    at_ms: int
    """When it was sent."""
    since_ms: int
    """When it was counted."""
    bytes: int
    behind: Spans
    """Offsets not sent to the group before, from before the first observed commit."""
    is_judged: bool = False


@dataclass(slots=True)
class Doubts:
    """Doubts of one series."""

    _doubts: list[Doubt] = field(default_factory=list)
    _bytes: int = 0
    """Bytes of doubts that nothing can explain any more."""

    @property
    def wait(self) -> bool:
        """Whether there is something to judge."""
        return any(not each.is_judged for each in self._doubts)

    @property
    def mislabelled_bytes(self) -> int:
        return self._bytes + sum(each.bytes for each in self._doubts if each.is_judged)

    def edges(self) -> Iterator[int]:
        for each in self._doubts:
            for span in each.behind:
                yield from span

    def add(self, doubt: Doubt) -> None:
        self._doubts.append(doubt)
        if len(self._doubts) > MAX_DOUBTS:
            self._end(self._doubts[0])

    def committed(self, at_ms: int) -> list[Doubt]:
        """Count a commit of the group; return the doubts that it explains."""
        return self._explained([each for each in self._doubts if each.at_ms <= at_ms <= each.at_ms + AT_WORK_MS])

    def judge(self, periods: Collection[Period], now_ms: int, ripe_ms: int) -> list[Doubt]:
        """Judge those that were counted by ``ripe_ms``; returns what members explain.

        ``periods``: when the group had members.
        """
        explained = self._explained([each for each in self._doubts if had_members(periods, each.at_ms)])
        for each in self._doubts:
            each.is_judged |= each.since_ms <= ripe_ms
        for each in [each for each in self._doubts if each.is_judged and each.since_ms + AT_WORK_MS < now_ms]:
            self._end(each)
        return explained

    def _explained(self, these: list[Doubt]) -> list[Doubt]:
        for each in these:
            self._doubts.remove(each)
        return these

    def _end(self, doubt: Doubt) -> None:
        self._doubts.remove(doubt)
        if doubt.is_judged:
            self._bytes += doubt.bytes
