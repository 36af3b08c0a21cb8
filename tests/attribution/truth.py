"""Bytes that consumers received, and the share that was counted rightly. Pure arithmetic.

Amounts are sums, per group and partition: a swap of equal amounts between two groups does not show. Groups of a case
that could be confused therefore receive different amounts, except where the case is about exactly that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

Place = tuple[str, int]
"""Topic and partition."""
K = TypeVar("K")
Group = str | None
"""None: a consumer without a group; its bytes are rightly unattributed."""
NO_GROUP = "no_group"
PENDING = "pending"
RIGHT_SHARE = 0.999
"""Share of the received bytes that must be counted for the group that got them, unless a case says otherwise."""


@dataclass(slots=True)
class Books:
    """Counted bytes: under a group, or under the reason why there is none."""

    groups: Counter[tuple[str, Place]] = field(default_factory=Counter)
    reasons: Counter[tuple[str, Place]] = field(default_factory=Counter)
    evidence: Counter[tuple[str, Place]] = field(default_factory=Counter)
    """The bytes in ``groups``, by their evidence; empty where evidence is not reported."""

    def add(self, other: Books) -> None:
        self.groups.update(other.groups)
        self.reasons.update(other.reasons)
        self.evidence.update(other.evidence)

    def of(self, prefix: str) -> Books:
        """Return the part about topics whose names begin with the prefix."""
        return Books(_of(self.groups, prefix), _of(self.reasons, prefix), _of(self.evidence, prefix))


class Truth:
    """Bytes of whole record batches as consumers received them."""

    def __init__(self) -> None:
        self.received: Counter[tuple[Group, Place]] = Counter()
        self.apart: dict[Place, int] = {}
        """The maximum distance in bytes between two groups that read the partition from its start."""
        self._readers: dict[Place, set[Group]] = {}

    def expect(self, group: Group, place: Place) -> None:
        """Note that the group reads the partition."""
        self._readers.setdefault(place, set()).add(group)

    def receive(self, group: Group, place: Place, size_bytes: int) -> None:
        self.received[group, place] += size_bytes
        amounts = [self.received[reader, place] for reader in self._readers.get(place, ())]
        if len(amounts) > 1:
            self.apart[place] = max(self.apart.get(place, 0), max(amounts) - min(amounts))

    def of(self, prefix: str) -> Counter[tuple[Group, Place]]:
        """Return the part about topics whose names begin with the prefix."""
        return _of(self.received, prefix)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Comparison of the counted bytes with the truth; all in bytes."""

    total: int
    """Received."""
    right: int
    wrong: int
    """Counted under a group beyond what the group received."""
    unattributed: Mapping[str, int]
    """By reason; without bytes that are rightly unattributed."""
    miscounted: int
    """Received and not counted, or counted and not received, under any label."""

    @property
    def right_share(self) -> float:
        return self.right / self.total if self.total else 1.0


def compare(received: Counter[tuple[Group, Place]], books: Books) -> Outcome:
    """Compare per (group, partition): the smaller of received and counted is right, the rest of the count is wrong."""
    right = wrong = 0
    for key, size_bytes in books.groups.items():
        mine = min(size_bytes, received[key])
        right += mine
        wrong += size_bytes - mine
    unattributed_at: Counter[Place] = Counter()
    for (_, place), size_bytes in books.reasons.items():
        unattributed_at[place] += size_bytes
    unattributed: Counter[str] = Counter()
    for (reason, _), size_bytes in books.reasons.items():
        unattributed[reason] += size_bytes
    for place, size_bytes in unattributed_at.items():
        mine = min(size_bytes, received[None, place])
        right += mine
        _take(unattributed, books, place, mine)
    return Outcome(
        total=received.total(),
        right=right,
        wrong=wrong,
        unattributed={reason: size_bytes for reason, size_bytes in sorted(unattributed.items()) if size_bytes},
        miscounted=_miscounted(received, books, unattributed_at),
    )


def differences(received: Counter[tuple[Group, Place]], books: Books) -> list[tuple[str, str, int, int, int]]:
    """List (group, topic, partition, received, counted) where received and counted differ."""
    keys = {(group, place) for group, place in (*received, *books.groups) if group is not None}
    rows = [(group, *place, received[group, place], books.groups[group, place]) for group, place in sorted(keys)]
    return [row for row in rows if row[3] != row[4]]


def largest_error(received: Counter[tuple[Group, Place]], books: Books, place: Place) -> int:
    """Return the largest error of any group's count on that partition in bytes, in either direction."""
    groups = {group for group, where in (*received, *books.groups) if where == place and group is not None}
    return max((abs(books.groups[group, place] - received[group, place]) for group in groups), default=0)


def _take(unattributed: Counter[str], books: Books, place: Place, size_bytes: int) -> None:
    """Deduct bytes that are rightly unattributed from the reasons of that place, ``no_group`` first."""
    reasons = sorted((reason for reason, where in books.reasons if where == place), key=lambda r: (r != NO_GROUP, r))
    for reason in reasons:
        mine = min(size_bytes, books.reasons[reason, place])
        unattributed[reason] -= mine
        size_bytes -= mine


def _miscounted(received: Counter[tuple[Group, Place]], books: Books, unattributed_at: Counter[Place]) -> int:
    off = Counter(unattributed_at)
    for (_, place), size_bytes in books.groups.items():
        off[place] += size_bytes
    for (_, where), size_bytes in received.items():
        off[where] -= size_bytes
    return sum(map(abs, off.values()))


def _of(amounts: Counter[tuple[K, Place]], prefix: str) -> Counter[tuple[K, Place]]:
    return Counter({key: size for key, size in amounts.items() if key[1][0].startswith(prefix)})
