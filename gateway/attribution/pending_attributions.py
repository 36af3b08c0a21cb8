"""Pending attributions: bytes that wait for evidence, so that evidence that is a little late still counts (F14).

Sends of one connection and partition within a second are merged, and judged for the time of their first byte.
Every byte added is part of exactly one settlement; until then it is counted in :meth:`PendingAttributions.pending`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from muster.gateway.attribution.connection import ConnectionState
from muster.gateway.attribution.evidence_rules import EvidenceRules
from muster.gateway.attribution.slot import ClientKey
from muster.gateway.attribution.verdict import Reason, Verdict

PENDING_MS = 60_000
MAX_SENDS = 100_000
_COALESCE_MS = 1_000
_AT_ONCE = 1_000
_PER_S = 100_000
"""How many claims are compared with entries when something becomes known, and in a second: after so many, no verdict is
begun. Thousands of groups may share a key, and join and leave all the time.
"""
COMPARISONS_PER_SETTLE = 200_000
"""After so many, the rest is settled a second later."""
_VERDICT = 60
"""Cost of each verdict beside its comparisons, in comparisons."""
_EXPIRED = Verdict.none(Reason.EXPIRED)


@dataclass(slots=True)
class Pending:
    """Sends of one partition on one connection within a second."""

    connection: ConnectionState
    host: str
    client_id: str | None
    topic: str
    partition: int
    at_ms: int
    """When the first bytes were sent."""
    verdict: Verdict
    """Why it waits."""
    messages: int = 0
    bytes: int = 0
    handles: list[int] = field(default_factory=list)
    """The sample sink's handles, one per send."""
    entries: int = 0
    """Record batches."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """The final verdict on an entry."""

    entry: Pending
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Amount:
    messages: int
    bytes: int


_Place = tuple[int, str, int]


class PendingAttributions:
    """Holds at most ``max_sends`` sends; beyond that, the oldest are settled with reason ``expired``."""

    def __init__(
        self, evidence_rules: EvidenceRules, *, pending_ms: int = PENDING_MS, max_sends: int = MAX_SENDS
    ) -> None:
        self._evidence_rules = evidence_rules
        self._pending_ms = pending_ms
        self._max_sends = max_sends
        self._entries: dict[int, Pending] = {}
        """By number, that is, by age."""
        self._by_key: dict[ClientKey, dict[int, Pending]] = {}
        self._allowed = _PER_S
        """How many claims :meth:`changed` may compare; below 0 after a verdict that took more."""
        self._allowed_ms = 0
        self._again: dict[int, None] = {}
        """Numbers of entries to judge again, in order."""
        self._open: dict[tuple[ClientKey, _Place], int] = {}
        self._next = 0
        self._sends = 0
        self._amounts: dict[tuple[str, int], list[int]] = {}

    def __len__(self) -> int:
        """Return the number of pending sends."""
        return self._sends

    def pending(self) -> dict[tuple[str, int], Amount]:
        """Return the pending amounts by (topic, partition), also of partitions of which nothing is pending any more."""
        return {place: Amount(messages, size_bytes) for place, (messages, size_bytes) in self._amounts.items()}

    def add(self, entry: Pending) -> list[Settlement]:
        """Add a send. Returns the settlements of sends that were given up to make room."""
        key = (entry.host, entry.client_id)
        place = (key, (id(entry.connection), entry.topic, entry.partition))
        number = self._open.get(place)
        kept = self._entries.get(number) if number is not None else None
        if kept is None or entry.at_ms - kept.at_ms >= _COALESCE_MS or entry.at_ms < kept.at_ms:
            self._open[place] = self._next
            self._entries[self._next] = self._by_key.setdefault(key, {})[self._next] = entry
            self._next += 1
        else:
            kept.messages += entry.messages
            kept.bytes += entry.bytes
            kept.entries += entry.entries
            kept.handles.extend(entry.handles)
        self._sends += len(entry.handles)
        self._count(entry, 1)
        given_up = []
        while self._sends > self._max_sends:
            oldest = next(iter(self._entries))
            given_up.append(Settlement(self._take(oldest), _EXPIRED))
        return given_up

    def settle(self, now_ms: int) -> tuple[list[Settlement], int]:
        """Judge one entry for the last time that has waited long enough, or else one of those whose key has changed.

        Returns how much work that was, in comparisons; 0 if there is nothing to do. What has waited long enough is
        settled; without a group it keeps its reason.
        """
        number, entry = next(iter(self._entries.items()), (-1, None))
        if entry is None or entry.at_ms + self._pending_ms > now_ms:
            return self._judge_again(1)
        before = self._evidence_rules.comparisons
        settlement = Settlement(self._take(number), self._judge_last(entry, now_ms))
        return [settlement], _VERDICT + self._evidence_rules.comparisons - before

    def changed(self, keys: Iterable[ClientKey], now_ms: int) -> list[Settlement]:
        """Judge again what waits under these keys, and settle what now has a group.

        If that is much work, some of it is done now and the rest by the next calls, so that many groups under one key
        do not block the event loop. Where thousands join, each takes part in all comparisons: then only
        :meth:`settle` judges.
        """
        for key in keys:
            self._again.update(dict.fromkeys(self._by_key.get(key, ())))
        if now_ms > self._allowed_ms:
            earned = (now_ms - self._allowed_ms) * _PER_S // 1_000
            self._allowed, self._allowed_ms = min(self._allowed + earned, _PER_S), now_ms
        work = min(_AT_ONCE, self._allowed)
        settled, done = self._judge_again(work)
        self._allowed -= done
        return settled

    def close(self, now_ms: int) -> list[Settlement]:
        """Settle everything as it stands."""
        return [
            Settlement(self._take(number), self._judge_last(entry, now_ms))
            for number, entry in list(self._entries.items())
        ]

    def _judge_again(self, work: int) -> tuple[list[Settlement], int]:
        """``work``: no verdict is begun after so many comparisons. Returns how many there were, too."""
        settled, done = [], 0
        while self._again and done < work:
            number = next(iter(self._again))
            del self._again[number]
            entry = self._entries[number]
            before = self._evidence_rules.comparisons
            verdict = self._judge(entry)
            done += _VERDICT + self._evidence_rules.comparisons - before
            if verdict.group is not None:
                settled.append(Settlement(self._take(number), verdict))
            else:
                entry.verdict = verdict
        return settled, done

    def _judge(self, entry: Pending) -> Verdict:
        return self._evidence_rules.judge(
            entry.connection, entry.host, entry.client_id, entry.topic, entry.partition, entry.at_ms
        )

    def _judge_last(self, entry: Pending, now_ms: int) -> Verdict:
        return self._evidence_rules.last_word(
            entry.connection, entry.host, entry.client_id, entry.topic, entry.partition, entry.at_ms, now_ms
        )

    def _take(self, number: int) -> Pending:
        entry = self._entries.pop(number)
        self._again.pop(number, None)
        key = (entry.host, entry.client_id)
        waiting = self._by_key[key]
        del waiting[number]
        if not waiting:
            del self._by_key[key]
        place = (key, (id(entry.connection), entry.topic, entry.partition))
        if self._open.get(place) == number:
            del self._open[place]
        self._sends -= len(entry.handles)
        self._count(entry, -1)
        return entry

    def _count(self, entry: Pending, sign: int) -> None:
        amount = self._amounts.setdefault((entry.topic, entry.partition), [0, 0])
        amount[0] += sign * entry.messages
        amount[1] += sign * entry.bytes
