"""Counters of gateways, which start anew with their processes, as sums over the cluster and as rates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from muster.gateway.console.model.table import Column, Kind, Table

GROUPS, REASONS, PENDING, PRODUCED, PRINCIPALS = "groups", "reasons", "pending", "produced", "principals"
_KEYS = {GROUPS: 3, REASONS: 2, PENDING: 1, PRODUCED: 1, PRINCIPALS: 2}
"""Kinds of counters, and how many parts their keys have."""
INTERNAL = "internal"
REASON_TEXTS: Mapping[str, str] = {
    "no_group": "no group has a client with this host and client id",
    "ambiguous": "more than one group may have fetched them",
    "unknown": "a group has such a client, but owns another partition",
    "not_member": "fetched beside the owner, on another connection",
    "overflow": "the group is known, and beyond the limit on series of groups",
    "expired": "settled early, since too much was pending",
    "internal": "Muster's own readers, no consumer",
    "pending": "not decided yet; evidence may still come",
}
EVIDENCE_TEXTS: Mapping[str, str] = {
    "same_connection": "the connection itself joined or committed for the group",
    "unique_candidate": "only one group has a client of this host and id",
    "assignment": "the member that owns the partition",
    "binding": "bound before, on the same connection",
    "session": "the same fetch session",
    "offset_continuity": "continues at the committed offset",
    "one_to_one": "one reader left for one group left",
    "derived": "derived from the others",
}
Key = tuple[str, ...]
T = TypeVar("T")


class Count(NamedTuple):
    """Messages and bytes."""

    messages: int = 0
    bytes: int = 0

    def __add__(self, other: object) -> Count:
        if not isinstance(other, Count):
            return NotImplemented
        return Count(self.messages + other.messages, self.bytes + other.bytes)


@dataclass(slots=True)
class _Gateway:
    incarnation: str
    at_ms: int
    counts: dict[tuple[str, Key], Count]


@dataclass(slots=True)
class Attribution:
    """Sums since each gateway started, as far as the console saw them, and rates between the last two fetches."""

    totals: dict[tuple[str, Key], Count] = field(default_factory=dict)
    rates: dict[tuple[str, Key], float] = field(default_factory=dict)
    """Bytes per second; empty before the second fetch."""
    hidden_bytes: int = 0
    _gateways: dict[str, _Gateway] = field(default_factory=dict)
    _rates: dict[str, dict[tuple[str, Key], float]] = field(default_factory=dict)
    _hidden: dict[str, int] = field(default_factory=dict)
    _computed: dict[tuple[str, str, int], Any] = field(default_factory=dict)
    """Sums that were computed since the last report."""

    @property
    def is_known(self) -> bool:
        """Whether any gateway has reported."""
        return bool(self._gateways)

    def feed(self, report: Mapping[str, Any]) -> None:
        """Take the response of one gateway."""
        name, at_ms = str(report["gateway"]), int(report["at_ms"])
        incarnation = str(report.get("incarnation", ""))
        counts = dict(_counts(report))
        before = self._gateways.get(name)
        goes_on = before is not None and before.incarnation == incarnation
        rates: dict[tuple[str, Key], float] = {}
        for key, count in counts.items():
            base = before.counts.get(key, Count()) if before is not None and goes_on else Count()
            added = Count(max(count.messages - base.messages, 0), max(count.bytes - base.bytes, 0))
            if key[0] == PENDING:
                continue
            self.totals[key] = self.totals.get(key, Count()) + added
            if before is not None and goes_on and at_ms > before.at_ms:
                rates[key] = added.bytes / (at_ms - before.at_ms) * 1000
        self._gateways[name] = _Gateway(incarnation, at_ms, counts)
        self._rates[name] = rates
        self._hidden[name] = int(report.get("hidden_bytes") or 0)
        self._sum_up()

    def keep_only(self, gateways: Iterable[str]) -> None:
        """Forget the rates of gateways that are gone; what they sent stays in the sums."""
        kept = set(gateways)
        for name in [name for name in self._rates if name not in kept]:
            del self._rates[name]
        self._sum_up()

    def _once(self, name: str, kind: str, index: int, compute: Callable[[], T]) -> T:
        key = name, kind, index
        if key not in self._computed:
            self._computed[key] = compute()
        found: T = self._computed[key]
        return found

    def _sum_up(self) -> None:
        self._computed.clear()
        self.rates = {}
        for rates in self._rates.values():
            for key, rate in rates.items():
                self.rates[key] = self.rates.get(key, 0.0) + rate
        self.hidden_bytes = sum(self._hidden.values())
        self.totals = {key: count for key, count in self.totals.items() if key[0] != PENDING}
        for gateway in self._gateways.values():
            for key, count in gateway.counts.items():
                if key[0] == PENDING:
                    self.totals[key] = self.totals.get(key, Count()) + count

    def group_rates(self) -> dict[str, float]:
        """Return bytes per second of each group."""
        return self._once("rates", GROUPS, 0, lambda: self._rates_by(GROUPS, 0))

    def rate_of(self, kind: str) -> float | None:
        """Return bytes per second of one kind; None before the second fetch."""
        if not self.rates and not any(self._rates.values()):
            return None
        by_first = self._once("rates", kind, 0, lambda: self._rates_by(kind, 0))
        return sum(rate for name, rate in by_first.items() if kind != REASONS or name != INTERNAL)

    def topic_rates(self, kind: str) -> dict[str, float]:
        """Return bytes per second of each topic: produced, or sent to groups."""
        index = {GROUPS: 1, REASONS: 1}.get(kind, 0)
        return self._once("rates", kind, index, lambda: self._rates_by(kind, index))

    def _rates_by(self, kind: str, index: int) -> dict[str, float]:
        found: dict[str, float] = {}
        for (each, key), rate in self.rates.items():
            if each == kind:
                found[key[index]] = found.get(key[index], 0.0) + rate
        return found

    def sums(self, kind: str, index: int = 0) -> dict[str, Count]:
        """Return the sums by one part of the key, the most bytes first."""
        return self._once("sums", kind, index, lambda: self._sums(kind, index))

    def _sums(self, kind: str, index: int) -> dict[str, Count]:
        found: dict[str, Count] = {}
        for (each, key), count in self.totals.items():
            if each == kind:
                found[key[index]] = found.get(key[index], Count()) + count
        return dict(sorted(found.items(), key=lambda item: (-item[1].bytes, item[0])))

    def unattributed_share(self) -> float | None:
        """Return the share of bytes without a group, without those of Muster's own readers; None without bytes."""
        return self._once("share", "", 0, self._share)

    def _share(self) -> float | None:
        without = sum(count.bytes for reason, count in self.sums(REASONS).items() if reason != INTERNAL)
        with_group = sum(count.bytes for count in self.sums(GROUPS).values())
        return without / (without + with_group) if without + with_group else None

    def by_group(self) -> Table:
        """Return the table by group, topic and evidence."""
        columns = (
            Column("group", "Group", Kind.NAME),
            Column("topic", "Topic", Kind.NAME),
            Column("evidence", "Evidence"),
            Column("messages", "Messages", Kind.COUNT),
            Column("bytes", "Bytes", Kind.SIZE),
            Column("bytes_s", "Bytes/s", Kind.RATE),
        )
        return Table(columns, self._rows(GROUPS, ("group", "topic", "evidence")))

    def by_principal(self) -> Table:
        """Return the table by principal and topic."""
        columns = (
            Column("principal", "Principal", Kind.NAME),
            Column("topic", "Topic", Kind.NAME),
            Column("messages", "Messages", Kind.COUNT),
            Column("bytes", "Bytes", Kind.SIZE),
            Column("bytes_s", "Bytes/s", Kind.RATE),
        )
        rows = self._rows(PRINCIPALS, ("principal", "topic"))
        return Table(columns, [row | {"principal": row["principal"] or "all others"} for row in rows])

    def without_group(self) -> Table:
        """Return the table of what has no group, and why."""
        columns = (
            Column("reason", "Reason"),
            Column("topic", "Topic", Kind.NAME),
            Column("messages", "Messages", Kind.COUNT),
            Column("bytes", "Bytes", Kind.SIZE),
            Column("bytes_s", "Bytes/s", Kind.RATE),
            Column("meaning", "Why"),
        )
        rows = [
            row | {"meaning": REASON_TEXTS.get(row["reason"], "")} for row in self._rows(REASONS, ("reason", "topic"))
        ]
        pending = [
            row | {"reason": "pending", "meaning": REASON_TEXTS["pending"]} for row in self._rows(PENDING, ("topic",))
        ]
        return Table(columns, [*rows, *pending])

    def _rows(self, kind: str, names: tuple[str, ...]) -> list[dict[str, Any]]:
        found = [
            dict(zip(names, key, strict=True))
            | {"messages": count.messages, "bytes": count.bytes, "bytes_s": self.rates.get((kind, key))}
            for (each, key), count in self.totals.items()
            if each == kind
        ]
        return sorted(found, key=lambda row: (-row["bytes"], *(row[name] for name in names)))


def _counts(report: Mapping[str, Any]) -> Iterable[tuple[tuple[str, Key], Count]]:
    for kind, parts in _KEYS.items():
        for row in report.get(kind) or ():
            *key, messages, size = row
            yield (kind, tuple(str(part) for part in key[:parts])), Count(int(messages), int(size))
