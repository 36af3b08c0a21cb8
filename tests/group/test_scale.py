"""The core's work grows with the number of members involved, never with its square: counted, not timed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar
from uuid import UUID

from muster.actors.group.config import GroupConfig
from muster.actors.group.consumer.assignors import Assignee, assign
from muster.actors.group.state import GroupState
from muster.actors.group.types import MemberId, Token
from tests.group.driver import Driver, G, beat, commit, join, sync

T = TypeVar("T")

FEW, MANY = 50, 400
SLACK = 1.05
"""Maximum growth of the work per member from FEW to MANY (heaps and sorting grow with the logarithm)."""


class Operations:
    """Counts bytecode operations of the core and of the Python code that it calls, while :func:`traced` is active."""

    _counting: Operations | None = None

    def __init__(self) -> None:
        self.count = 0

    @classmethod
    def trace(cls, frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        if cls._counting is not None:
            cls._counting.count += event == "opcode"
        return cls.trace

    @contextmanager
    def counted(self) -> Iterator[None]:
        Operations._counting = self
        try:
            yield
        finally:
            Operations._counting = None


@contextmanager
def traced() -> Iterator[None]:
    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # Python 3.12.1 reads this when tracing starts
    sys.settrace(Operations.trace)
    try:
        yield
    finally:
        sys.settrace(before)


def _both(measure: Callable[[int], T], few: int, many: int) -> tuple[T, T]:
    """After a first run that does not count: from Python 3.12 on, newly traced code has fewer events."""
    with traced():
        measure(few)
        return measure(few), measure(many)


def _join_all(driver: Driver, members: list[str], operations: Operations) -> dict[str, Token]:
    """All members join, in their order."""
    with operations.counted():
        return {member: driver.send(join(member)) for member in members}


def _new_members(driver: Driver, count: int) -> list[str]:
    return [driver.exchange(join()).member_id for _ in range(count)]


def _rebalance(driver: Driver, members: list[str], operations: Operations) -> int:
    """Let all of them join and sync; returns the generation."""
    joins = _join_all(driver, members, operations)
    responses = dict(zip(joins, driver.responses_to([*joins.values()]), strict=True))
    leader = next(iter(responses.values())).leader
    generation: int = responses[leader].generation_id
    assert len(responses[leader].members) == len(members)
    given = {member: b"assignment of " + member.encode() for member in members}
    with operations.counted():
        syncs = {member: driver.send(sync(member, generation)) for member in members if member != leader}
        driver.send(sync(leader, generation, given))
    assert {member: driver.response(token).assignment for member, token in syncs.items()} == {
        member: given[member] for member in syncs
    }
    assert driver.core.groups[G].state is GroupState.STABLE
    return generation


def _costs(members: int) -> dict[str, float]:
    """Operations per member: of the first generation, and of a rebalance after one more member joins."""
    driver = Driver(GroupConfig(group_initial_rebalance_delay_ms=3000))
    first, second, beats = Operations(), Operations(), Operations()
    ids = _new_members(driver, members)
    _rebalance(driver, ids, first)
    newcomer = _new_members(driver, 1)
    generation = _rebalance(driver, [*newcomer, *ids], second)
    with beats.counted():
        for member in ids:
            driver.send(beat(member, generation))
    return {
        "first generation": first.count / members,
        "rebalance": second.count / members,
        "heartbeat": beats.count / members,
    }


def test_a_rebalance_costs_the_same_per_member_however_many_there_are() -> None:
    few, many = _both(_costs, FEW, MANY)
    assert all(few.values()), few
    grown = {what: many[what] / few[what] for what in few}
    assert all(growth < SLACK for growth in grown.values()), grown


def _beat_among(groups: int) -> float:
    """Operations per heartbeat with that many groups of one member."""
    driver = Driver(GroupConfig(group_initial_rebalance_delay_ms=0))
    names = [f"g{number}" for number in range(groups)]
    members = {}
    for name in names:
        member = driver.exchange(join(group=name)).member_id
        token = driver.send(join(member, group=name))
        generation = driver.responses_to([token])[0].generation_id
        driver.exchange(sync(member, generation, {member: b"all"}, group=name))
        members[name] = member
    operations = Operations()
    with operations.counted():
        for name in names:
            driver.send(beat(members[name], 1, group=name))
            driver.core.next_deadline_ms()
    return operations.count / groups


def test_a_heartbeat_costs_the_same_however_many_groups_there_are() -> None:
    few, many = _both(_beat_among, 10, 500)
    assert many < few * SLACK, (few, many)


def test_writes_that_wait_together_are_settled_one_by_one_without_looking_at_all() -> None:
    def settling(writes: int) -> float:
        driver = Driver(auto=False)
        for number in range(writes):
            driver.send(commit({("t", 0): 1}, group=f"g{number}"))
        operations = Operations()
        with operations.counted():
            driver.write_all()
        return operations.count / writes

    few, many = _both(settling, FEW, MANY)
    assert many < few * SLACK, (few, many)


def test_partitions_that_move_between_members_with_different_topics_cost_the_same_however_many_there_are() -> None:
    def moving(members: int) -> float:
        partitions = {UUID(int=number): 5 * members for number in range(1, 5)}
        everything = frozenset((topic, index) for topic, count in partitions.items() for index in range(count))
        first, *others = partitions
        owner = Assignee(member_id=MemberId("owner"), topics=frozenset(partitions), target=everything)
        new = [Assignee(member_id=MemberId(f"m{number}"), topics=frozenset(others)) for number in range(members)]
        operations = Operations()
        with operations.counted():
            given = assign("uniform", [owner, *new], partitions)
        assert {topic for topic, _ in given[owner.member_id]} == {first}
        return operations.count / members

    few, many = _both(moving, FEW, MANY)
    assert many < few * SLACK, (few, many)
