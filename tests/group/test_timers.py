from __future__ import annotations

import heapq
import random
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from muster.actors.group import timers as timers_module
from muster.actors.group.config import GroupConfig
from muster.actors.group.timers import TimerKind, TimerName, Timers
from tests.group.driver import Driver, beat, leave

A, B = TimerName(TimerKind.SESSION, "g", "a"), TimerName(TimerKind.SESSION, "g", "b")


def test_replaced_and_cancelled_timers_never_fire() -> None:
    timers = Timers[TimerName]()
    timers.set(A, 10)
    timers.set(B, 20)
    timers.set(A, 30)
    assert [*timers.due(19)] == []
    assert (timers.next_ms(), timers.get(A)) == (20, 30)
    timers.cancel(B)
    assert timers.next_ms() == 30
    assert [*timers.due(29)] == []
    assert [*timers.due(30)] == [A]
    assert (timers.next_ms(), timers.get(A)) == (None, None)


def test_an_earlier_deadline_counts() -> None:
    timers = Timers[TimerName]()
    timers.set(A, 30)
    timers.set(A, 10)
    assert [*timers.due(10)] == [A]
    assert timers.next_ms() is None


def test_a_timer_that_re_arms_itself_fires_once_per_call() -> None:
    timers = Timers[TimerName]()
    timers.set(A, 10)
    fired = 0
    for name in timers.due(10):
        fired += 1
        timers.set(name, 10)
    assert fired == 1
    assert timers.next_ms() == 10
    assert [*timers.due(10)] == [A]


def test_a_timer_cancelled_by_one_that_fires_before_it() -> None:
    timers = Timers[TimerName]()
    timers.set(A, 10)
    timers.set(B, 11)
    for name in timers.due(20):
        assert name == A
        timers.cancel(B)


def test_heartbeats_do_not_grow_the_heap() -> None:
    timers = Timers[TimerName]()
    for now in range(10_000):
        timers.set(A, now + 10)
    assert len(timers._heap) == 1
    assert timers.next_ms() == 10, "not looked at before"
    assert [*timers.due(10)] == []
    assert timers.next_ms() == 10_009


class Counted:
    """Counts pushes to and pops from heaps of timers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pushes = self.pops = 0
        monkeypatch.setattr(timers_module, "heappush", self._push)
        monkeypatch.setattr(timers_module, "heappop", self._pop)

    def _push(self, heap: list[Any], item: Any) -> None:
        self.pushes += 1
        heapq.heappush(heap, item)

    def _pop(self, heap: list[Any]) -> Any:
        self.pops += 1
        return heapq.heappop(heap)


def test_members_that_come_and_go_leave_nothing_behind() -> None:
    """Timers of new ids, new members' 5 minutes and sessions are armed and cancelled with every member."""
    driver = Driver(GroupConfig(group_initial_rebalance_delay_ms=0))
    timers = driver.core._shard.timers
    for _ in range(500):
        driver.exchange(leave(*driver.stable()))
        driver.advance(1)
    assert len(timers._armed) < 10
    assert len(timers._heap) < 200


def test_a_heap_made_anew_keeps_every_timer() -> None:
    timers = Timers[TimerName]()
    names = [TimerName(TimerKind.SESSION, "g", str(n)) for n in range(100)]
    for deadline_ms in range(2000, 1000, -100):
        for n, name in enumerate(names):
            timers.set(name, deadline_ms + n)
    assert len(timers._heap) < 300
    assert [*timers.due(1099 + 50)] == names[:50]
    assert [*timers.due(2000)] == names[50:]


def test_a_heartbeat_touches_no_heap_however_many_members_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A later deadline costs a dict entry; its place in the heap is renewed once per session."""
    driver = Driver(GroupConfig())
    members = driver.stable(1000, session_ms=10_000)
    timers = driver.core._shard.timers
    size = len(timers._heap)
    assert size <= 2 * len(members) + 100
    counted = Counted(monkeypatch)
    for member in members:
        assert driver.error(beat(member, 1)) is ErrorCode.none
    assert (counted.pushes, counted.pops, len(timers._heap)) == (0, 0, size)

    beats, sessions = 40, 4
    for _ in range(beats):
        driver.advance(1_000)
        for member in members:
            driver.send(beat(member, 1))
        assert len(timers._heap) <= size
    assert len(driver.group().members) == 1000
    assert counted.pushes <= (sessions + 1) * size
    assert counted.pops <= (sessions + 1) * size


def test_against_a_plain_dict() -> None:
    chance = random.Random(1)
    timers, model = Timers[TimerName](), dict[TimerName, int]()
    names = [TimerName(TimerKind.JOIN, str(n)) for n in range(6)]
    for now in range(3000):
        name = chance.choice(names)
        match chance.randrange(3):
            case 0:
                model[name] = now + chance.randrange(20)
                timers.set(name, model[name])
            case 1:
                model.pop(name, None)
                timers.cancel(name)
        earliest, look = min(model.values(), default=None), timers.next_ms()
        assert (look is None) == (earliest is None)
        assert look is None or earliest is None or look <= earliest
        fired = [*timers.due(now)]
        assert [model[name] for name in fired] == sorted(model[name] for name in fired)
        assert set(fired) == {name for name, at in model.items() if at <= now}
        for name in fired:
            del model[name]
        assert (timers.next_ms() or now + 1) > now
