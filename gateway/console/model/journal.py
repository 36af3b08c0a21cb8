"""The rebalances of all groups in the last hour, newest last, in a bounded memory."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from muster.actors.tables.rebalance_entry import Ending, RebalanceEntry

MAX_ENTRIES = 20_000
MAX_OF_GROUP = 200
FLAPPING = 4
"""Rebalances within ten minutes from which on a group counts as flapping."""
FLAP_WINDOW_MS = 600_000
Key = tuple[str, int, int, int]


def key_of(entry: RebalanceEntry) -> Key:
    """Return what identifies an entry."""
    return entry.group, *entry.key


def read_entries(values: Iterable[Any]) -> list[RebalanceEntry]:
    """Return the entries that can be read; others are of a newer gateway."""
    found = []
    for value in values:
        try:
            found.append(RebalanceEntry.from_json(value))
        except (KeyError, TypeError, ValueError):
            continue
    return found


class Brief(NamedTuple):
    """The facts about a rebalance that are kept of every group."""

    began_ms: int
    ended_ms: int
    group: str
    cause: str
    client: str
    """Empty if no single member caused it."""
    ending: str


class Flapping(NamedTuple):
    """A group with many rebalances in the last ten minutes."""

    group: str
    rebalances: int
    cause: str
    """The most frequent one."""
    by_cause: int
    client: str | None
    """The client that caused most of these; None if no single one did."""


class Journal:
    """Ended rebalances. An entry that comes twice is kept once."""

    def __init__(self, max_entries: int = MAX_ENTRIES) -> None:
        self._briefs: list[Brief] = []
        self._entries: dict[Key, RebalanceEntry] = {}
        self._order: deque[Key] = deque()
        self._max = max_entries

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entries: Iterable[RebalanceEntry]) -> list[RebalanceEntry]:
        """Keep the entries that ended. Returns those that were not known."""
        new = []
        for entry in entries:
            key = key_of(entry)
            if entry.ending is Ending.RUNNING or key in self._entries:
                continue
            self._entries[key] = entry
            self._order.append(key)
            new.append(entry)
            insort(self._briefs, _brief(entry))
            while len(self._order) > self._max:
                del self._entries[self._order.popleft()]
        del self._briefs[: -self._max]
        return new

    def forget(self, before_ms: int) -> None:
        """Remove rebalances that ended before that time."""
        old = [key for key, entry in self._entries.items() if entry.ended_ms < before_ms]
        if old:
            for key in old:
                del self._entries[key]
            self._order = deque(key for key in self._order if key in self._entries)
            self._briefs = [brief for brief in self._briefs if brief.ended_ms >= before_ms]

    def of_group(self, group: str, limit: int = MAX_OF_GROUP) -> list[RebalanceEntry]:
        """Return the newest entries of one group, newest first."""
        found = [entry for entry in self._entries.values() if entry.group == group]
        return sorted(found, key=lambda entry: (-entry.began_ms, -entry.number))[:limit]

    def since(self, since_ms: int) -> Iterator[Brief]:
        """Yield the rebalances that began at or after that time, in order of time."""
        yield from self._briefs[bisect_left(self._briefs, since_ms, key=lambda brief: brief.began_ms) :]

    def per_minute(self, now_ms: int, minutes: int = 60) -> list[tuple[int, int]]:
        """Return (start of the minute in ms, rebalances that began in it), for each of the last minutes."""
        first = now_ms // 60_000 - minutes + 1
        counts = Counter(brief.began_ms // 60_000 for brief in self._briefs)
        return [(minute * 60_000, counts[minute]) for minute in range(first, first + minutes)]

    def flapping(self, now_ms: int) -> list[Flapping]:
        """Return the groups with FLAPPING rebalances or more in the last ten minutes, the most first."""
        by_group: dict[str, list[Brief]] = {}
        for brief in self.since(now_ms - FLAP_WINDOW_MS):
            by_group.setdefault(brief.group, []).append(brief)
        found = [_flapping(group, briefs) for group, briefs in by_group.items() if len(briefs) >= FLAPPING]
        return sorted(found, key=lambda each: (-each.rebalances, each.group))


def _brief(entry: RebalanceEntry) -> Brief:
    by = entry.triggered_by
    client = (by.group_instance_id or by.client_id or by.member_id) if by else ""
    return Brief(entry.began_ms, entry.ended_ms, entry.group, entry.cause.value, client, entry.ending.value)


def _flapping(group: str, briefs: list[Brief]) -> Flapping:
    (cause, by_cause), *_ = Counter(brief.cause for brief in briefs).most_common(1)
    (client, times), *_ = Counter(brief.client for brief in briefs if brief.cause == cause).most_common(1)
    return Flapping(group, len(briefs), cause, by_cause, client if client and times * 2 > by_cause else None)
