"""A wait is a time in which a record existed and did not arrive; a group's lag is its oldest such record's age."""

from __future__ import annotations

import json

import pytest

from examples.demo.arrivals import STEP_S, Arrivals, Arrived, Wait, lag_of, waits_of


def arrived(*records: tuple[int, float, float]) -> Arrived:
    """Return the arrivals of ``records``: (partition, produced at, arrived at)."""
    arrivals = Arrivals()
    for partition, since_s, at_s in records:
        arrivals.add(partition, since_s, at_s)
    return through_json(arrivals)


def through_json(arrivals: Arrivals) -> Arrived:
    """Return the arrivals that the runner reads from the child's line."""
    return Arrived.from_json(json.loads(json.dumps(arrivals.to_json())))


def spans(waits: list[Wait]) -> list[tuple[int | None, float, float]]:
    return [(wait.partition, wait.from_s, wait.to_s) for wait in waits]


def test_a_wait_lasts_from_the_record_or_the_one_before_it() -> None:
    client = arrived((0, 9.0, 10.0), (0, 13.0, 15.0), (0, 13.5, 16.0), (0, 19.95, 20.0))
    assert spans(waits_of([client])) == [(0, 13.0, 15.0), (0, 15.0, 16.0)]


def test_one_partition_waits_while_another_is_read() -> None:
    client = arrived((0, 10.0, 10.0), (1, 10.0, 10.0), *((0, at_s, at_s) for at_s in (11.0, 12.0)), (1, 10.5, 12.5))
    assert spans(waits_of([client])) == [(1, 10.5, 12.5)]


def test_a_partition_that_moves_to_another_member_waits_in_between() -> None:
    first, second = arrived((0, 10.0, 10.0), (0, 11.0, 11.0)), arrived((0, 11.5, 14.0))
    assert spans(waits_of([first, second])) == [(0, 11.5, 14.0)]


def test_a_partition_that_was_away_did_not_wait() -> None:
    arrivals = Arrivals()
    arrivals.add(0, 10.0, 10.0)
    arrivals.assigned()
    arrivals.add(0, 10.5, 13.05)  # the other one had it, too
    between = arrived(*((0, at_s, at_s) for at_s in (11.0, 12.0, 13.0)))
    assert waits_of([through_json(arrivals), between]) == []


def test_a_commit_waits_from_the_first_request_to_the_first_success() -> None:
    arrivals = Arrivals()
    for at_s in (10.0, 11.0, 12.0):
        arrivals.commit_requested(at_s)
    arrivals.committed(12.4)
    arrivals.committed(12.9)  # the response to an earlier request
    arrivals.commit_requested(13.0)
    arrivals.committed(13.01)
    assert spans(waits_of([through_json(arrivals)])) == [(None, 10.0, 12.4)]


def test_lag_grows_while_a_record_waits() -> None:
    lag_s = lag_of([arrived((0, 10.0, 10.1), (0, 10.2, 12.1), (0, 20.0, 20.2))])
    by_second = {step * STEP_S: pytest.approx(age_s) for step, age_s in lag_s.items()}
    assert by_second == {10.0: 0.3, 10.5: 0.8, 11.0: 1.3, 11.5: 1.8, 12.0: 1.9, 20.0: 0.2}


def test_lag_is_that_of_the_member_that_is_behind() -> None:
    lag_s = lag_of([arrived((0, 10.0, 10.1)), arrived((1, 9.3, 10.2))])
    assert lag_s == {20: pytest.approx(0.9)}
