"""Clients that share a (host, client id) although they belong to different groups of one principal (F5).

Every client library except newer Java ones has the same default client id for all clients, so two groups on one host
share it. Their bytes need more evidence than the registrations give. Only the user can change that, by setting a
distinct ``client.id``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from muster.gateway.attribution.slot import ClientKey
from muster.gateway.attribution.table import RegistrationTable

AGAIN_MS = 3_600_000
"""The shortest time between two reports of one key."""
_REVIEW_MS = 30_000
_KEYS_AT_ONCE = 2_000


def shared(candidates: Iterable[tuple[str, str | None]]) -> set[str]:
    """Return, of (group, principal), the groups that share a principal with another one; None may be any principal."""
    by_principal: dict[str | None, set[str]] = defaultdict(set)
    for group, principal in candidates:
        by_principal[principal].add(group)
    of_anybody = by_principal.pop(None, set())
    if not by_principal:
        return of_anybody if len(of_anybody) > 1 else set()
    return {group for groups in by_principal.values() if len(groups | of_anybody) > 1 for group in groups | of_anybody}


@dataclass(frozen=True, slots=True)
class Ambiguity:
    key: ClientKey
    groups: tuple[str, ...]
    """Sorted; at least two."""


class AmbiguousClients:
    """The keys that have several groups, found a second or so after the registrations show it.

    Each review is limited to some thousand keys: a coordinator may register a hundred thousand at once.
    """

    def __init__(self, table: RegistrationTable) -> None:
        self._table = table
        self._unseen: dict[ClientKey, None] = {}
        self._found: dict[ClientKey, tuple[str, ...]] = {}
        self._reported_ms: dict[ClientKey, int] = {}
        self._next_review_ms = 0

    def __len__(self) -> int:
        return len(self._found)

    def changed(self, keys: Iterable[ClientKey]) -> None:
        """Note that the registrations of these keys changed. Cheap."""
        self._unseen.update(dict.fromkeys(keys))

    def review(self, now_ms: int) -> None:
        """Check the keys that changed, and every 30 s those found before: a grace time ends without a change."""
        if now_ms >= self._next_review_ms:
            self._next_review_ms = now_ms + _REVIEW_MS
            self._unseen.update(dict.fromkeys(self._found))
            self._reported_ms = {key: at_ms for key, at_ms in self._reported_ms.items() if now_ms - at_ms < AGAIN_MS}
        for key in list(self._unseen)[:_KEYS_AT_ONCE]:
            del self._unseen[key]
            slot = self._table.slot(*key)
            groups = set() if slot is None else shared(slot.candidates(now_ms))
            if groups:
                self._found[key] = tuple(sorted(groups))
            else:
                self._found.pop(key, None)

    def news(self, now_ms: int) -> list[Ambiguity]:
        """Return those that were not reported within the last hour, and count them as reported."""
        fresh = [Ambiguity(key, groups) for key, groups in self._found.items() if key not in self._reported_ms]
        self._reported_ms.update((ambiguity.key, now_ms) for ambiguity in fresh)
        return fresh
