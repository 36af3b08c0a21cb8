"""One group to one connection: the possible pairs, and the choice among equal ones."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from muster.gateway.attribution.matching import pairs, viable

GROUPS = "abcd"
OPTIONS = st.lists(st.sets(st.sampled_from(GROUPS)), max_size=len(GROUPS))


def choices(options: list[set[str]]) -> list[tuple[str, ...]]:
    """All matchings, by exhaustive search."""
    return [
        chosen
        for chosen in permutations(GROUPS, len(options))
        if all(group in each for group, each in zip(chosen, options, strict=True))
    ]


def test_a_choice_that_blocks_another_is_taken_back() -> None:
    assert pairs([{"a", "b"}, {"a"}]) == ["b", "a"]
    assert pairs([{"a", "b", "c"}, {"a", "b"}, {"a"}]) == ["c", "b", "a"]
    assert pairs([{"a"}, {"a"}]) is None
    assert pairs([]) == []


def test_two_that_have_two_groups_between_them_leave_the_third_to_others() -> None:
    assert viable({1: {"a", "b"}, 2: {"a", "b"}, 3: {"b", "c"}}) == {1: {"a", "b"}, 2: {"a", "b"}, 3: {"c"}}


@given(OPTIONS)
def test_what_is_viable_is_in_some_choice(options: list[set[str]]) -> None:
    found = viable(dict(enumerate(options)))
    every = choices(options)
    if not every:
        assert found is None
    else:
        assert found == {number: {chosen[number] for chosen in every} for number in range(len(options))}


@given(OPTIONS)
def test_pairs_are_a_choice_if_there_is_one(options: list[set[str]]) -> None:
    found = pairs(options)
    assert tuple(found) in choices(options) if found is not None else not choices(options)
