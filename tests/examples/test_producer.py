"""The rate of the demo's producer: it has records left at each mark, however late the awaited event happens."""

from __future__ import annotations

from examples.demo.producer import Schedule


def test_without_marks_it_is_steady() -> None:
    schedule = Schedule(rate=1000, marks=[], now_s=5.0)
    assert [schedule.due(now_s) for now_s in (5.0, 5.5, 6.0, 9.0)] == [0, 500, 1000, 4000]


def test_from_a_mark_on_it_is_slow_until_the_mark_is_left() -> None:
    schedule = Schedule(rate=1000, marks=[2000, 3000], now_s=0.0)
    assert schedule.due(1.0) == 1000
    assert schedule.due(3.0) == 2050  # one of these two seconds after the mark
    assert schedule.due(5.0) == 2150
    schedule.leave_mark()
    assert schedule.due(5.5) == 2650
    assert schedule.due(6.0) == 3007
    schedule.leave_mark()
    assert schedule.due(7.0) == 4007


def test_a_mark_that_is_left_before_it_is_reached_does_not_slow_it() -> None:
    schedule = Schedule(rate=1000, marks=[2000], now_s=0.0)
    schedule.leave_mark()
    assert schedule.due(4.0) == 4000
