"""The candidates of one (host, client id): who owned which partitions, and when."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, replace

Key = tuple[str, str | None]
"""(host, client id). The host is canonical text; None and "" are different client ids."""
FOREVER_MS = 1 << 62
LAG_MS = 5_000
"""Longest time that a registration is expected to reach a gateway after its member's first Fetch."""
_MAX_ENDED = 8


@dataclass(frozen=True, slots=True)
class Tenure:
    """What one member owned from ``since_ms`` to ``until_ms``."""

    partitions: frozenset[tuple[str, int]] | None
    """None: not known."""
    member: bool
    """Of the group, so that it may own what is not known; a simple consumer owns what it was seen to commit."""
    since_ms: int
    """When it was heard of; 0 when it began at an unknown time before that."""
    until_ms: int = FOREVER_MS

    @property
    def first_ms(self) -> int:
        """Bytes that were sent before this time were not fetched by this right.

        A member is registered before it fetches, and the statement comes soon. A simple consumer is heard of at its
        first commit, any time later; and a snapshot tells nothing of the time before.
        """
        return max(0, self.since_ms - LAG_MS) if self.member else 0


@dataclass(frozen=True, slots=True)
class Claim:
    """A member may have fetched a partition, if from ``first_ms`` to ``last_ms``, both inclusive."""

    group: str
    member_id: str
    since_ms: int
    first_ms: int
    last_ms: int


@dataclass(slots=True)
class _History:
    current: Tenure | None = None
    ended: tuple[Tenure, ...] = ()


@dataclass(slots=True)
class _Index:
    owners: dict[tuple[str, int], list[Claim]] = field(default_factory=dict)
    opaque: list[Claim] = field(default_factory=list)
    groups: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Group -> lowest first_ms and highest last_ms of its candidates."""
    boundaries: list[int] = field(default_factory=list)
    """Times at which claims lapse, ascending."""


class Slot:
    """Mutable; ``version`` is unique over all slots and time, and changes with every change of the candidates."""

    __slots__ = ("_grace_ms", "_histories", "_index", "version")

    def __init__(self, grace_ms: int) -> None:
        self.version = 0
        self._grace_ms = grace_ms
        self._histories: dict[tuple[str, str], _History] = {}
        self._index: _Index | None = None

    def owners(self, topic: str, partition: int, at_ms: int) -> list[Claim]:
        """Who is known to own the partition, or did until less than the grace time before ``at_ms``."""
        claims = self._indexed().owners.get((topic, partition), ())
        return [claim for claim in claims if claim.first_ms <= at_ms <= claim.last_ms]

    def opaque(self, at_ms: int) -> list[Claim]:
        """Members whose assignment is not known (not synced yet, or not a consumer's)."""
        return [claim for claim in self._indexed().opaque if claim.first_ms <= at_ms]

    def groups(self, at_ms: int) -> set[str]:
        """All groups that have a candidate here at that time, with the grace time."""
        return {group for group, (first, last) in self._indexed().groups.items() if first <= at_ms <= last}

    def constant_until_ms(self, at_ms: int) -> int:
        """Without a new version, answers for times from ``at_ms`` to this one (inclusive) are the same."""
        boundaries = self._indexed().boundaries
        position = bisect_left(boundaries, at_ms)
        return boundaries[position] if position < len(boundaries) else FOREVER_MS

    def begin(self, member: tuple[str, str], tenure: Tenure) -> None:
        """The member owns this from now on; what it owned before must have ended."""
        self._histories.setdefault(member, _History()).current = tenure

    def end(self, member: tuple[str, str], now_ms: int) -> None:
        """The member's tenure is over. One whose partitions were never known leaves no trace: it claims nothing."""
        history = self._histories[member]
        tenure, history.current = history.current, None
        if tenure is not None and tenure.partitions:
            history.ended = _bounded((*history.ended, replace(tenure, until_ms=now_ms)))

    def changed(self, version: int) -> None:
        """Candidates were changed; ``version`` was never used before."""
        self.version = version
        self._index = None

    def prune(self, before_ms: int) -> None:
        """Forget what ended before that time. No answer for a later time changes."""
        for member, history in list(self._histories.items()):
            kept = tuple(tenure for tenure in history.ended if tenure.until_ms >= before_ms)
            if len(kept) < len(history.ended):
                history.ended = kept
                self._index = None
            if history.current is None and not kept:
                del self._histories[member]

    @property
    def empty(self) -> bool:
        """No candidates, present or past."""
        return not self._histories

    @property
    def ending(self) -> bool:
        """Some candidates are past or have a past, so that there will be something to prune."""
        return any(history.current is None or history.ended for history in self._histories.values())

    def _indexed(self) -> _Index:
        if self._index is None:
            self._index = self._build()
        return self._index

    def _build(self) -> _Index:
        index = _Index()
        boundaries: set[int] = set()
        for (group, member_id), history in self._histories.items():
            for tenure in (*history.ended, *(() if history.current is None else (history.current,))):
                last_ms = min(tenure.until_ms + self._grace_ms, FOREVER_MS)
                claim = Claim(group, member_id, tenure.since_ms, tenure.first_ms, last_ms)
                first, last = index.groups.get(group, (claim.first_ms, last_ms))
                index.groups[group] = (min(first, claim.first_ms), max(last, last_ms))
                if last_ms < FOREVER_MS:
                    boundaries.add(last_ms)
                if tenure.partitions is not None:
                    for owned in tenure.partitions:
                        index.owners.setdefault(owned, []).append(claim)
                elif tenure.member:
                    index.opaque.append(claim)
        index.boundaries = sorted(boundaries)
        return index


def _bounded(ended: tuple[Tenure, ...]) -> tuple[Tenure, ...]:
    """At most _MAX_ENDED tenures, the oldest merged: they may then claim too much, which costs a label at worst."""
    if len(ended) <= _MAX_ENDED:
        return ended
    first, second, *rest = ended
    merged = replace(
        second,
        partitions=(first.partitions or frozenset()) | (second.partitions or frozenset()),
        since_ms=min(first.since_ms, second.since_ms),
    )
    return (merged, *rest)
