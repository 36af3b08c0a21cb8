"""A rebalance as it is drawn: phases on a time axis, and what happened in words. The cause is beside the effect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from muster.actors.group.types import Who
from muster.actors.tables.rebalance_entry import Ending, RebalanceEntry, Wait
from muster.gateway.console.model.table import Column, Kind, Table
from muster.gateway.console.model.text import counted, duration_ms, listed, ranges, shortened

JOIN, SYNC, HANDED_OUT, PAUSED = "join", "sync", "handed out", "paused"
LONG_MS = 1_000
"""Waits of this length are named even in the compact view."""
_ENDINGS = {
    Ending.STABLE: "stable",
    Ending.EMPTY: "no member left",
    Ending.RESTARTED: "restarted by the next",
    Ending.ABORTED: "aborted",
    Ending.RUNNING: "in progress",
}


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of a rebalance."""

    kind: str
    start_ms: int
    end_ms: int
    text: str


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of a rebalance's details."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Event:
    """One rebalance, ready to be drawn."""

    id: str
    began_ms: int
    ended_ms: int
    is_bad: bool
    """Whether it did not end with an assignment, or paused consumption for long."""
    cause: str
    by: str
    """Who caused it; empty if no single member did."""
    summary: str
    """Its effect in a sentence."""
    ending: str
    phases: tuple[Phase, ...]
    facts: tuple[Fact, ...]
    json: dict[str, Any]

    @property
    def title(self) -> str:
        """The cause, and who caused it."""
        return f"{self.cause}: {self.by}" if self.by else self.cause


def name_of(who: Who) -> str:
    """Return the name by which people know a member."""
    return shortened(who.group_instance_id or who.client_id or who.member_id or "an unknown client", 40)


def event(entry: RebalanceEntry) -> Event:
    """Return the rebalance as it is drawn."""
    paused = entry.consumption_pauses
    longest_ms = max((pause.ms for pause in paused.partitions), default=0) if paused else 0
    return Event(
        id="-".join(map(str, entry.key)),
        began_ms=entry.began_ms,
        ended_ms=max(entry.ended_ms, entry.began_ms),
        is_bad=entry.ending is Ending.ABORTED or longest_ms >= 10_000,
        cause=entry.cause.value,
        by=name_of(entry.triggered_by) if entry.triggered_by else "",
        summary=_summary(entry, longest_ms),
        ending=_ENDINGS[entry.ending],
        phases=tuple(_phases(entry, longest_ms)),
        facts=tuple(_facts(entry)),
        json=entry.to_json(),
    )


def events(entries: Iterable[RebalanceEntry]) -> list[Event]:
    """Return rebalances as they are drawn, in the same order."""
    return [event(entry) for entry in entries]


def _phases(entry: RebalanceEntry, longest_ms: int) -> Iterable[Phase]:
    joined_ms = entry.joined_ms if entry.joined_ms is not None else entry.ended_ms
    yield Phase(JOIN, entry.began_ms, joined_ms, f"join {duration_ms(joined_ms - entry.began_ms)}{_waited(entry, 0)}")
    if entry.joined_ms is not None:
        stable_ms = entry.stable_ms if entry.stable_ms is not None else entry.ended_ms
        yield Phase(SYNC, joined_ms, stable_ms, f"sync {duration_ms(stable_ms - joined_ms)}{_waited(entry, 1)}")
        if entry.stable_ms is not None and entry.ended_ms > entry.stable_ms:
            length = duration_ms(entry.ended_ms - entry.stable_ms)
            yield Phase(HANDED_OUT, entry.stable_ms, entry.ended_ms, f"assignment handed out in {length}")
    if longest_ms:
        assert entry.consumption_pauses is not None
        count = counted(entry.consumption_pauses.count, "partition")
        text = f"{count} paused, up to {duration_ms(longest_ms)}"
        yield Phase(PAUSED, entry.began_ms, entry.began_ms + longest_ms, text)


def _waited(entry: RebalanceEntry, phase: int) -> str:
    slowest = (entry.join_waits, entry.sync_waits)[phase].slowest
    return f", waited for {name_of(slowest.who)}" if slowest and slowest.held_ms >= LONG_MS else ""


def _summary(entry: RebalanceEntry, longest_ms: int) -> str:
    parts = []
    if entry.members_after is not None and entry.members_after != entry.members_before:
        parts.append(f"{counted(entry.members_before, 'member')} became {entry.members_after}")
    slowest = entry.join_waits.slowest
    if slowest is not None and slowest.held_ms >= LONG_MS:
        verb = "never rejoined" if slowest.after_ms is None else "rejoined last"
        parts.append(f"{name_of(slowest.who)} {verb}, after {duration_ms(slowest.held_ms)}")
    if longest_ms:
        assert entry.consumption_pauses is not None
        count = counted(entry.consumption_pauses.count, "partition")
        parts.append(f"{count} not consumed for up to {duration_ms(longest_ms)}")
    elif entry.consumption_pauses is not None:
        parts.append("no partition stopped")
    if entry.ending is not Ending.STABLE:
        parts.append(_ENDINGS[entry.ending])
    return "; ".join(parts)


def _facts(entry: RebalanceEntry) -> Iterable[Fact]:
    yield Fact("Cause", entry.cause.value)
    if entry.triggered_by is not None:
        yield Fact("Triggered by", _who(entry.triggered_by))
    if entry.reason:
        yield Fact("Reason given", entry.reason)
    generation = "not completed" if entry.generation is None else str(entry.generation)
    yield Fact("Generation", f"{entry.previous_generation} → {generation}, from state {entry.from_state}")
    after = "none" if entry.members_after is None else str(entry.members_after)
    yield Fact("Members", f"{entry.members_before} → {after}")
    if entry.added:
        more = f" and {entry.added_left_out} more" if entry.added_left_out else ""
        yield Fact("Joined", listed([_who(who) for who in entry.added], 5) + more)
    for gone in entry.gone[:5]:
        why = gone.cause.value if gone.cause else f"left{': ' + gone.reason if gone.reason else ''}"
        yield Fact("Gone", f"{_who(gone.who)}: {why}")
    yield from _waits("Waited in join", entry.join_waits.members)
    yield from _waits("Waited in sync", entry.sync_waits.members)
    for pending in entry.pending[:3]:
        end = pending.end.value if pending.end else "still awaited"
        yield Fact("Pending id", f"{_who(pending.who)}: {duration_ms(pending.held_ms)}, {end}")
    if entry.protocol:
        kind = f", {entry.rebalance_protocol.value}" if entry.rebalance_protocol else ""
        yield Fact("Protocol", f"{entry.protocol}{kind}")
    if entry.consumption_pauses is not None:
        paused = entry.consumption_pauses
        text = f"{paused.count} of {counted(paused.assigned, 'partition')}, {duration_ms(paused.lost_ms)} in sum"
        yield Fact("Not consumed", text)
        by_topic: dict[str, list[int]] = {}
        for pause in paused.partitions:
            by_topic.setdefault(pause.topic, []).append(pause.partition)
        for topic, partitions in list(by_topic.items())[:5]:
            yield Fact("Partitions", f"{topic} {ranges(partitions)}")
    yield Fact("Coordinator", f"offsets-{entry.offsets_partition}, epoch {entry.epoch}, entry {entry.number}")


def _waits(name: str, waits: Sequence[Wait]) -> Iterable[Fact]:
    for wait in waits[:3]:
        if wait.held_ms >= 1:
            came = "never came" if wait.after_ms is None else f"came after {duration_ms(wait.after_ms)}"
            yield Fact(name, f"{_who(wait.who)}: {came}")


def _who(who: Who) -> str:
    name = name_of(who)
    host = who.host.lstrip("/")
    return f"{name} at {host}" if host else name


COLUMNS = (
    Column("began_ms", "Began", Kind.TIME),
    Column("took_ms", "Took", Kind.MS),
    Column("cause", "Cause"),
    Column("by", "Triggered by", Kind.NAME),
    Column("summary", "Effect", Kind.NAME),
    Column("ending", "Ended"),
)


def table_of(found: Sequence[Event]) -> Table:
    """Return rebalances as a table."""
    return Table(COLUMNS, [row_of(each) for each in found])


def row_of(each: Event) -> dict[str, Any]:
    """Return a rebalance as a row."""
    return {
        "began_ms": each.began_ms,
        "took_ms": each.ended_ms - each.began_ms,
        "cause": each.cause,
        "by": each.by,
        "summary": each.summary,
        "ending": each.ending,
    }
