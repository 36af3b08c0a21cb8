"""Rendezvous hashing: stable, even, and without unnecessary moves."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.placement.rendezvous import choose, rank

PINNED = ["2", "1", "0", "0", "2", "1", "1", "1"]

node_sets = st.sets(st.text(min_size=1, max_size=8), min_size=1, max_size=8).map(sorted)


@given(st.text(), node_sets, st.randoms())
def test_the_order_of_the_nodes_does_not_matter(key: str, nodes: list[str], random: object) -> None:
    shuffled = list(nodes)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert rank(key, shuffled) == rank(key, nodes)
    assert rank(key, nodes)[0] == choose(key, shuffled)
    assert sorted(rank(key, nodes)) == nodes


@given(st.text(), node_sets, st.text(min_size=1, max_size=8))
def test_a_node_that_comes_or_goes_moves_only_its_own_keys(key: str, nodes: list[str], extra: str) -> None:
    without = [node for node in nodes if node != extra]
    if without:
        before, after = choose(key, without), choose(key, [*without, extra])
        assert after in (before, extra)


def test_the_load_is_even() -> None:
    nodes = [f"node-{number}" for number in range(5)]
    load = Counter(choose(f"t-{number}", nodes) for number in range(5000))
    assert set(load) == set(nodes)
    assert max(load.values()) < 1.2 * min(load.values())


def test_places_do_not_change_between_versions() -> None:
    """The hash determines where data is: a change of the hash would orphan it."""
    assert [choose(str(key), ["0", "1", "2"]) for key in range(8)] == PINNED


def test_without_nodes_there_is_no_choice() -> None:
    with pytest.raises(ValueError, match="empty"):
        choose("k", [])
