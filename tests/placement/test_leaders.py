"""Assignment of leaders: evenly, near the logs, and with as little change as possible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from muster.placement import leaders as dealing
from muster.placement.leaders import Leaders, Partitions, deal

NODES = "abcd"

nodes = st.sampled_from(NODES)
gateways_ = st.dictionaries(st.integers(1, 9), nodes, min_size=1, max_size=6)
owners = st.lists(st.one_of(st.none(), nodes), min_size=1, max_size=14)
topics_ = st.dictionaries(st.integers(0, 2**128 - 1), owners, max_size=12).map(
    lambda found: {UUID(int=number): places for number, places in found.items()}
)

same_place = st.sampled_from(["a", "elsewhere", None])
"""The location of all logs, for gateways that are all on one host."""

Topics = Mapping[UUID, Sequence[str | None]]


def dealt(gateways: Mapping[int, str], topics: Topics, before: Leaders | None = None) -> Leaders:
    cards = [Partitions(topic_id=topic_id, owners=tuple(places)) for topic_id, places in topics.items()]
    return deal(gateways, cards, before or {})


def spread(leaders: Sequence[int], gateways: Mapping[int, str]) -> int:
    counts = Counter(leaders)
    assert counts.keys() <= gateways.keys()
    found = [counts[gateway] for gateway in gateways]
    return max(found) - min(found)


def check_even(leaders: Leaders, gateways: Mapping[int, str], topics: Topics) -> None:
    assert {topic_id: len(led) for topic_id, led in leaders.items()} == {t: len(p) for t, p in topics.items()}
    assert all(spread(led, gateways) <= 1 for led in leaders.values())
    assert spread([gateway for led in leaders.values() for gateway in led], gateways) <= 1


def changed(before: Leaders, after: Leaders) -> int:
    """Return the number of partitions in both that have different leaders."""
    return sum(
        old != new
        for topic_id in before.keys() & after.keys()
        for old, new in zip(before[topic_id], after[topic_id], strict=False)
    )


def near(leaders: Leaders, gateways: Mapping[int, str], topics: Topics) -> int:
    """Return the number of partitions that are led on the node of their log."""
    return sum(
        gateways[leader] == place
        for topic_id, places in topics.items()
        for leader, place in zip(leaders[topic_id], places, strict=True)
    )


@given(gateways_, gateways_, topics_, topics_)
def test_it_is_even_whatever_was_before(
    gateways: dict[int, str], others: dict[int, str], topics: Topics, more: Topics
) -> None:
    before = dealt(others, dict(topics) | dict(more))
    check_even(before, others, dict(topics) | dict(more))
    check_even(dealt(gateways, topics, before), gateways, topics)


@given(gateways_, gateways_, topics_)
def test_dealt_again_nothing_changes(gateways: dict[int, str], others: dict[int, str], topics: Topics) -> None:
    leaders = dealt(gateways, topics, dealt(others, topics))
    assert dealt(gateways, dict(reversed([*topics.items()])), leaders) == leaders


@given(gateways_, topics_, topics_)
def test_a_topic_that_comes_changes_no_other(gateways: dict[int, str], topics: Topics, more: Topics) -> None:
    before = dealt(gateways, topics)
    assert changed(before, dealt(gateways, dict(more) | dict(topics), before)) == 0


@given(st.integers(1, 6), topics_.filter(bool), same_place)
def test_a_topic_that_goes_changes_no_more_leaders_than_it_had_too_many(
    count: int, topics: Topics, place: str | None
) -> None:
    """On one host."""
    gateways = dict.fromkeys(range(count), "a")
    left: dict[UUID, Sequence[str | None]] = {topic_id: [place] * len(places) for topic_id, places in topics.items()}
    before = dealt(gateways, left)
    gone = left.pop(min(left))
    assert changed(before, dealt(gateways, left, before)) <= len(gone) % count


@given(st.integers(1, 6), topics_, same_place)
def test_with_a_gateway_less_only_its_partitions_have_another(count: int, topics: Topics, place: str | None) -> None:
    """On one host, except for one of a topic that balances the total."""
    here: Topics = {topic_id: [place] * len(places) for topic_id, places in topics.items()}
    before = dealt(dict.fromkeys(range(1, count + 2), "a"), here)
    gateways = dict.fromkeys(range(1, count + 1), "a")
    after = dealt(gateways, here, before)
    lost = sum(led.count(count + 1) for led in before.values())
    assert lost <= changed(before, after) <= lost + len(topics)


@given(st.integers(1, 6), topics_, same_place)
def test_a_gateway_that_comes_gets_its_share_and_nothing_else_changes(
    count: int, topics: Topics, place: str | None
) -> None:
    here: Topics = {topic_id: [place] * len(places) for topic_id, places in topics.items()}
    before = dealt(dict.fromkeys(range(1, count + 1), "a"), here)
    after = dealt(dict.fromkeys(range(1, count + 2), "a"), here, before)
    got = sum(led.count(count + 1) for led in after.values())
    assert got <= changed(before, after) <= got + len(topics)


@given(topics_)
def test_where_logs_are_dealt_out_every_leader_is_near(topics: Topics) -> None:
    """One gateway on each node, and the logs of each topic on the nodes in turn."""
    gateways = dict(enumerate("abc", 1))
    even: Topics = {topic_id: ["abc"[p % 3] for p in range(3 * len(places))] for topic_id, places in topics.items()}
    assert near(dealt(gateways, even), gateways, even) == sum(map(len, even.values()))


@given(st.integers(1, 14), st.integers(0, 2))
def test_of_one_topic_every_leader_is_near(partitions: int, first: int) -> None:
    """The gateway with an extra partition is on the node with an extra log."""
    gateways = dict(enumerate("abc", 1))
    alone: Topics = {UUID(int=1): ["abc"[(first + partition) % 3] for partition in range(partitions)]}
    assert near(dealt(gateways, alone), gateways, alone) == partitions


@given(gateways_, topics_)
def test_leaders_follow_a_log_that_moves(gateways: dict[int, str], topics: Topics) -> None:
    """Equally many follow it as in a first assignment, with the same number for each gateway."""
    before = dealt(gateways, topics)
    elsewhere: Topics = {topic_id: list(reversed(places)) for topic_id, places in topics.items()}
    after = dealt(gateways, elsewhere, before)
    for topic_id, places in elsewhere.items():
        led = Counter(gateways[leader] for leader in after[topic_id])
        best = sum(min(count, led[node]) for node, count in Counter(p for p in places if p).items())
        assert near({topic_id: after[topic_id]}, gateways, {topic_id: places}) == best


def test_hundreds_of_small_topics_are_even_at_once() -> None:
    gateways = dict.fromkeys((1, 2, 3), "a")
    topics: Topics = {UUID(int=number * 2**97 + 1): ["a"] * 4 for number in range(309)}
    leaders = dealt(gateways, topics)
    check_even(leaders, gateways, topics)
    assert Counter(gateway for led in leaders.values() for gateway in led) == {1: 412, 2: 412, 3: 412}


def test_what_does_not_change_is_not_dealt_again() -> None:
    """The controller assigns leaders with every view, on its event loop."""
    gateways = dict(zip((1, 2, 3), "abc", strict=True))
    topics: Topics = {UUID(int=number): [*"abc" * 3, "a"] for number in range(1000)}
    leaders = dealt(gateways, topics, dealt(gateways, topics))
    dealt(gateways, topics, leaders)
    before = dealing._hand.cache_info().misses
    assert dealt(gateways, topics, leaders) == leaders
    grown = dealt(gateways, {**topics, UUID(int=5_000): ["c", "b"]}, leaders)
    assert grown == {**leaders, UUID(int=5_000): grown[UUID(int=5_000)]}
    assert dealing._hand.cache_info().misses == before + 1


def test_without_gateways_nobody_leads() -> None:
    topics: Topics = {UUID(int=1): ["a", None]}
    assert dealt({}, topics, {UUID(int=1): (1, 2)}) == {UUID(int=1): ()}
    check_even(dealt({1: "a"}, topics, {UUID(int=1): ()}), {1: "a"}, topics)
