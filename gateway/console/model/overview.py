"""Attention first: a sentence each, ranked, with a link to where more is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

from muster.gateway.console.model import links
from muster.gateway.console.model.attribution import Attribution
from muster.gateway.console.model.journal import FLAP_WINDOW_MS, Journal
from muster.gateway.console.model.marks import fault_text
from muster.gateway.console.model.series import GroupCurves
from muster.gateway.console.model.snapshot import GroupRow, Snapshot, Waiting
from muster.gateway.console.model.text import (
    count,
    counted,
    duration,
    duration_ms,
    listed,
    share,
    short_count,
    shortened,
)

GROWING_OVER_MS = 120_000
"""The lag of now is compared with that of this long ago."""
OLD_LAG_S = 60.0
"""A lag below is none to speak of."""
HANGING_MS = 10_000
UNATTRIBUTED = 0.01
AT_MOST = 3
"""Sentences of one kind; the others are counted in one more."""


class Level(IntEnum):
    """How soon somebody should look."""

    CRITICAL = 0
    WARNING = 1
    NOTE = 2


class Attention(NamedTuple):
    """One sentence."""

    level: Level
    kind: str
    text: str
    href: str


def attention(now: Snapshot, curves: GroupCurves, journal: Journal, attribution: Attribution) -> list[Attention]:
    """Return the sentences, the most urgent first."""
    found = [
        *_actors(now),
        *_some(_hanging(now), "rebalances hang", links.link(links.GROUPS, state="PreparingRebalance")),
        *_some(_not_consuming(now, curves), "groups are not consuming", links.link(links.GROUPS, show="idle")),
        *_some(_behind(now, curves), "groups fall behind", links.link(links.GROUPS, show="behind")),
        *_some(_flapping(now, journal), "groups rebalance again and again", links.GROUPS),
        *_some(
            _without_commit(now),
            "groups have partitions without a commit",
            links.link(links.GROUPS, show="uncommitted"),
        ),
        *_unattributed(attribution),
        *_nodes(now),
        *_some(_faults(now), "faults are in force", links.FAULTS),
        *_partial(now),
    ]
    return sorted(found, key=lambda each: each.level)


def _some(found: Sequence[Attention], what: str, href: str) -> Iterable[Attention]:
    yield from found[:AT_MOST]
    if (more := len(found) - AT_MOST) > 0:
        yield Attention(found[0].level, found[0].kind, f"{count(more)} more {what}", href)


def _actors(now: Snapshot) -> Iterable[Attention]:
    for actor in now.actors:
        if actor.state in ("alive", "stopped"):
            continue
        instead = f"; {actor.standby} serves in its place" if actor.standby else ""
        why = f": {shortened(actor.error, 120)}" if actor.error else ""
        level = Level.WARNING if actor.standby or actor.state == "starting" else Level.CRITICAL
        text = f"{actor.name} is {actor.state}{instead}{why}"
        yield Attention(level, "actor", text, links.link(links.CLUSTER, actor=actor.name))


def _hanging(now: Snapshot) -> list[Attention]:
    old = [each for each in now.waiting if each.since_ms and now.at_ms - each.since_ms >= HANGING_MS]
    return [
        Attention(Level.CRITICAL, "hang", _waits(each, now.at_ms), links.group(each.group))
        for each in sorted(old, key=lambda each: each.since_ms)
    ]


def _waits(each: Waiting, now_ms: int) -> str:
    names = [shortened(who.name, 40) for who in each.waits_for]
    for_whom = listed(names) if names else "more members" if each.initial_delay else "its log"
    left = (
        ""
        if each.deadline_ms is None
        else f"; it goes on without them in {duration_ms(max(each.deadline_ms - now_ms, 0))}"
    )
    since = duration_ms(now_ms - each.since_ms)
    return f"{shortened(each.group)} has been rebalancing for {since} and waits for {for_whom}{left}"


def _not_consuming(now: Snapshot, curves: GroupCurves) -> list[Attention]:
    found = []
    for row in _largest(now.groups, lambda row: not row.members and bool(row.lag)):
        growth = curves.growth(row.group, "lag", now.at_ms, GROWING_OVER_MS)
        if not growth or growth <= 0:
            continue
        text = (
            f"{shortened(row.group)} has no members, and its lag grows: "
            f"{short_count(row.lag)} messages{_old(row)}, {_per_second(growth)}"
        )
        found.append(Attention(Level.CRITICAL, "idle", text, links.group(row.group)))
    return found


def _behind(now: Snapshot, curves: GroupCurves) -> list[Attention]:
    found = []
    for row in _largest(now.groups, lambda row: bool(row.members) and (row.lag_s or 0) >= OLD_LAG_S):
        growth = curves.growth(row.group, "lag", now.at_ms, GROWING_OVER_MS)
        if not growth or growth <= 0:
            continue
        members = "its one member does" if row.members == 1 else f"its {count(row.members)} members do"
        text = (
            f"{shortened(row.group)} is {duration(row.lag_s)} behind and falls further: {members} not keep up, "
            f"{short_count(row.lag)} messages, {_per_second(growth)}"
        )
        found.append(Attention(Level.WARNING, "behind", text, links.group(row.group)))
    return found


def _largest(groups: Sequence[GroupRow], wanted: Callable[[GroupRow], bool]) -> list[GroupRow]:
    return sorted(filter(wanted, groups), key=lambda row: (-(row.lag_s or 0), -(row.lag or 0), row.group))


def _old(row: GroupRow) -> str:
    return f", the oldest {duration(row.lag_s)} old" if row.lag_s else ""


def _per_second(growth: float) -> str:
    rate = growth / (GROWING_OVER_MS / 1000)
    return f"{short_count(rate)} more each second" if rate >= 1 else f"{short_count(rate * 60)} more each minute"


def _flapping(now: Snapshot, journal: Journal) -> list[Attention]:
    found = []
    minutes = FLAP_WINDOW_MS // 60_000
    for each in journal.flapping(now.at_ms):
        by = f" by {shortened(each.client, 40)}" if each.client else ""
        text = (
            f"{shortened(each.group)} rebalanced {each.rebalances} times in {minutes} minutes, "
            f"{'always' if each.by_cause == each.rebalances else 'mostly'} because of “{each.cause}”{by}"
        )
        found.append(Attention(Level.WARNING, "flapping", text, links.group(each.group)))
    return found


def _without_commit(now: Snapshot) -> list[Attention]:
    rows = [row for row in now.groups if row.messages_without_commit > 0 and row.members]
    rows.sort(key=lambda row: (-row.messages_without_commit, row.group))
    return [
        Attention(
            Level.NOTE,
            "uncommitted",
            f"{shortened(row.group)} has committed nothing in {counted(row.without_commit, 'partition')} "
            f"with {short_count(row.messages_without_commit)} messages",
            links.group(row.group),
        )
        for row in rows
    ]


def _unattributed(attribution: Attribution) -> Iterable[Attention]:
    found = attribution.unattributed_share()
    if found is not None and found > UNATTRIBUTED:
        sums = attribution.sums("reasons")
        reason = next((name for name in sums if name != "internal"), None)
        why = f", mostly “{reason.replace('_', ' ')}”" if reason else ""
        text = f"{share(found)} of the bytes sent have no group{why}"
        yield Attention(Level.NOTE, "attribution", text, links.ATTRIBUTION)


def _nodes(now: Snapshot) -> Iterable[Attention]:
    for node in now.nodes:
        if node.state == "dead":
            yield Attention(Level.CRITICAL, "node", f"node {node.address} is dead", links.CLUSTER)
        elif node.state == "draining":
            left = counted(len(node.actors), "actor")
            yield Attention(Level.NOTE, "node", f"node {node.address} is draining; {left} still there", links.CLUSTER)


def _faults(now: Snapshot) -> list[Attention]:
    return [
        Attention(
            Level.NOTE,
            "fault",
            f"fault {fault.id} is in force: {fault_text(fault.fault, fault.actor)}"
            + ("" if fault.actor else f", {counted(fault.hits, 'request')} hit"),
            links.FAULTS,
        )
        for fault in now.faults
    ]


def _partial(now: Snapshot) -> Iterable[Attention]:
    if now.partial:
        silent = [*(f"offsets-{each}" for each in now.missing_partitions), *now.missing_actors]
        who = listed(silent) if silent else "some actors"
        yield Attention(Level.WARNING, "partial", f"What you see is incomplete: {who} did not respond", links.CLUSTER)
    for url, why in now.failed_gateways.items():
        yield Attention(Level.WARNING, "gateway", f"{url} does not respond ({shortened(why, 80)})", links.CLUSTER)
