from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from muster.gateway.console.model.series import GROUP_STEP_MS, Curve, Curves, GroupCurves


def test_a_gap_is_none_and_the_oldest_goes() -> None:
    curve = Curve(4)
    for bucket, value in ((10, 1.0), (11, 2.0), (14, 3.0)):
        curve.put(bucket, value)
    assert list(curve.points()) == [(11, 2.0), (12, None), (13, None), (14, 3.0)]


def test_a_short_gap_is_bridged_with_the_value_before() -> None:
    curve = Curve(10)
    curve.put(1, 5.0)
    curve.put(3, 7.0, bridge=1)
    curve.put(6, 9.0, bridge=1)
    assert list(curve.points()) == [(1, 5.0), (2, 5.0), (3, 7.0), (4, None), (5, None), (6, 9.0)]


def test_a_value_in_the_past_changes_nothing() -> None:
    curve = Curve(4)
    curve.put(5, 1.0)
    curve.put(4, 9.0)
    assert list(curve.points()) == [(5, 1.0)]


@given(st.lists(st.tuples(st.integers(0, 200), st.floats(0, 1000, width=32)), max_size=60))
def test_a_curve_is_what_a_dict_of_the_newest_buckets_is(puts: list[tuple[int, float]]) -> None:
    curve, expected, newest = Curve(20), dict[int, float](), -1
    for bucket, value in puts:
        curve.put(bucket, value)
        if bucket >= newest:
            newest = bucket
            expected[bucket] = value
    assert len(curve) <= 20
    kept = {bucket: value for bucket, value in expected.items() if bucket > newest - 20}
    assert {bucket: value for bucket, value in curve.points() if value is not None} == kept


def test_a_coarse_curve_keeps_peaks() -> None:
    curves = Curves(1_000)
    for second, value in enumerate((1, 9, 2, 3)):
        curves.put(second * 1_000, {"lag": value})
    curves.put(25_000, {"lag": 4})
    assert curves.coarse("lag", 10_000) == [(0, 9.0), (10_000, None), (20_000, 4.0)]


def test_curves_of_groups_are_bounded_and_forgotten() -> None:
    curves = GroupCurves(max_groups=2, span_ms=3 * GROUP_STEP_MS)
    assert curves.put(0, [(name, 1, 1.0, None) for name in ("a", "b", "c")])
    assert not curves.put(5_000, [("a", 100, 1.0, None)]), "the same bucket is filled once"
    assert (curves.points("a", "lag"), curves.points("c", "lag")) == ([(0, 1.0)], [])
    for step in range(1, 5):
        curves.put(step * GROUP_STEP_MS, [("a", step, 0.0, 10.0 * step)])
    assert len(curves) == 1
    assert curves.growth("a", "lag", 4 * GROUP_STEP_MS, 2 * GROUP_STEP_MS) == 2.0
    assert curves.growth("a", "lag", 4 * GROUP_STEP_MS, 20 * GROUP_STEP_MS) is None
    assert curves.largest("bytes_s", 5) == ["a"]
