"""Assignors of consumer groups, for any members, subscriptions and earlier assignments."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.actors.group.consumer.assignors import ASSIGNORS, Assignee, assign, preferred
from muster.actors.group.types import MemberId

TOPICS = [UUID(int=number) for number in range(1, 5)]
Partitions = dict[UUID, int]


@st.composite
def groups(draw: st.DrawFn, *, alike: bool = False) -> tuple[list[Assignee], Partitions]:
    """Members with valid earlier targets: no partition twice, possibly of topics that they do not subscribe to now."""
    partitions = {topic: draw(st.integers(1, 7)) for topic in TOPICS}
    count = draw(st.integers(1, 6))
    same = draw(st.frozensets(st.sampled_from(TOPICS)))
    subscribed = [same if alike else draw(st.frozensets(st.sampled_from(TOPICS))) for _ in range(count)]
    every = [(topic, index) for topic in TOPICS for index in range(partitions[topic] + 1)]
    owners = draw(st.lists(st.integers(-1, count - 1), min_size=len(every), max_size=len(every)))
    members = [
        Assignee(
            member_id=MemberId(f"m{position}"),
            instance_id=draw(st.sampled_from([None, f"i{position}"])),
            topics=topics,
            target=frozenset(one for one, owner in zip(every, owners, strict=True) if owner == position),
        )
        for position, topics in enumerate(subscribed)
    ]
    return members, partitions


@pytest.mark.parametrize("name", ASSIGNORS)
@given(group=groups())
def test_every_partition_has_one_subscriber(name: str, group: tuple[list[Assignee], Partitions]) -> None:
    members, partitions = group
    given_out = assign(name, members, partitions)
    assert given_out.keys() == {member.member_id for member in members}
    for member in members:
        assert {topic for topic, _ in given_out[member.member_id]} <= member.topics
    wanted = {topic for member in members for topic in member.topics}
    held = Counter(one for mine in given_out.values() for one in mine)
    assert held == Counter((topic, index) for topic in wanted for index in range(partitions[topic]))


@pytest.mark.parametrize("name", ASSIGNORS)
@given(group=groups())
def test_the_order_of_members_does_not_matter(name: str, group: tuple[list[Assignee], Partitions]) -> None:
    members, partitions = group
    assert assign(name, members, partitions) == assign(name, members[::-1], partitions)


@given(group=groups(alike=True))
def test_uniform_is_even_and_moves_no_more_than_it_must(group: tuple[list[Assignee], Partitions]) -> None:
    members, partitions = group
    given_out = assign("uniform", members, partitions)
    loads = [len(mine) for mine in given_out.values()]
    assert max(loads) - min(loads) <= 1
    quota, extras = divmod(sum(loads), len(loads))
    kept = sum(len(given_out[member.member_id] & member.target) for member in members)
    keepable = [
        sum(topic in member.topics and index < partitions[topic] for topic, index in member.target)
        for member in members
    ]
    most = sorted(keepable, reverse=True)
    possible = sum(min(count, quota + (position < extras)) for position, count in enumerate(most))
    assert kept == possible


@given(group=groups())
def test_uniform_is_as_even_as_one_more_move_could_make_it(group: tuple[list[Assignee], Partitions]) -> None:
    members, partitions = group
    given_out = assign("uniform", members, partitions)
    loads = {member_id: len(mine) for member_id, mine in given_out.items()}
    for member in members:
        for other in members:
            shared = {topic for topic, _ in given_out[member.member_id]} & other.topics
            assert not shared or loads[member.member_id] - loads[other.member_id] <= 1


@pytest.mark.parametrize("name", ASSIGNORS)
@given(group=groups())
def test_an_assignment_that_is_in_force_does_not_change(name: str, group: tuple[list[Assignee], Partitions]) -> None:
    members, partitions = group
    first = assign(name, members, partitions)
    settled = [replace(member, target=first[member.member_id]) for member in members]
    assert assign(name, settled, partitions) == first


def test_range_gives_contiguous_partitions_to_static_members_first() -> None:
    a, b = (Assignee(member_id=MemberId(name), topics=frozenset(TOPICS[:2])) for name in "ab")
    static = replace(b, member_id=MemberId("z"), instance_id="i")
    partitions = {TOPICS[0]: 3, TOPICS[1]: 2}
    assert assign("range", [a, b], partitions) == {
        "a": {(TOPICS[0], 0), (TOPICS[0], 1), (TOPICS[1], 0)},
        "b": {(TOPICS[0], 2), (TOPICS[1], 1)},
    }
    assert assign("range", [a, b, static], partitions) == {
        "z": {(TOPICS[0], 0), (TOPICS[1], 0)},
        "a": {(TOPICS[0], 1), (TOPICS[1], 1)},
        "b": {(TOPICS[0], 2)},
    }


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        ([], "uniform"),
        ([None, None], "uniform"),
        ([None, "range"], "range"),
        (["uniform", "range"], "uniform"),
        (["uniform", "range", "range"], "range"),
        (["gone", "gone", "range"], "range"),
    ],
)
def test_the_assignor_that_most_members_want(wanted: list[str | None], chosen: str) -> None:
    assert preferred(wanted, ("uniform", "range")) == chosen
