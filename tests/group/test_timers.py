from __future__ import annotations

import random

from actors.group.timers import TimerKind, TimerName, Timers

A, B = TimerName(TimerKind.SESSION, "g", "a"), TimerName(TimerKind.SESSION, "g", "b")


def test_replaced_and_cancelled_timers_never_fire() -> None:
    timers = Timers()
    timers.set(A, 10)
    timers.set(B, 20)
    timers.set(A, 30)
    assert (timers.next_ms(), timers.get(A)) == (20, 30)
    timers.cancel(B)
    assert timers.next_ms() == 30
    assert [*timers.due(29)] == []
    assert [*timers.due(30)] == [A]
    assert (timers.next_ms(), timers.get(A)) == (None, None)


def test_an_earlier_deadline_counts() -> None:
    timers = Timers()
    timers.set(A, 30)
    timers.set(A, 10)
    assert [*timers.due(10)] == [A]
    assert timers.next_ms() is None


def test_a_timer_that_re_arms_itself_fires_once_per_call() -> None:
    timers = Timers()
    timers.set(A, 10)
    fired = 0
    for name in timers.due(10):
        fired += 1
        timers.set(name, 10)
    assert fired == 1
    assert timers.next_ms() == 10
    assert [*timers.due(10)] == [A]


def test_a_timer_cancelled_by_one_that_fires_before_it() -> None:
    timers = Timers()
    timers.set(A, 10)
    timers.set(B, 11)
    for name in timers.due(20):
        assert name == A
        timers.cancel(B)


def test_heartbeats_do_not_grow_the_heap() -> None:
    timers = Timers()
    for now in range(10_000):
        timers.set(A, now + 10)
    assert len(timers._heap) == 1
    assert timers.next_ms() == 10_009


def test_against_a_plain_dict() -> None:
    chance = random.Random(1)
    timers, model = Timers(), dict[TimerName, int]()
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
        assert timers.next_ms() == min(model.values(), default=None)
        fired = [*timers.due(now)]
        assert [model[name] for name in fired] == sorted(model[name] for name in fired)
        assert set(fired) == {name for name, at in model.items() if at <= now}
        for name in fired:
            del model[name]
