"""Claims: which members may have fetched a partition at some time, indexed by what is asked about them.

A key may have thousands of candidates, as all librdkafka clients of a host have one, and each of them changes when it
joins. So the index follows each change, and is not built again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

Place = tuple[str, int]
"""(topic, partition)."""
Owner = tuple[str, str | None]
"""(group, principal)."""
FOREVER_MS = 1 << 62


class Reader(NamedTuple):
    """The reader of a connection, as far as the connection shows it."""

    principal: str | None = None
    """None: any principal."""
    opened_ms: int = 0
    """When the connection was opened; 0 if not known."""
    active_ms: int = 0
    """A time after which it has sent a Fetch."""
    simple_of: frozenset[str] | None = None
    """The groups for which it fetches without membership; None: any. A simple consumer's claim holds for no others."""

    def may_be(self, claim: Claim) -> bool:
        """Whether the claim may be that reader's, apart from time."""
        return same_principal(claim.principal, self.principal) and (
            claim.of_member or self.simple_of is None or claim.group in self.simple_of
        )


@dataclass(frozen=True, slots=True)
class Claim:
    """A member may have fetched a partition if it was fetched from ``first_ms`` to ``last_ms``, both inclusive."""

    group: str
    member_id: str
    principal: str | None
    since_ms: int
    first_ms: int
    last_ms: int
    of_member: bool
    """Equal to :class:`~muster.gateway.attribution.slot.Tenure`'s."""
    left_ms: int
    """When the member had left with LeaveGroup; a connection that was opened later is not its own."""
    places: frozenset[Place] | None
    """The partitions of its tenure; None if not known."""
    until_ms: int
    """When its tenure ended."""

    @property
    def is_current(self) -> bool:
        return self.until_ms == FOREVER_MS


@dataclass(slots=True)
class Comparisons:
    """How many claims have been compared with what was fetched: most of the time that verdicts take."""

    count: int = 0


class Claims:
    """Current claims, one of each member, and those that ended, by the time they end.

    Those that ended before a connection was opened are skipped for it.
    """

    __slots__ = ("_by_end", "_by_group", "_comparisons", "_current", "_ended", "_ends_ms", "_is_sorted")

    def __init__(self, comparisons: Comparisons) -> None:
        self._comparisons = comparisons
        self._current: dict[tuple[str, str], Claim] = {}
        self._ended: dict[Claim, None] = {}
        """In the order of their ends, nearly."""
        self._by_end: list[Claim] = []
        self._ends_ms: list[int] = []
        self._is_sorted = True
        self._by_group: dict[str, Claims] = {}

    def add(self, claim: Claim) -> None:
        if claim.is_current:
            self._current[claim.group, claim.member_id] = claim
        else:
            self._ended[claim] = None
            self._is_sorted = False
        if self._by_group:
            self._by_group.setdefault(claim.group, Claims(self._comparisons)).add(claim)

    def discard(self, claim: Claim) -> None:
        if claim.is_current:
            del self._current[claim.group, claim.member_id]
        else:
            del self._ended[claim]
            self._is_sorted = False
        if self._by_group:
            self._by_group[claim.group].discard(claim)
            if not self._by_group[claim.group]:
                del self._by_group[claim.group]

    def __bool__(self) -> bool:
        return bool(self._current or self._ended)

    def of(self, group: str) -> Claims | None:
        """Return the claims of that group."""
        if not self._by_group:
            for claim in (*self._ended, *self._current.values()):
                self._by_group.setdefault(claim.group, Claims(self._comparisons)).add(claim)
        return self._by_group.get(group)

    def holding(self, at_ms: int, by: Reader) -> list[Claim]:
        """Return the claims that hold at that time for that reader."""
        principal, opened_ms, _, simple_of = by
        found = [
            claim
            for claim in self._current.values()
            if claim.first_ms <= at_ms
            and (claim.principal == principal or claim.principal is None or principal is None)
            and (claim.of_member or simple_of is None or claim.group in simple_of)
        ]
        ended = self._since(min(at_ms, opened_ms))
        self._comparisons.count += len(self._current) + len(ended)
        found += (
            claim
            for claim in ended
            if claim.first_ms <= at_ms <= claim.last_ms and opened_ms <= claim.left_ms and by.may_be(claim)
        )
        return found

    def _since(self, time_ms: int) -> list[Claim]:
        if not self._is_sorted:
            self._by_end = sorted(self._ended, key=_end_ms)
            self._ends_ms = [_end_ms(claim) for claim in self._by_end]
            self._is_sorted = True
        return self._by_end[bisect_left(self._ends_ms, time_ms) :]


def _changes(claim: Claim) -> tuple[int, ...]:
    """When its tenure began, and ended if it has."""
    return (claim.since_ms,) if claim.is_current else (claim.since_ms, claim.until_ms)


def _end_ms(claim: Claim) -> int:
    return min(claim.last_ms, claim.left_ms)


def same_principal(one: str | None, other: str | None) -> bool:
    """Whether they may be the same; None is unknown."""
    return one == other or one is None or other is None


@dataclass(frozen=True, slots=True)
class Presence:
    """The presence of all candidates of one group and principal."""

    first_ms: int
    last_ms: int
    left_ms: int
    """When the last of them had left with LeaveGroup; FOREVER_MS if one is present, or ended in another way."""
    is_simple: bool
    """Whether none of them is a member."""

    def holds(self, at_ms: int, opened_ms: int = 0) -> bool:
        return self.first_ms <= at_ms <= self.last_ms and opened_ms <= self.left_ms


@dataclass(slots=True)
class _Owned:
    current: dict[str, Claim] = field(default_factory=dict)
    """By member id."""
    ended: set[Claim] = field(default_factory=set)

    def presence(self) -> Presence | None:
        claims = [*self.current.values(), *self.ended]
        if not claims:
            return None
        return Presence(
            min(claim.first_ms for claim in claims),
            max(claim.last_ms for claim in claims),
            max(claim.left_ms for claim in claims),
            not any(claim.of_member for claim in claims),
        )


@dataclass(slots=True)
class Index:
    """The claims of one key."""

    comparisons: Comparisons
    owners: dict[Place, Claims] = field(default_factory=dict)
    opaque: Claims = field(init=False)
    """Claims of members that may own anything."""
    simple: Claims = field(init=False)
    changes: dict[str, list[int]] = field(default_factory=dict)
    """By group: when its tenures began and ended."""
    count: int = 0
    """The number of tenures that have not ended."""
    boundaries: list[int] = field(default_factory=list)
    """Times at which claims expire, ascending."""
    _expiring: Counter[int] = field(default_factory=Counter)
    """How many expire at each of them."""
    _owned: dict[Owner, _Owned] = field(default_factory=dict)
    _presences: dict[Owner, Presence] = field(default_factory=dict)
    _stale: set[Owner] = field(default_factory=set)
    """Owners whose presence has to be determined again."""

    def __post_init__(self) -> None:
        self.opaque, self.simple = Claims(self.comparisons), Claims(self.comparisons)

    def add(self, claim: Claim) -> None:
        owner = (claim.group, claim.principal)
        owned = self._owned.setdefault(owner, _Owned())
        self._stale.add(owner)
        if claim.is_current:
            owned.current[claim.member_id] = claim
            self.count += 1
        else:
            owned.ended.add(claim)
            self._expires(claim.last_ms, 1)
        self.changes.setdefault(claim.group, []).extend(_changes(claim))
        for claims in self._with(claim):
            claims.add(claim)

    def discard(self, claim: Claim) -> None:
        """Remove a claim that was added."""
        owner = (claim.group, claim.principal)
        owned = self._owned[owner]
        self._stale.add(owner)
        if claim.is_current:
            del owned.current[claim.member_id]
            self.count -= 1
        else:
            owned.ended.remove(claim)
            self._expires(claim.last_ms, -1)
        changes = self.changes[claim.group]
        for at_ms in _changes(claim):
            changes.remove(at_ms)
        if not changes:
            del self.changes[claim.group]
        for claims in self._with(claim):
            claims.discard(claim)
        for place in claim.places or ():
            if not self.owners[place]:
                del self.owners[place]

    def _expires(self, at_ms: int, number: int) -> None:
        """So many more claims expire then."""
        if at_ms >= FOREVER_MS:
            return
        position = bisect_left(self.boundaries, at_ms)
        if not self._expiring[at_ms]:
            self.boundaries.insert(position, at_ms)
        self._expiring[at_ms] += number
        if not self._expiring[at_ms]:
            del self._expiring[at_ms], self.boundaries[position]

    def presences(self) -> Mapping[Owner, Presence]:
        for owner in self._stale:
            presence = self._owned[owner].presence()
            if presence is None:
                del self._owned[owner]
                self._presences.pop(owner, None)
            else:
                self._presences[owner] = presence
        self._stale.clear()
        self.comparisons.count += len(self._presences)
        return self._presences

    def owning(self, place: Place, at_ms: int, by: Reader, group: str | None = None) -> list[Claim]:
        claims = self.owners.get(place)
        if claims is not None and group is not None:
            claims = claims.of(group)
        return [] if claims is None else claims.holding(at_ms, by)

    def _with(self, claim: Claim) -> Iterable[Claims]:
        for place in claim.places or ():
            yield self.owners.setdefault(place, Claims(self.comparisons))
        if not claim.of_member:
            yield self.simple
        elif claim.places is None:
            yield self.opaque
