"""Whose turn it is on the event loop: :mod:`muster.gateway.listener.limiting.turns`, by costs that are given."""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from muster.actors.wire.kafka.steps import Steps
from muster.gateway.listener.limiting import turns as turns_module
from muster.gateway.listener.limiting.turns import TURN_S, Turns, in_background

MS = 0.001


class Client:
    """It has so many requests of one cost waiting; ``on_turn`` is called at each of its turns."""

    def __init__(self, turns: Turns, cost_s: float, count: int, on_turn: Callable[[], object] = lambda: None) -> None:
        self._turns, self._cost_s, self._left, self._on_turn = turns, cost_s, count, on_turn
        self.had_s = turns.arrival()
        self.ended = asyncio.Event()
        turns.queue(self._serve, self.had_s)

    def _serve(self) -> float:
        self._on_turn()
        self.had_s = self._turns.charged(self.had_s, self._cost_s)
        self._left -= 1
        if self._left:
            self._turns.queue(self._serve, self.had_s)
        else:
            self.ended.set()
        return 1.0  # so that each takes one turn


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 30))


def test_each_has_the_same_time_and_not_the_same_number_of_requests() -> None:
    async def both() -> None:
        turns, served = Turns(), Counter[str]()
        cheap = Client(turns, 1 * MS, 300, lambda: served.update(("cheap",)))
        Client(turns, 3 * MS, 300, lambda: served.update(("dear",)))
        await cheap.ended.wait()
        assert 98 <= served["dear"] <= 102

    run(both())


def test_one_that_had_less_than_the_others_does_not_wait_and_one_that_had_more_does() -> None:
    async def beside_a_busy_one() -> None:
        turns, are_due = Turns(), list[bool]()
        had_s = turns.charged(turns.arrival(), 5 * MS)
        busy = [Client(turns, 1 * MS, 20, lambda: are_due.append(turns.is_due(had_s))) for _ in range(2)]
        await busy[1].ended.wait()
        first = are_due.index(True)
        assert 10 <= first <= 12  # each of the two has had 5 ms more by then
        assert all(are_due[first:])

    run(beside_a_busy_one())


def test_a_new_one_waits_while_others_do_and_only_then() -> None:
    async def arriving() -> None:
        turns, are_due = Turns(), list[bool]()
        assert turns.is_due(turns.arrival())
        busy = [Client(turns, 1 * MS, 20, lambda: are_due.append(turns.is_due(turns.arrival()))) for _ in range(2)]
        await busy[1].ended.wait()
        assert are_due == 39 * [False] + [True]
        assert turns.is_due(turns.arrival())

    run(arriving())


def test_when_nothing_waits_any_more_all_have_had_the_same() -> None:
    async def twice() -> None:
        turns, are_due = Turns(), list[bool]()
        first = Client(turns, 100 * MS, 10)
        await first.ended.wait()
        await asyncio.sleep(0)
        others = [Client(turns, 1 * MS, 10, lambda: are_due.append(turns.is_due(first.had_s))) for _ in range(2)]
        await others[1].ended.wait()
        assert all(are_due)

    run(twice())


def test_long_work_lets_those_go_first_that_had_less() -> None:
    async def beside_long_work() -> None:
        turns, light_ended, served = Turns(), asyncio.Event(), list[str]()

        def steps() -> Steps[str]:
            while not light_ended.is_set():
                served.append("long")
                yield
            return "done"

        long = asyncio.ensure_future(turns.run(steps()))
        await asyncio.sleep(0)
        light = Client(turns, MS / 100, 10, lambda: served.append("light"))
        await light.ended.wait()
        light_ended.set()
        assert await long == "done"
        assert [who for who, _ in itertools.groupby(served)] == ["long", "light"]

    run(beside_long_work())


def test_work_in_the_background_does_not_wait_for_clients() -> None:
    async def beside_many() -> None:
        turns = Turns()
        for _ in range(50):
            Client(turns, 1 * MS, sys.maxsize)
        assert await in_background(_busy(10, TURN_S)) == "done"
        assert turns

    run(beside_many())


@pytest.mark.parametrize(("late_s", "is_late"), [(60.0, False), (0.0, True)])
def test_work_in_the_background_pauses_until_it_is_late(
    monkeypatch: pytest.MonkeyPatch, late_s: float, is_late: bool
) -> None:
    async def beside_a_ticker() -> None:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.ensure_future(tick())
        assert await in_background(_busy(40, TURN_S / 2)) == "done"
        assert (ticks < 60) is is_late
        ticking.cancel()

    monkeypatch.setattr(turns_module, "LATE_S", late_s)
    run(beside_a_ticker())


def _busy(steps: int, step_s: float) -> Steps[str]:
    for _ in range(steps):
        began_s = time.perf_counter()
        while time.perf_counter() - began_s < step_s:
            pass
        yield
    return "done"
