"""Which workers are stopped, which slots are used, and when dead workers are replaced."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.gateway.client.pool.choosing import Restarts, free_slots, to_stop

P0, P1, P2, P3 = (("t", index) for index in range(4))


@pytest.mark.parametrize(
    ("count", "partitions", "lags", "slots"),
    [
        (0, {0: [P0]}, {}, []),
        (1, {0: [P0], 1: []}, {}, [1]),
        (1, {0: [], 1: [P0]}, {P0: 5}, [0]),
        (1, {0: [P0], 1: [P1]}, {P0: 0, P1: 7}, [0]),
        (1, {0: [P0], 1: [P1]}, {P0: 7}, [1]),
        (2, {0: [P0, P1], 1: [P2], 2: [P3]}, {P0: 1, P1: 1, P2: 3, P3: 0}, [2, 0]),
        (1, {0: [P0], 1: [P1], 2: [P2]}, {P0: 4, P1: 4, P2: 4}, [2]),
        (1, {0: [P0, P1], 1: [P2]}, {P0: 0, P1: 0, P2: 0}, [1]),
        (9, {3: [P0], 4: []}, {}, [4, 3]),
        (-1, {0: []}, {}, []),
    ],
    ids=[
        "none",
        "one without partitions",
        "one without partitions before one that lags",
        "one that has read all",
        "an unknown lag is none",
        "the sum of the partitions",
        "the highest slot of equals",
        "fewest partitions of equals",
        "all",
        "fewer than none",
    ],
)
def test_idle_workers_are_stopped_first(
    count: int, partitions: dict[int, list[tuple[str, int]]], lags: dict[tuple[str, int], int], slots: list[int]
) -> None:
    assert to_stop(count, partitions, lags) == slots


@given(st.integers(0, 20), st.sets(st.integers(0, 30)))
def test_free_slots_are_the_lowest(count: int, used: set[int]) -> None:
    found = free_slots(count, used)
    assert len(found) == count
    assert not used.intersection(found)
    assert sorted(found) == found
    if found:
        assert set(range(found[-1])) <= used.union(found)


def test_a_worker_is_replaced_at_once_and_later_if_it_dies_of_its_start() -> None:
    restarts = Restarts()
    assert restarts.may_start(0)
    pauses = []
    now_s = 0.0
    for _ in range(7):
        restarts.note_deaths(now_s, [2.0])
        begin_s = now_s
        while not restarts.may_start(now_s):
            now_s += 0.5
        pauses.append(now_s - begin_s)
    assert pauses == [0, 1, 2, 4, 8, 16, 30]
    restarts.note_deaths(now_s, [60.0])
    restarts.note_deaths(now_s, [2.0])
    assert restarts.may_start(now_s)
