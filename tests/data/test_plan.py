"""The plan of a batch in the offsets of its group."""

from __future__ import annotations

import pytest

from muster.gateway.client.data.plan import Plan, done, planned, read_plan
from muster.gateway.client.data.ranges import Range
from muster.gateway.client.kafka.offsets import Committed

A, B = Range("t", 0, 5, 10), Range("t", 1, 0, 3)


NOW_S = 1_800_000_000


def plan(committed: dict[tuple[str, int], Committed]) -> Plan:
    return read_plan(committed, NOW_S)


def test_a_group_without_batches_begins_with_the_first() -> None:
    assert plan({}) == Plan(1, ())


def test_numbers_of_a_group_that_somebody_else_has_committed_for_are_new() -> None:
    """Such as a reset of all its offsets: files may have the numbers before."""
    assert plan({("t", 0): Committed(5, "a note of somebody else's")}) == Plan(NOW_S, ())


def test_a_batch_that_was_begun_is_the_same_again() -> None:
    others = {("t", 2): Committed(1, "")}
    committed = planned(3, [A, B], others)
    assert plan(committed) == Plan(3, (A, B))
    assert committed["t", 2].offset == 1


def test_after_a_batch_that_is_done_comes_the_next() -> None:
    assert plan(planned(3, [A, B], {}) | done(3, [A, B])) == Plan(4, ())
    assert done(3, [A])["t", 0].offset == A.end


def test_partitions_without_records_in_the_last_batch() -> None:
    assert plan(done(3, [A]) | planned(4, [B], done(3, [A]))) == Plan(4, (B,))


def test_the_number_is_in_partitions_that_are_not_read() -> None:
    """So that it is known after a reset of those that are."""
    committed = planned(4, [B], done(3, [A])) | {("t", 1): Committed(0, "")}
    assert plan(committed) == Plan(5, ())


def test_partitions_that_were_reset_are_in_a_batch_no_longer() -> None:
    """It was not committed, so its number may have other records."""
    assert plan(planned(3, [A, B], {}) | {("t", 0): Committed(0, "")}) == Plan(3, (B,))


@pytest.mark.parametrize(
    "metadata", ["{", "[]", "3", "null", '{"muster.batch":"3"}', '{"muster.batch":3,"end":"9"}', '{"end":9}']
)
def test_metadata_of_others(metadata: str) -> None:
    assert plan({("t", 0): Committed(0, metadata)}) == Plan(NOW_S, ())
