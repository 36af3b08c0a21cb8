"""Hundreds of groups with one address, one client id and one topic: the event loop does not wait for their labels."""

from __future__ import annotations

from collections import Counter

import pytest

from muster.gateway.attribution.connection import ConnectionState
from muster.gateway.attribution.evidence_rules import EvidenceRules
from muster.gateway.attribution.slot import Slot
from tests.attribution.bench import NOW_MS, Bench, Coordinator

COUNT = 80


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often candidates are searched, and bytes are judged."""
    counts = Counter[str]()

    def counted(owner: type, name: str) -> None:
        plain = getattr(owner, name)

        def call(*args: object, **options: object) -> object:
            counts[name] += 1
            return plain(*args, **options)

        monkeypatch.setattr(owner, name, call)

    for owner, name in (
        (Slot, "owners"),
        (Slot, "fitting"),
        (Slot, "absent"),
        (Slot, "_build"),
        (EvidenceRules, "judge"),
    ):
        counted(owner, name)
    return counts


@pytest.fixture
def says() -> Coordinator:
    return Coordinator()


@pytest.fixture
def connections(bench: Bench, says: Coordinator) -> list[ConnectionState]:
    """One for each of many groups that all own partitions 0 and 1, with nothing to distinguish them."""
    groups = [says.register(f"g{number}", f"m{number}", 0, 1) for number in range(COUNT)]
    bench.account.updates(groups, NOW_MS - 60_000)
    return [ConnectionState(opened_ms=NOW_MS) for _ in groups]


def fetch(bench: Bench, connections: list[ConnectionState], at_ms: int) -> None:
    for number, connection in enumerate(connections):
        bench.fetching(connection, {0: number, 1: number}, at_ms=at_ms)
        bench.send(0, at_ms=at_ms, connection=connection)
        bench.send(1, at_ms=at_ms, connection=connection)


def test_groups_that_nothing_distinguishes_cost_little_time(
    bench: Bench, connections: list[ConnectionState], work: Counter[str]
) -> None:
    for second in range(8):
        fetch(bench, connections, NOW_MS + second * 1_000)
        work.clear()
        bench.account.settle(NOW_MS + second * 1_000 + 500)
        assert work.total() < 10 * COUNT, work
    assert bench.labels() == []


def test_settling_is_done_in_small_steps(bench: Bench, connections: list[ConnectionState]) -> None:
    """Between two of them the event loop serves clients. What is compared is most of what takes time."""
    comparisons = bench.account.table.comparisons
    for second in range(4):
        fetch(bench, connections, NOW_MS + second * 1_000)
        began, largest = comparisons.count, 0
        before = began
        for _ in bench.account.settle_in_steps(NOW_MS + second * 1_000 + 500):
            largest, before = max(largest, comparisons.count - before), comparisons.count
    assert comparisons.count - began > 10 * COUNT * COUNT
    assert largest < 2 * COUNT * COUNT


def test_everybody_has_a_turn(bench: Bench, says: Coordinator, connections: list[ConnectionState]) -> None:
    """When all groups but one have left, it is found, though what is pending is examined in parts."""
    fetch(bench, connections, NOW_MS)
    fetch(bench, connections, NOW_MS + 1_000)
    bench.account.updates([says.withdraw(f"g{number}", f"m{number}", left=True) for number in range(1, COUNT)],
                             NOW_MS + 1_001)  # fmt: skip
    for second in range(2, 12):
        fetch(bench, connections[-1:], NOW_MS + second * 1_000)
        bench.settle(NOW_MS + second * 1_000 + 500)
    assert {sample.group for sample in bench.sink.final} == {"g0"}
    assert {sample.first_offset for sample in bench.sink.waiting.values()}.isdisjoint({COUNT - 1})


def test_a_update_has_only_some_of_what_waits_judged_at_once(
    bench: Bench, says: Coordinator, connections: list[ConnectionState], work: Counter[str]
) -> None:
    for second in range(3):
        fetch(bench, connections, NOW_MS + second * 1_000)
    work.clear()
    bench.account.updates([says.register("another", "m", 0, 1)], NOW_MS + 3_000)
    at_once = work["judge"]
    assert 0 < at_once <= 100
    work.clear()
    bench.account.settle(NOW_MS + 3_500)
    assert work["judge"] == 2 * 3 * COUNT - at_once


def test_groups_that_join_by_the_thousand_cost_little_time(bench: Bench, says: Coordinator, work: Counter[str]) -> None:
    """Seen in a benchmark: bytes waited, 5,000 groups joined, and the event loop was blocked for more than 10 s."""
    connections = [ConnectionState(opened_ms=NOW_MS) for _ in range(10)]
    bench.account.updates([says.register("first", "m", known=False)], NOW_MS)
    fetch(bench, connections, NOW_MS)
    work.clear()
    for number in range(2_000):
        for known in (False, True):
            now_ms = NOW_MS + number
            bench.account.updates([says.register(f"g{number}", f"m{number}", 2, known=known)], now_ms)
            bench.send(0, at_ms=now_ms, connection=connections[number % 10])
    assert work["_build"] <= 1
    assert work["judge"] < 8_000


def test_what_waits_is_judged_in_parts_when_its_time_is_over(
    bench: Bench, says: Coordinator, work: Counter[str]
) -> None:
    connections = [ConnectionState(opened_ms=NOW_MS) for _ in range(200)]
    bench.account.updates([says.register(f"g{number}", f"m{number}", 0, 1) for number in range(2_000)], NOW_MS)
    fetch(bench, connections, NOW_MS)
    seconds = 0
    while bench.sink.waiting:
        work.clear()
        seconds += 1
        bench.settle(NOW_MS + 120_000 + seconds * 1_000)
        assert work["judge"] <= 110
    assert seconds > 2
    assert bench.labels() == [(None, None, "none", "ambiguous")] * 400


def test_clients_that_come_and_go_do_not_have_all_that_waits_judged_each_time(
    bench: Bench, says: Coordinator, connections: list[ConnectionState]
) -> None:
    """Seen under attack: each verdict looked at all members that had left, and blocked the event loop for 0.8 s."""
    for number in range(500):
        bench.account.updates([says.register(f"g{number % 4}", f"gone{number}", 0, 1)], NOW_MS - 2_000)
        bench.account.updates([says.withdraw(f"g{number % 4}", f"gone{number}")], NOW_MS - 1_000)
    fetch(bench, connections, NOW_MS)
    fetch(bench, connections, NOW_MS + 3_000)
    at_once, began = [], bench.account.table.comparisons.count
    for number in range(1_000):
        before = bench.account.table.comparisons.count
        bench.account.updates([says.register("g0", f"new{number}", 0, 1)], NOW_MS + 4_000)
        at_once.append(bench.account.table.comparisons.count - before)
    assert 0 < max(at_once) < 30_000
    assert bench.account.table.comparisons.count - began < 200_000
    bench.account.settle(NOW_MS + 70_000)
    assert bench.labels()
