"""The candidates of one (host, client id): who owned which partitions, and when.

The principal is the third part of the key. It is compared claim by claim, since a registration whose principal is not
known (None) is every principal's; and so is a question that names none.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

Key = tuple[str, str | None]
"""(host, client id). The host is canonical text; None and "" are different client ids."""
Place = tuple[str, int]
"""(topic, partition)."""
FOREVER_MS = 1 << 62
LAG_MS = 5_000
"""Longest time that a registration is expected to reach a gateway after its member's first Fetch."""
SIMPLE_MS = 10_000
"""How long a simple consumer may fetch a partition before it commits it, or asks for its offset."""
_MAX_ENDED = 8


@dataclass(frozen=True, slots=True)
class Observation:
    """Somebody fetched that partition from ``first_ms`` to ``last_ms``."""

    place: Place
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class Tenure:
    """What one member owned from ``since_ms`` to ``until_ms``."""

    partitions: frozenset[Place] | None
    """None: not known."""
    member: bool
    """Of the group, so that it may own what is not known; a simple consumer owns what it was seen to commit."""
    since_ms: int
    """When it was heard of; 0 when it began at an unknown time before that."""
    principal: str | None = None
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
    principal: str | None
    since_ms: int
    first_ms: int
    last_ms: int
    of_member: bool
    """As in :class:`Tenure`."""

    def holds(self, at_ms: int, principal: str | None) -> bool:
        return self.first_ms <= at_ms <= self.last_ms and same_principal(self.principal, principal)


def same_principal(one: str | None, other: str | None) -> bool:
    """Whether they may be one: None is not known."""
    return one == other or one is None or other is None


@dataclass(slots=True)
class _History:
    current: Tenure | None = None
    ended: tuple[Tenure, ...] = ()


@dataclass(slots=True)
class _Index:
    owners: dict[Place, list[Claim]] = field(default_factory=dict)
    opaque: list[Claim] = field(default_factory=list)
    simple: list[Claim] = field(default_factory=list)
    groups: dict[tuple[str, str | None], tuple[int, int]] = field(default_factory=dict)
    """(group, principal) -> lowest first_ms and highest last_ms of its candidates."""
    changes: dict[str, list[int]] = field(default_factory=dict)
    """Group -> when its tenures began and ended."""
    boundaries: list[int] = field(default_factory=list)
    """Times at which claims lapse, ascending."""

    def add(self, claim: Claim, tenure: Tenure) -> None:
        owner = (claim.group, claim.principal)
        first, last = self.groups.get(owner, (claim.first_ms, claim.last_ms))
        self.groups[owner] = (min(first, claim.first_ms), max(last, claim.last_ms))
        ended = () if tenure.until_ms == FOREVER_MS else (tenure.until_ms,)
        self.changes.setdefault(claim.group, []).extend((tenure.since_ms, *ended))
        if tenure.partitions is not None:
            for owned in tenure.partitions:
                self.owners.setdefault(owned, []).append(claim)
        if not tenure.member:
            self.simple.append(claim)
        elif tenure.partitions is None:
            self.opaque.append(claim)


class Slot:
    """Mutable; ``version`` is unique over all slots and time, and changes with every change of the candidates."""

    __slots__ = ("_grace_ms", "_histories", "_index", "version")

    def __init__(self, grace_ms: int) -> None:
        self.version = 0
        self._grace_ms = grace_ms
        self._histories: dict[tuple[str, str], _History] = {}
        self._index: _Index | None = None

    def owners(self, topic: str, partition: int, at_ms: int, principal: str | None = None) -> list[Claim]:
        """Who is known to own the partition, or did until less than the grace time before ``at_ms``."""
        claims = self._indexed().owners.get((topic, partition), ())
        return [claim for claim in claims if claim.holds(at_ms, principal)]

    def opaque(self, at_ms: int, principal: str | None = None) -> list[Claim]:
        """Members whose assignment is not known (not synced yet, or not a consumer's)."""
        return [claim for claim in self._indexed().opaque if claim.holds(at_ms, principal)]

    def has_other(self, than: str | None, at_ms: int, principal: str | None = None) -> bool:
        """Whether any other group has a candidate here at that time, with the grace time."""
        return any(
            group != than and first <= at_ms <= last and same_principal(owner, principal)
            for (group, owner), (first, last) in self._indexed().groups.items()
        )

    def groups(self, at_ms: int, principal: str | None = None) -> set[str]:
        """All groups that have a candidate here at that time, with the grace time."""
        return {
            group
            for (group, owner), (first, last) in self._indexed().groups.items()
            if first <= at_ms <= last and same_principal(owner, principal)
        }

    def candidates(self, at_ms: int) -> set[tuple[str, str | None]]:
        """(group, principal) of every candidate at that time, with the grace time."""
        return {owner for owner, (first, last) in self._indexed().groups.items() if first <= at_ms <= last}

    def possible(self, place: Place, at_ms: int, principal: str | None = None) -> set[str]:
        """The groups that may have fetched the partition then: of its owners, and of those who may own anything."""
        owners = self.owners(*place, at_ms, principal)
        return {claim.group for claim in (*owners, *self.opaque(at_ms, principal))}

    def fitting(self, observations: Iterable[Observation], principal: str | None) -> set[str]:
        """The groups of which one client may have fetched all that: some member owns every partition, or may.

        Each partition is judged for the last time that it was fetched. Of a group whose registrations changed
        meanwhile several members may together: one may be the other under a new member id. A simple consumer may
        have fetched what it did not commit yet.
        """
        index = self._indexed()
        seen = list(observations)
        members: set[tuple[str, str]] | None = None
        groups: set[str] | None = None
        for observation in seen:
            claims = list(self._possible(index, observation, principal))
            owners = {(claim.group, claim.member_id) for claim in claims}
            members = owners if members is None else members & owners
            owning = {claim.group for claim in claims}
            groups = owning if groups is None else groups & owning
        if members is None or groups is None:
            return set()
        since_ms = min(observation.last_ms for observation in seen) - LAG_MS
        until_ms = max(observation.last_ms for observation in seen) + LAG_MS
        unsettled = {group for group in groups if any(since_ms <= at_ms <= until_ms for at_ms in index.changes[group])}
        return {group for group, _ in members} | unsettled

    @staticmethod
    def _possible(index: _Index, observation: Observation, principal: str | None) -> Iterator[Claim]:
        at_ms = observation.last_ms
        for claims in (index.owners.get(observation.place, ()), index.opaque):
            yield from (claim for claim in claims if claim.holds(at_ms, principal))
        if at_ms - observation.first_ms < SIMPLE_MS:
            yield from (claim for claim in index.simple if claim.holds(at_ms, principal))

    def constant_until_ms(self, at_ms: int) -> int:
        """Without a new version, answers for times from ``at_ms`` to this one (inclusive) are the same."""
        boundaries = self._indexed().boundaries
        position = bisect_left(boundaries, at_ms)
        return boundaries[position] if position < len(boundaries) else FOREVER_MS

    def begin(self, member: tuple[str, str], tenure: Tenure) -> None:
        """The member owns this from now on; what it owned before must have ended."""
        self._histories.setdefault(member, _History()).current = tenure

    def reveal(self, member: tuple[str, str], principal: str) -> None:
        """The principal of a member that was registered without one."""
        history = self._histories[member]
        history.ended = tuple(_revealed(tenure, principal) for tenure in history.ended)
        if history.current is not None:
            history.current = _revealed(history.current, principal)

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
                claim = Claim(
                    group, member_id, tenure.principal, tenure.since_ms, tenure.first_ms, last_ms, tenure.member
                )
                index.add(claim, tenure)
                if last_ms < FOREVER_MS:
                    boundaries.add(last_ms)
        index.boundaries = sorted(boundaries)
        return index


def _revealed(tenure: Tenure, principal: str) -> Tenure:
    return replace(tenure, principal=principal) if tenure.principal is None else tenure


def _bounded(ended: tuple[Tenure, ...]) -> tuple[Tenure, ...]:
    """At most _MAX_ENDED tenures, the oldest merged: they may then claim too much, which costs a label at worst."""
    if len(ended) <= _MAX_ENDED:
        return ended
    first, second, *rest = ended
    merged = replace(
        second,
        partitions=(first.partitions or frozenset()) | (second.partitions or frozenset()),
        since_ms=min(first.since_ms, second.since_ms),
        principal=second.principal if first.principal == second.principal else None,
    )
    return (merged, *rest)
