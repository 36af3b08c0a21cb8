"""Which protocol a group uses: every member votes for the first one in its list that all members support."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from muster.placement.hashing import java_string_hash

Protocols = tuple[tuple[str, bytes], ...]
"""(name, metadata), most preferred first."""

_BUCKETS = 16


class Support:
    """How many members offer each protocol. Checking whether all do costs O(1), whatever their number."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, offer: Protocols) -> None:
        """Count a member that offers these."""
        self._counts.update({name for name, _ in offer})

    def remove(self, offer: Protocols) -> None:
        """Stop counting a member that offered these."""
        names = {name for name, _ in offer}
        self._counts.subtract(names)
        for name in names:
            if not self._counts[name]:
                del self._counts[name]

    def all_offer_any(self, offer: Protocols, members: int) -> bool:
        """Whether all ``members``, at least one, offer the same one of these names."""
        return any(self._counts.get(name) == members for name, _ in offer)


def common(offers: Iterable[Protocols]) -> frozenset[str]:
    """Names that are in every offer; none without offers."""
    names = [frozenset(name for name, _ in offer) for offer in offers]
    return frozenset.intersection(*names) if names else frozenset()


def select(offers: Sequence[Protocols]) -> str:
    """Return the name with the most votes. Raises ValueError if the offers have no name in common.

    A tie goes to the name that Java's HashMap, with its default 16 buckets, would iterate first.
    """
    candidates = common(offers)
    if not candidates:
        raise ValueError("members have no protocol in common")
    votes: dict[str, int] = {}
    for offer in offers:
        choice = next(name for name, _ in offer if name in candidates)
        votes[choice] = votes.get(choice, 0) + 1
    return min(votes, key=lambda name: (-votes[name], hash_map_bucket(name)))


def hash_map_bucket(name: str) -> int:
    """Bucket of the name in a java.util.HashMap of 16 buckets."""
    h = java_string_hash(name) & 0xFFFFFFFF
    return (h ^ (h >> 16)) & (_BUCKETS - 1)
