"""Moves between nodes: to a new node or off a drained one, as few as possible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from hypothesis import given
from hypothesis import strategies as st

from muster.placement.moves import Roster, home, moves
from muster.placement.rendezvous import choose

NEW = "new"
nodes_before = st.sets(st.sampled_from("abcdefg"), min_size=1).map(sorted)
counts = st.integers(0, 40)


def ideal(actors: int, nodes: Collection[str]) -> dict[str, str]:
    return {f"offsets-{number}": choose(f"offsets-{number}", list(nodes)) for number in range(actors)}


def carried_out(homes: dict[str, str], *args: Collection[str]) -> tuple[dict[str, str], int]:
    """One move at a time, each decided anew like the controller does; returns the result and the number of moves."""
    homes = dict(homes)
    count = 0
    while move := next(moves(homes, *args), None):
        assert homes[move.actor] == move.source
        homes[move.actor] = move.target
        count += 1
        assert count <= len(homes), "an actor moves twice"
    return homes, count


@given(counts, nodes_before)
def test_a_node_that_comes_gets_what_it_wins_and_nothing_else_moves(actors: int, before: list[str]) -> None:
    homes = ideal(actors, before)
    after, count = carried_out(homes, [*before, NEW], {NEW}, ())
    assert after == ideal(actors, [*before, NEW])
    assert count == sum(home == NEW for home in after.values())


@given(st.lists(st.sampled_from("abcdefg"), max_size=40), nodes_before)
def test_wherever_ray_put_them_nothing_moves_between_old_nodes(placed: list[str], before: list[str]) -> None:
    homes = {f"offsets-{number}": home for number, home in enumerate(placed)}
    after, count = carried_out(homes, [*before, NEW], {NEW}, ())
    changed = {actor for actor in homes if homes[actor] != after[actor]}
    assert all(after[actor] == NEW for actor in changed)
    assert count == len(changed) <= sum(home == NEW for home in ideal(len(homes), [*before, NEW]).values())


def test_a_share_is_about_one_in_k() -> None:
    for k in (2, 3, 5, 8):
        before = [f"node-{number}" for number in range(k - 1)]
        count = len(list(moves(ideal(5000, before), [*before, NEW], {NEW}, ())))
        assert 0.85 * 5000 / k < count < 1.15 * 5000 / k


@given(counts, nodes_before)
def test_a_drained_node_is_left_and_what_is_elsewhere_stays(actors: int, before: list[str]) -> None:
    homes = ideal(actors, [*before, NEW])
    after, count = carried_out(homes, [*before, NEW], (), {NEW})
    assert after == ideal(actors, before)
    assert count == sum(home == NEW for home in homes.values())


@given(counts)
def test_there_is_no_move_without_a_place_to_go_to(actors: int) -> None:
    assert list(moves(ideal(actors, ["a"]), ["a"], (), {"a"})) == []


def test_a_newcomer_that_is_drained_gets_nothing() -> None:
    assert list(moves(ideal(50, ["a"]), ["a", NEW], {NEW}, {NEW})) == []


def made(actors: int, nodes: Collection[str], homes: dict[str, str] | None = None) -> dict[str, str]:
    """Log actors, created one after the other, in addition to the existing ones."""
    homes = dict(homes or {})
    for number in range(actors):
        homes.setdefault(f"log-{number}", home(f"log-{number}", nodes, homes))
    return homes


def spread(homes: dict[str, str], nodes: Collection[str]) -> int:
    load = Counter(homes.values())
    return max(load[node] for node in nodes) - min(load[node] for node in nodes)


@given(counts, nodes_before)
def test_log_actors_are_dealt_out_over_the_nodes(actors: int, nodes: list[str]) -> None:
    assert spread(made(actors, nodes), nodes) <= 1


@given(counts, nodes_before.filter(lambda nodes: len(nodes) > 1))
def test_log_actors_of_a_node_that_is_lost_are_dealt_out(actors: int, before: list[str]) -> None:
    homes, nodes = made(actors, before), before[1:]
    stayed = {actor: place for actor, place in homes.items() if place in nodes}
    after = made(actors, nodes, stayed)
    assert spread(after, nodes) <= 1
    assert after.items() >= stayed.items()


@given(counts.filter(bool), nodes_before)
def test_a_log_actor_that_is_made_anew_keeps_them_dealt_out(actors: int, nodes: list[str]) -> None:
    """The node that it leaves does not count as one that has it."""
    homes = made(actors, nodes)
    for actor in homes:
        assert spread({**homes, actor: home(actor, nodes, homes)}, nodes) <= 1


@given(counts, nodes_before)
def test_a_node_that_comes_gets_its_share_of_log_actors_from_those_with_most(actors: int, before: list[str]) -> None:
    homes, nodes = made(actors, before), [*before, NEW]
    after, count = carried_out(homes, nodes, {NEW}, ())
    assert spread(after, nodes) <= 1
    assert count == sum(place == NEW for place in after.values()) == actors // len(nodes)


@given(counts, nodes_before)
def test_log_actors_of_a_node_that_is_drained_are_dealt_out(actors: int, before: list[str]) -> None:
    homes = made(actors, [*before, NEW])
    after, count = carried_out(homes, [*before, NEW], (), {NEW})
    assert spread(after, before) <= 1
    assert count == sum(place == NEW for place in homes.values())


def roster(*nodes: str) -> Roster:
    made = Roster(settle_ms=1000)
    made.begin(nodes, now_ms=0)
    made.have_their_share(nodes)
    return made


def test_a_node_counts_once_it_has_settled() -> None:
    seen = roster("a", "b")
    assert seen.settled(0) == {"a", "b"}
    seen.see(["a", "b", "c"], 100)
    assert seen.nodes == {"a", "b", "c"}
    assert (seen.settled(1099), seen.incomplete(1099)) == ({"a", "b"}, set())
    assert (seen.settled(1100), seen.incomplete(1100)) == ({"a", "b", "c"}, {"c"})
    seen.have_their_share(["c"])
    assert seen.incomplete(1100) == set()


def test_a_node_that_flaps_never_gets_a_share() -> None:
    seen = roster("a")
    for second in range(100):
        seen.see(["a", "b"] if second % 2 else ["a"], second * 900)
        assert seen.incomplete(second * 900) == set()


def test_a_node_that_was_lost_and_comes_back_is_new() -> None:
    seen = roster("a", "b")
    seen.see(["a"], 100)
    assert seen.settled(100) == {"a"}
    seen.see(["a", "b"], 200)
    assert seen.incomplete(1200) == {"b"}


def test_any_node_may_lack_its_share_when_the_watching_begins() -> None:
    seen = Roster(settle_ms=1000)
    seen.begin(["a", "b"], now_ms=0)
    assert seen.incomplete(0) == {"a", "b"}
    seen.have_their_share(["a", "gone"])
    assert seen.incomplete(0) == {"b"}


@given(counts, nodes_before, st.integers(0, 20), st.booleans())
def test_a_controller_that_starts_ends_what_another_has_begun(
    actors: int, before: list[str], carried: int, dealt: bool
) -> None:
    """Its predecessor died after some moves to a new node. Which node that was is not known any more."""
    nodes = [*before, NEW]
    homes = made(actors, before) if dealt else ideal(actors, before)
    for _ in range(carried):
        if move := next(moves(homes, nodes, {NEW}, ()), None):
            homes[move.actor] = move.target
    after, _ = carried_out(homes, nodes, nodes, ())
    assert spread(after, nodes) <= 1 if dealt else after == ideal(actors, nodes)


@given(counts, nodes_before)
def test_a_controller_that_starts_moves_nothing_that_is_in_its_place(actors: int, nodes: list[str]) -> None:
    homes = ideal(actors, nodes) | made(actors, nodes)
    assert list(moves(homes, nodes, nodes, ())) == []
