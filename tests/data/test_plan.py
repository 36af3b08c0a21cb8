"""The plan of a batch in the offsets of its group."""

from __future__ import annotations

import pytest

from muster.gateway.client.data.plan import Plan, done, planned, read_plan
from muster.gateway.client.data.ranges import Range
from muster.gateway.client.kafka.offsets import Committed

A, B = Range("t", 0, 5, 10), Range("t", 1, 0, 3)


def test_a_group_without_batches_begins_with_the_first() -> None:
    assert read_plan({}) == Plan(1, ())
    assert read_plan({("t", 0): Committed(5, "a note of somebody else's")}) == Plan(1, ())


def test_a_batch_that_was_begun_is_the_same_again() -> None:
    assert read_plan({("t", 2): Committed(1, ""), **planned(3, [A, B])}) == Plan(3, (A, B))


def test_after_a_batch_that_is_done_comes_the_next() -> None:
    assert read_plan(planned(3, [A, B]) | done(3, [A, B])) == Plan(4, ())
    assert done(3, [A])["t", 0].offset == A.end


def test_partitions_without_records_in_the_last_batch_do_not_count() -> None:
    assert read_plan(done(3, [A]) | planned(4, [B])) == Plan(4, (B,))
    assert read_plan(planned(3, [A]) | done(4, [B])) == Plan(5, ()), "one that was given up"


@pytest.mark.parametrize("reset", [[A], [A, B]])
def test_a_batch_whose_offsets_were_reset_was_not_begun(reset: list[Range]) -> None:
    """Its number is not used again as long as anything of it is left: files may have it."""
    offsets = planned(3, [A, B]) | {(each.topic, each.partition): Committed(0, "") for each in reset}
    assert read_plan(offsets) == Plan(4 if reset == [A] else 1, ())


@pytest.mark.parametrize(
    "metadata",
    [
        "{",
        "[]",
        "3",
        "null",
        '{"muster.batch":"3"}',
        '{"muster.batch":3,"end":"9"}',
        '{"end":9}',
        '{"muster.batch":null}',
    ],
)
def test_metadata_of_others(metadata: str) -> None:
    assert read_plan({("t", 0): Committed(0, metadata)}) == Plan(1, ())
