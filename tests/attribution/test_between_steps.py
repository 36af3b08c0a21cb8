"""Work of once a second is done in steps, and clients fetch, join and leave between them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from muster.actors.tables.rollup import Sample
from muster.gateway.attribution.account import Account
from muster.gateway.attribution.connection import ConnectionState, Identity
from muster.gateway.attribution.verdict import Evidence
from tests.attribution.bench import CLIENT, NOW_MS, Bench, Coordinator, Sink

S = 1_000
STEPS = range(1, 14)
"""At least as many as there are; behind them nothing happens."""


@pytest.fixture
def world() -> tuple[Bench, Coordinator]:
    sink = Sink()
    return Bench(Account(sink, Sample), sink), Coordinator()


def connections(count: int) -> list[ConnectionState]:
    return [ConnectionState(opened_ms=NOW_MS - 50 * S) for _ in range(count)]


def identity(connection: ConnectionState) -> Identity | None:
    return connection.fetches[CLIENT].identity


def settle(bench: Bench, at_ms: int, at_step: int, happens: Callable[[], None]) -> None:
    """Settle in steps; ``happens`` is called behind one of them."""
    for step, _ in enumerate(bench.account.settle_in_steps(at_ms), 1):
        if step == at_step:
            happens()
        bench.check()


@pytest.mark.parametrize("step", STEPS)
def test_a_client_fetches_something_else(world: tuple[Bench, Coordinator], step: int) -> None:
    """Fetches of long before are forgotten."""
    bench, says = world
    groups = [says.register("g1", "m1", 0, 1), says.register("g2", "m2", 0, 5), says.register("g3", "m3", 0, 5)]
    bench.account.updates(groups, NOW_MS - 60 * S)
    known, first, second = connections(3)
    bench.fetching(known, {0: 0, 1: 0}, at_ms=NOW_MS)
    bench.send(1, at_ms=NOW_MS, connection=known)
    for each in (first, second):
        bench.fetching(each, {0: 0, 5: 0}, at_ms=NOW_MS)
        bench.send(0, at_ms=NOW_MS, connection=each)
    for at_ms in (NOW_MS + 3 * S, NOW_MS + 9_500):
        bench.fetching(known, {0: 9, 1: 9}, at_ms=at_ms)
        bench.fetching(first, {0: 9, 5: 9}, at_ms=at_ms)
        bench.fetching(second, {5: at_ms}, at_ms=at_ms)
    settle(bench, NOW_MS + 10_400, step, lambda: bench.fetching(second, {5: at_ms + 1, 7: 0}, at_ms=NOW_MS + 10_500))
    found = identity(known)
    assert found is not None
    assert found.group == "g1"


@pytest.mark.parametrize("step", STEPS)
def test_a_client_shows_whose_it_is(world: tuple[Bench, Coordinator], step: int) -> None:
    """Evidence by assignment is not replaced by what is found out by elimination."""
    bench, says = world
    bench.account.updates([says.register("g1", "m1", 0, 1), says.register("g2", "m2", 0, 5)], NOW_MS - 60 * S)
    pair = connections(2)
    for at_ms in (NOW_MS, NOW_MS + 3 * S):
        for each in pair:
            bench.fetching(each, {0: at_ms - NOW_MS}, at_ms=at_ms)
            if at_ms == NOW_MS:
                bench.send(0, at_ms=at_ms, connection=each)
    is_shown = False

    def show() -> None:
        nonlocal is_shown
        is_shown = True
        for each, own in zip(pair, (1, 5), strict=True):
            bench.fetching(each, {0: 3_001, own: 0}, at_ms=NOW_MS + 3_600)
            bench.send(own, at_ms=NOW_MS + 3_600, connection=each)

    settle(bench, NOW_MS + 3_500, step, show)
    if is_shown:
        found = [(each.group, each.evidence) for each in map(identity, pair) if each is not None]
        assert found == [("g1", Evidence.BINDING), ("g2", Evidence.BINDING)]


@pytest.mark.parametrize("step", STEPS)
def test_a_client_fetches_what_contradicts_a_guess(world: tuple[Bench, Coordinator], step: int) -> None:
    """The client is paired with a group by all that it has fetched then."""
    bench, says = world
    groups = [
        says.register("g1", "m1", 0, 1, 2),
        says.register("g2", "m2", 0, 1, 2, 3),
        says.register("g3", "m3", 0),
    ]
    bench.account.updates(groups, NOW_MS - 60 * S)
    other, one, two = connections(3)
    places = {id(other): (0, 2), id(one): (0, 1), id(two): (0, 1)}
    for at_ms in range(NOW_MS, NOW_MS + 33 * S, S):
        for each in (other, one, two):
            bench.fetching(each, dict.fromkeys(places[id(each)], 0), at_ms=at_ms)
            if at_ms == NOW_MS:
                bench.send(0, at_ms=at_ms, connection=each)
    before: list[Identity | None] = []

    def contradict() -> None:
        before.append(identity(one))
        bench.fetching(one, {0: 0, 1: 0, 3: 0}, at_ms=at_ms + 600)  # only g2 owns partition 3

    settle(bench, at_ms + 500, step, contradict)
    if before == [None] and (found := identity(one)) is not None:
        assert found.group == "g2"
