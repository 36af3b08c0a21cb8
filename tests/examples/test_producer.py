"""How fast the demo's producer goes: it has records left at each mark, however late what is waited for happens."""

from __future__ import annotations

from examples.demo.producer import Pace


def test_without_marks_it_is_steady() -> None:
    pace = Pace(rate=1000, marks=[], now_s=5.0)
    assert [pace.due(now_s) for now_s in (5.0, 5.5, 6.0, 9.0)] == [0, 500, 1000, 4000]


def test_from_a_mark_on_it_is_slow_until_the_mark_is_left() -> None:
    pace = Pace(rate=1000, marks=[2000, 3000], now_s=0.0)
    assert pace.due(1.0) == 1000
    assert pace.due(3.0) == 2050  # one of these two seconds after the mark
    assert pace.due(5.0) == 2150
    pace.leave_mark()
    assert pace.due(5.5) == 2650
    assert pace.due(6.0) == 3007
    pace.leave_mark()
    assert pace.due(7.0) == 4007


def test_a_mark_that_is_left_before_it_is_reached_does_not_slow_it() -> None:
    pace = Pace(rate=1000, marks=[2000], now_s=0.0)
    pace.leave_mark()
    assert pace.due(4.0) == 4000
