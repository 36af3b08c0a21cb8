"""The candidates of one (host, client id): who owned which partitions, and when.

The principal is the third part of the key. It is compared claim by claim, since a registration with an unknown
principal (None) matches every principal, as does a query without one.

All times are of the gateway's clock; the time of an update is when the gateway received it. That is after the event
itself, so what the gateway saw after receiving that a member left happened after it had left, despite other clocks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from muster.gateway.attribution.claims import FOREVER_MS, Claim, Comparisons, Index, Place, Reader, same_principal

ClientKey = tuple[str, str | None]
"""(host, client id). The host is canonical text; None and "" are different client ids."""
LAG_MS = 5_000
"""The longest expected time from a member's first Fetch until its registration reaches a gateway."""
SIMPLE_MS = 10_000
"""How long a simple consumer may fetch a partition before it commits it."""
_MAX_ENDED = 8


ANYBODY = Reader()


@dataclass(frozen=True, slots=True)
class Observation:
    """The partition was fetched from ``first_ms`` to ``last_ms``."""

    place: Place
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class Tenure:
    """Partitions of one member from ``since_ms`` to ``until_ms``."""

    partitions: frozenset[Place] | None
    """None if not known."""
    member: bool
    """Whether it is a group member, which may own unknown partitions; a simple consumer owns what it committed."""
    since_ms: int
    """When its registration was received; 0 if it began at an unknown time before that."""
    principal: str | None = None
    heard_ms: int = -1
    """Time after which it certainly began: all that coordinators had sent by then was received, without it."""
    until_ms: int = FOREVER_MS

    @property
    def first_ms(self) -> int:
        """Bytes that were sent before this time do not belong to this tenure.

        A member is registered before it fetches, and the update comes soon. A simple consumer becomes known with its
        first commit, at any later time; and a snapshot says nothing about the time before. A reader that fetched a
        partition before this time did not begin in this tenure, either.
        """
        return max(0, self.since_ms - LAG_MS, self.heard_ms + 1) if self.member else 0


@dataclass(slots=True)
class _History:
    current: Tenure | None = None
    ended: tuple[Tenure, ...] = ()
    left_ms: int = FOREVER_MS
    """When the member had left with LeaveGroup: it had stopped fetching before."""


class Slot:
    """Mutable; ``version`` is unique over all slots and time, and changes with every change of the candidates."""

    __slots__ = ("_comparisons", "_grace_ms", "_histories", "_index", "_whole_since_ms", "version")

    def __init__(self, grace_ms: int, comparisons: Comparisons | None = None) -> None:
        self.version = 0
        self._comparisons = comparisons or Comparisons()
        self._grace_ms = grace_ms
        self._histories: dict[tuple[str, str], _History] = {}
        self._index: Index | None = None
        self._whole_since_ms = 0
        """Some tenures that ended before this time have been forgotten."""

    @property
    def count(self) -> int:
        """The number of current candidates."""
        return self._indexed().count

    def owners(
        self, topic: str, partition: int, at_ms: int, by: Reader = ANYBODY, *, group: str | None = None
    ) -> list[Claim]:
        """Return the claims of owners of the partition, also those that ended within the grace time before then.

        ``group``: only those of that group.
        """
        return self._indexed().owning((topic, partition), at_ms, by, group)

    def opaque(self, at_ms: int, by: Reader = ANYBODY) -> list[Claim]:
        """Members whose assignment is not known (not synced yet, or not a consumer's)."""
        return self._indexed().opaque.holding(at_ms, by)

    def has_other(self, than: str | None, at_ms: int, by: Reader = ANYBODY) -> bool:
        """Whether any other group has a candidate here at that time, including the grace time."""
        return any(group != than for group, _ in self._present(at_ms, by))

    def candidates(self, at_ms: int, by: Reader = ANYBODY) -> set[tuple[str, str | None]]:
        """(group, principal) of every candidate at that time, including the grace time."""
        return set(self._present(at_ms, by))

    def _present(self, at_ms: int, by: Reader) -> Iterator[tuple[str, str | None]]:
        for (group, owner), presence in self._indexed().presences().items():
            if (
                presence.holds(at_ms, by.opened_ms)
                and same_principal(owner, by.principal)
                and (by.simple_of is None or not presence.is_simple or group in by.simple_of)
            ):
                yield group, owner

    def possible(self, place: Place, at_ms: int, by: Reader = ANYBODY) -> set[str]:
        """Return the groups that may have fetched then: those of owners, and of members that may own anything."""
        owners = self.owners(*place, at_ms, by)
        return {claim.group for claim in (*owners, *self.opaque(at_ms, by))}

    def commits(self, group: str, at_ms: int, by: Reader = ANYBODY) -> bool:
        """Whether a client without membership has committed for that group, of any partition or of none."""
        return any(claim.group == group for claim in self._indexed().simple.holding(at_ms, by))

    def absent(self, groups: Iterable[str], observations: Iterable[Observation], by: Reader) -> set[str]:
        """Return the groups that cannot have fetched all of that from beginning to end.

        Either a partition was fetched when the group had no right to it yet, or Fetches are sent although the group's
        last client here has left with LeaveGroup. For connections that one client uses.
        """
        index, found = self._indexed(), set(groups)
        began = set(found)
        for observation in observations:
            at_ms = max(observation.first_ms, self._whole_since_ms)
            owners, others = index.owning(observation.place, at_ms, by), index.opaque.holding(at_ms, by)
            claims = (*owners, *others, *index.simple.holding(at_ms, by))
            began &= {claim.group for claim in claims}
        left_ms: dict[str, int] = {}
        for (group, owner), presence in index.presences().items():
            if group in found and same_principal(owner, by.principal):
                left_ms[group] = max(left_ms.get(group, 0), presence.left_ms)
        return (found - began) | {group for group, at_ms in left_ms.items() if at_ms < by.active_ms}

    def fitting(self, observations: Iterable[Observation], by: Reader) -> set[str]:
        """Return the groups that may have fetched all of that: one member owns, or may own, every partition.

        Each partition is judged for the last time that it was fetched. If a group's registrations changed meanwhile,
        several of its members count together: one may be the other under a new member id. A simple consumer may have
        fetched what it has not committed yet.
        """
        index = self._indexed()
        seen = list(observations)
        members: set[tuple[str, str]] | None = None
        groups: set[str] | None = None
        for observation in seen:
            claims = self._possible(index, observation, by)
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
    def _possible(index: Index, observation: Observation, by: Reader) -> list[Claim]:
        at_ms = observation.last_ms
        claims = index.owning(observation.place, at_ms, by) + index.opaque.holding(at_ms, by)
        return claims + index.simple.holding(at_ms, by) if at_ms - observation.first_ms < SIMPLE_MS else claims

    def constant_until_ms(self, at_ms: int) -> int:
        """Without a new version, results for times from ``at_ms`` to this one (inclusive) are the same."""
        boundaries = self._indexed().boundaries
        position = bisect_left(boundaries, at_ms)
        return boundaries[position] if position < len(boundaries) else FOREVER_MS

    def begin(self, member: tuple[str, str], tenure: Tenure) -> None:
        """Begin a tenure of the member; the previous one must have ended."""
        with self._changing(member):
            history = self._histories.setdefault(member, _History())
            history.current, history.left_ms = tenure, FOREVER_MS

    def reveal(self, member: tuple[str, str], principal: str) -> None:
        """Set the principal of a member that was registered without one."""
        with self._changing(member):
            history = self._histories[member]
            history.ended = tuple(_revealed(tenure, principal) for tenure in history.ended)
            if history.current is not None:
                history.current = _revealed(history.current, principal)

    def end(self, member: tuple[str, str], now_ms: int, *, left: bool = False) -> None:
        """End the member's tenure; ``left``: the member left with LeaveGroup.

        A tenure whose partitions were never known leaves no trace: it claims nothing.
        """
        with self._changing(member):
            history = self._histories[member]
            tenure, history.current = history.current, None
            if left:
                history.left_ms = now_ms
            if tenure is not None and tenure.partitions:
                history.ended = _bounded((*history.ended, replace(tenure, until_ms=now_ms)))

    def changed(self, version: int) -> None:
        """Record that candidates changed; ``version`` was never used before."""
        self.version = version

    def prune(self, before_ms: int) -> None:
        """Forget what ended before that time. No result for a later time changes."""
        for member, history in list(self._histories.items()):
            kept = tuple(tenure for tenure in history.ended if tenure.until_ms >= before_ms)
            if len(kept) < len(history.ended):
                with self._changing(member):
                    history.ended = kept
                self._whole_since_ms = max(self._whole_since_ms, before_ms)
            if history.current is None and not kept:
                del self._histories[member]

    @property
    def empty(self) -> bool:
        """Whether there are no candidates, present or past."""
        return not self._histories

    @property
    def ending(self) -> bool:
        """Whether there are past candidates or tenures, so that there will be something to prune."""
        return any(history.current is None or history.ended for history in self._histories.values())

    def _indexed(self) -> Index:
        if self._index is None:
            self._index = self._build()
        return self._index

    def _build(self) -> Index:
        index = Index(self._comparisons)
        for member in self._histories:
            for claim in self._claims(member):
                index.add(claim)
        return index

    @contextmanager
    def _changing(self, member: tuple[str, str]) -> Iterator[None]:
        """Update the index after the block has changed the member's history."""
        index = self._index
        before = frozenset() if index is None else self._claims(member)
        yield
        if index is not None:
            after = self._claims(member)
            for claim in before - after:
                index.discard(claim)
            for claim in after - before:
                index.add(claim)

    def _claims(self, member: tuple[str, str]) -> frozenset[Claim]:
        history = self._histories.get(member)
        if history is None:
            return frozenset()
        current = () if history.current is None else (history.current,)
        return frozenset(self._claim(member, tenure, history.left_ms) for tenure in (*history.ended, *current))

    def _claim(self, member: tuple[str, str], tenure: Tenure, left_ms: int) -> Claim:
        return Claim(
            *member,
            principal=tenure.principal,
            since_ms=tenure.since_ms,
            first_ms=tenure.first_ms,
            last_ms=min(tenure.until_ms + self._grace_ms, FOREVER_MS),
            of_member=tenure.member,
            left_ms=left_ms,
            places=tenure.partitions,
            until_ms=tenure.until_ms,
        )


def _revealed(tenure: Tenure, principal: str) -> Tenure:
    return replace(tenure, principal=principal) if tenure.principal is None else tenure


def _bounded(ended: tuple[Tenure, ...]) -> tuple[Tenure, ...]:
    """At most _MAX_ENDED tenures, the oldest merged; a merged one may claim too much, which costs a label at worst."""
    if len(ended) <= _MAX_ENDED:
        return ended
    first, second, *rest = ended
    merged = replace(
        second,
        partitions=(first.partitions or frozenset()) | (second.partitions or frozenset()),
        since_ms=min(first.since_ms, second.since_ms),
        heard_ms=min(first.heard_ms, second.heard_ms),
        principal=second.principal if first.principal == second.principal else None,
    )
    return (merged, *rest)
