from __future__ import annotations

from dataclasses import replace
from typing import Any

from muster.actors.group.events import Cause
from muster.gateway.console.model.attribution import Attribution
from muster.gateway.console.model.journal import Journal
from muster.gateway.console.model.overview import GROWING_OVER_MS, Attention, Level, attention
from muster.gateway.console.model.series import GROUP_STEP_MS, GroupCurves
from muster.gateway.console.model.snapshot import ActorRow, FaultRow, GroupRow, NodeRow, Snapshot, Waiting, Who
from tests.gateway.console.model.entries import entry, who

NOW_MS = 10 * GROWING_OVER_MS


def row(group: str, **changed: Any) -> GroupRow:
    return GroupRow(group, "Stable", "classic", "consumer", 2, 0, 0.0, 0, 6, 0, 0)._replace(**changed)


def curves_of(**growth: tuple[int, int]) -> GroupCurves:
    """Return curves that went from one lag to the other."""
    curves = GroupCurves()
    for at_ms in range(NOW_MS - GROWING_OVER_MS, NOW_MS + 1, GROUP_STEP_MS):
        is_last = at_ms == NOW_MS
        curves.put(at_ms, [(name, after if is_last else before, 0.0, None) for name, (before, after) in growth.items()])
    return curves


def found(now: Snapshot, curves: GroupCurves | None = None, journal: Journal | None = None) -> list[Attention]:
    now = replace(now, at_ms=NOW_MS)
    return attention(now, curves or GroupCurves(), journal or Journal(), Attribution())


def test_a_quiet_cluster_needs_nothing() -> None:
    assert found(Snapshot(groups=[row("a")], actors=(ActorRow("log-0", "alive"), ActorRow("log-1", "stopped")))) == []


def test_a_group_without_members_whose_lag_grows_is_critical() -> None:
    rows = [row("idle", members=0, lag=500, lag_s=90.0), row("old", members=0, lag=500, lag_s=9000.0)]
    (only,) = found(Snapshot(groups=rows), curves_of(idle=(260, 500), old=(500, 500)))
    assert only.level is Level.CRITICAL
    assert only.text == (
        "idle has no members, and its lag grows: 500 messages, the oldest 1\xa0min 30\xa0s old, 2 more each second"
    )
    assert only.href == "/group?name=idle"


def test_a_group_whose_members_do_not_keep_up_is_a_warning() -> None:
    rows = [row("slow", members=1, lag=900, lag_s=120.0), row("fresh", lag=900, lag_s=2.0)]
    (only,) = found(Snapshot(groups=rows), curves_of(slow=(100, 900), fresh=(0, 900)))
    assert only.level is Level.WARNING
    assert only.text.startswith("slow is 2\xa0min behind and falls further: its one member does not keep up")


def test_who_a_hanging_rebalance_waits_for_is_named() -> None:
    awaited = tuple(Who(f"{name}-id", name) for name in ("a", "b", "c", "d"))
    hanging = Waiting("g", "PreparingRebalance", NOW_MS - 60_000, NOW_MS + 5_000, awaited)
    fresh = Waiting("h", "PreparingRebalance", NOW_MS - 1_000, None, awaited)
    (only,) = found(Snapshot(waiting=(hanging, fresh)))
    assert only.text == (
        "g has been rebalancing for 1\xa0min and waits for a, b, c and 1 more; it goes on without them in 5.0\xa0s"
    )


def test_a_flapping_group_is_named_with_its_main_cause() -> None:
    journal = Journal()
    journal.add(
        entry(
            number,
            began_ms=NOW_MS - number * 10_000,
            cause=Cause.MEMBER_LEFT if number < 4 else Cause.SESSION_EXPIRED,
            triggered_by=who("flap"),
        )
        for number in range(1, 6)
    )
    journal.add([entry(number, group="calm", began_ms=NOW_MS - 10_000) for number in (6, 7, 8)])
    (only,) = found(Snapshot(), journal=journal)
    assert only.text == "g rebalanced 5 times in 10 minutes, mostly because of “member left” by flap"


def test_what_is_worst_comes_first_and_kinds_are_cut() -> None:
    now = Snapshot(
        actors=(ActorRow("offsets-7", "restarting"), ActorRow("log-0", "failed", standby="standby-1")),
        nodes=(NodeRow("n", "10.0.0.1", "draining", ("log-0",)),),
        faults=tuple(FaultRow(f"f-{n}", {"action": "drop"}, 0, None, 0, n) for n in range(5)),
        partial=True,
        missing_partitions=(7,),
    )
    sentences = found(now)
    assert [each.level for each in sentences] == sorted(each.level for each in sentences)
    texts = [each.text for each in sentences]
    assert texts[0] == "offsets-7 is restarting"
    assert "log-0 is failed; standby-1 serves in its place" in texts
    assert "What you see is incomplete: offsets-7 did not respond" in texts
    assert "node 10.0.0.1 is draining; 1 actor still there" in texts
    assert [text for text in texts if "fault" in text][-1] == "2 more faults are in force"


def test_a_share_without_a_group_counts_from_one_percent() -> None:
    attribution = Attribution()
    report = {"gateway": 1, "at_ms": 1, "groups": [["g", "t", "assignment", 1, 980]]}
    attribution.feed({**report, "reasons": [["ambiguous", "t", 1, 20], ["internal", "t", 1, 10**9]]})
    (only,) = attention(Snapshot(), GroupCurves(), Journal(), attribution)
    assert only.text == "2.0\xa0% of the bytes sent have no group, mostly “internal”".replace("internal", "ambiguous")
