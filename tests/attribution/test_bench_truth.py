"""The arithmetic of ``python -m benchmarks.attribution``: it must detect every kind of wrong count."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from benchmarks.attribution.cases import CASES
from benchmarks.attribution.report import Result
from tests.attribution.truth import Books, Group, Outcome, Place, Truth, compare, differences, largest_error

PLACE, OTHER = ("t", 0), ("t", 1)
RECEIVED: Counter[tuple[Group, Place]] = Counter({("a", PLACE): 600, ("b", PLACE): 400, (None, OTHER): 100})


def books(*groups: tuple[str, Place, int], **reasons: int) -> Books:
    """Amounts by group and partition; by reason, on the partition that a consumer without a group reads."""
    return Books(
        groups=Counter({(group, place): size for group, place, size in groups}),
        reasons=Counter({(reason, OTHER): size for reason, size in reasons.items()}),
    )


RIGHT = books(("a", PLACE, 600), ("b", PLACE, 400), no_group=100)


def test_all_right() -> None:
    assert compare(RECEIVED, RIGHT) == Outcome(total=1100, right=1100, wrong=0, unattributed={}, miscounted=0)


def test_one_groups_bytes_under_another() -> None:
    found = compare(RECEIVED, books(("a", PLACE, 700), ("b", PLACE, 300), no_group=100))
    assert (found.right, found.wrong, found.unattributed, found.miscounted) == (1000, 100, {}, 0)


def test_a_swap_is_wrong_as_far_as_the_groups_differ() -> None:
    assert compare(RECEIVED, books(("a", PLACE, 400), ("b", PLACE, 600), no_group=100)).wrong == 200


def test_the_right_group_on_the_wrong_partition_is_wrong() -> None:
    found = compare(RECEIVED, books(("a", PLACE, 500), ("a", OTHER, 100), ("b", PLACE, 400), no_group=100))
    assert (found.right, found.wrong, found.miscounted) == (1000, 100, 200)


def test_a_group_that_received_nothing() -> None:
    assert compare(RECEIVED, books(("a", PLACE, 600), ("c", PLACE, 400), no_group=100)).wrong == 400


def test_bytes_of_no_group_under_a_group_are_wrong() -> None:
    found = compare(RECEIVED, books(("a", PLACE, 600), ("b", PLACE, 400), ("a", OTHER, 100)))
    assert (found.right, found.wrong, found.unattributed) == (1000, 100, {})


def test_unattributed_is_counted_by_reason_less_the_bytes_of_no_group() -> None:
    received = RECEIVED + Counter({("a", OTHER): 50})
    found = compare(received, books(("a", PLACE, 600), ("b", PLACE, 400), ambiguous=30, no_group=120))
    assert (found.right, found.wrong) == (1100, 0)
    assert found.unattributed == {"ambiguous": 30, "no_group": 20}


@pytest.mark.parametrize("size_bytes", [500, 700])
def test_bytes_that_were_not_counted_or_never_received(size_bytes: int) -> None:
    assert compare(RECEIVED, books(("a", PLACE, size_bytes), ("b", PLACE, 400), no_group=100)).miscounted == 100


def test_books_of_one_case_only() -> None:
    both = Books(Counter({("a", ("one.t", 0)): 1, ("a", ("two.t", 0)): 2}))
    both.add(Books(Counter({("a", ("one.t", 0)): 4}), evidence=Counter({("session", ("two.t", 0)): 4})))
    assert both.of("one.") == Books(Counter({("a", ("one.t", 0)): 5}))


def test_where_counts_differ() -> None:
    assert differences(RECEIVED, RIGHT) == []
    found = differences(RECEIVED, books(("a", PLACE, 700), ("b", PLACE, 400)))
    assert found == [("a", "t", 0, 600, 700)]


def test_how_far_groups_were_apart() -> None:
    truth = Truth()
    for group in ("a", "b"):
        truth.expect(group, PLACE)
    for group, size_bytes in (("a", 10), ("a", 20), ("b", 30), ("b", 5)):
        truth.receive(group, PLACE, size_bytes)
    assert truth.apart == {PLACE: 30}
    assert largest_error(truth.of("t"), Books(Counter({("a", PLACE): 35, ("b", PLACE): 10})), PLACE) == 25


def result(ours: Outcome, *, may_swap: bool = False, beyond_positions: int = 0) -> Result:
    return Result(replace(CASES[0], may_swap=may_swap), ours, ours, {}, [], beyond_positions)


ALL_RIGHT = Outcome(total=10_000, right=10_000, wrong=0, unattributed={}, miscounted=0)


@pytest.mark.parametrize(
    ("ours", "holds"),
    [
        (ALL_RIGHT, True),
        (replace(ALL_RIGHT, right=9_990, unattributed={"ambiguous": 10}), True),
        (replace(ALL_RIGHT, right=9_989, unattributed={"ambiguous": 11}), False),
        (replace(ALL_RIGHT, right=9_999, wrong=1), False),
        (replace(ALL_RIGHT, miscounted=1), False),
        (replace(ALL_RIGHT, total=0, right=0), False),
    ],
)
def test_when_a_case_holds(ours: Outcome, holds: bool) -> None:
    assert (not result(ours).faults) is holds


def test_groups_that_nothing_distinguishes_may_be_off_as_far_as_their_positions() -> None:
    swapped = replace(ALL_RIGHT, right=5_000, wrong=5_000)
    assert not result(swapped, may_swap=True).faults
    assert result(swapped, may_swap=True, beyond_positions=1).faults
    assert not result(swapped, may_swap=True, beyond_positions=-1).faults
