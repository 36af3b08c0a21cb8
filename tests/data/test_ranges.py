"""Ranges of offsets, cut and split."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from muster.gateway.client.data.ranges import Range, between, cut, split

sizes = st.lists(st.integers(1, 1000), max_size=8)


def ranges(of: list[int]) -> list[Range]:
    return [Range("t", index, 10 * index, 10 * index + size) for index, size in enumerate(of)]


@given(sizes, st.integers(0, 3000))
def test_a_cut_keeps_the_beginning_of_each_and_as_much_as_it_may(of: list[int], limit: int) -> None:
    before = ranges(of)
    after = cut(before, limit)
    assert sum(each.offsets for each in after) == min(limit, sum(of))
    by_partition = {each.partition: each for each in before}
    assert all(each.start == by_partition[each.partition].start and each.offsets for each in after)
    assert all(each.end <= by_partition[each.partition].end for each in after)


@given(sizes, st.integers(1, 3000))
def test_a_cut_is_fair(of: list[int], limit: int) -> None:
    """No partition has more than another one that is cut, but for one offset."""
    taken = {each.partition: each.offsets for each in cut(ranges(of), limit)}
    of_cut = [taken.get(index, 0) for index, size in enumerate(of) if taken.get(index, 0) < size]
    assert not of_cut or max(taken.values()) <= min(of_cut) + 1


@given(sizes, st.integers(1, 300))
def test_pieces_are_the_ranges_in_their_order(of: list[int], limit: int) -> None:
    pieces = list(split(ranges(of), limit))
    assert all(0 < each.offsets <= limit for each in pieces)
    offsets = [(each.partition, offset) for each in pieces for offset in range(each.start, each.end)]
    assert offsets == [(each.partition, offset) for each in ranges(of) for offset in range(each.start, each.end)]


def test_partitions_without_anything_have_no_range() -> None:
    starts, ends = {("t", 0): 5, ("t", 1): 7, ("t", 2): 0}, {("t", 0): 5, ("t", 1): 6, ("t", 2): 1}
    assert between(starts, ends) == (Range("t", 2, 0, 1),)
