"""The rebalances of one coordinator that ended last, in memory: by group, and in the order in which they ended.

Entries are counted from 1 as they end. A reader that passes the count that it knows gets what has ended since; a
dropped entry leaves a gap in the counts, so that the reader knows how many it has missed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from muster.actors.tables.rebalance_entry import RebalanceEntry


@dataclass(frozen=True, slots=True)
class Kept:
    """An entry, encoded once for the spool, the table and all readers."""

    count: int
    """Its place in the order in which entries ended."""
    group: str
    ended_ms: int
    encoded: bytes


@dataclass(frozen=True, slots=True)
class Since:
    """Part of what has ended since a count, oldest first."""

    entries: tuple[Kept, ...]
    count: int
    """Where the next part begins."""
    lost: int
    """Entries of this part that were dropped before they were read."""
    more: bool


class Recent:
    """The last entries of each group. Above ``most_bytes`` (of JSON), the oldest entries of all groups are dropped."""

    def __init__(self, *, per_group: int = 100, most_bytes: int = 4 << 20) -> None:
        self._per_group = per_group
        self._most_bytes = most_bytes
        self._bytes = 0
        self._count = 0
        self._entries: dict[int, Kept] = {}
        """By count, oldest first."""
        self._by_group: dict[str, deque[int]] = {}

    @property
    def count(self) -> int:
        """How many entries have ended, including those that were dropped."""
        return self._count

    def add(self, entry: RebalanceEntry, encoded: bytes) -> None:
        """Keep an entry that has just ended."""
        self._count += 1
        counts = self._by_group.setdefault(entry.group, deque())
        counts.append(self._count)
        self._entries[self._count] = Kept(self._count, entry.group, entry.ended_ms, encoded)
        self._bytes += len(encoded)
        if len(counts) > self._per_group:
            self._drop(counts[0])
        while self._bytes > self._most_bytes:
            self._drop(next(iter(self._entries)))

    def of(self, group: str, limit: int) -> list[bytes]:
        """Return the group's entries, newest first."""
        counts = [*self._by_group.get(group, ())][-limit:]
        return [self._entries[count].encoded for count in reversed(counts)]

    def newest_first(self) -> Iterator[Kept]:
        """Yield the entries of all groups. Add none meanwhile."""
        return reversed(self._entries.values())

    def since(self, count: int, max_bytes: int) -> Since:
        """Return entries that ended after that count: up to ``max_bytes`` of them, but at least one if there is one."""
        newer: list[Kept] = []
        for kept in self.newest_first():
            if kept.count <= count:
                break
            newer.append(kept)
        newer.reverse()
        found = that_fit(newer, max_bytes)
        more = len(found) < len(newer)
        end = found[-1].count if more else self._count
        return Since(tuple(found), end, max(0, end - count) - len(found), more)

    def _drop(self, count: int) -> None:
        """Forget an entry, which must be the oldest of its group."""
        dropped = self._entries.pop(count)
        self._bytes -= len(dropped.encoded)
        counts = self._by_group[dropped.group]
        counts.popleft()
        if not counts:
            del self._by_group[dropped.group]


def that_fit(entries: Iterable[Kept], max_bytes: int) -> list[Kept]:
    """Return the first entries, up to ``max_bytes``; at least one if there is one."""
    fitting: list[Kept] = []
    used_bytes = 0
    for kept in entries:
        used_bytes += len(kept.encoded)
        if fitting and used_bytes > max_bytes:
            break
        fitting.append(kept)
    return fitting
