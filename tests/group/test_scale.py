"""The core's work grows with the number of members involved, never with its square: counted, not timed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar
from uuid import UUID

from muster.actors.config import MusterConfig, group_config
from muster.actors.group.config import GroupConfig
from muster.actors.group.consumer.assignors import Assignee, assign
from muster.actors.group.consumer.state import ConsumerGroupState
from muster.actors.group.consumer.topics import TopicInfo
from muster.actors.group.messages import ConsumerGroupHeartbeat, ConsumerGroupHeartbeatResponse
from muster.actors.group.state import GroupState
from muster.actors.group.types import MemberId, Token
from muster.actors.offsets.history.journal import Journal
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


class _Consumers:
    """Members of one consumer group, as many as its topic has partitions; the journal observes them."""

    def __init__(self, members: int) -> None:
        self.driver = Driver(group_config(MusterConfig.from_properties({})))
        self.driver.topics_known({"t": TopicInfo(UUID(int=1), members)})
        self.ids = [MemberId(f"m{number:04}") for number in range(members)]
        self._known: dict[MemberId, ConsumerGroupHeartbeatResponse] = {}
        self._owned: dict[MemberId, frozenset[tuple[UUID, int]]] = dict.fromkeys(self.ids, frozenset())
        self._journal = Journal(partition=7, epoch=1)

    def beat(self, member_id: MemberId, epoch: int | None = None) -> None:
        response: ConsumerGroupHeartbeatResponse = self.driver.exchange(
            ConsumerGroupHeartbeat(
                api_version=1,
                group_id=G,
                member_id=member_id,
                member_epoch=self._known[member_id].member_epoch if epoch is None else epoch,
                rebalance_timeout_ms=60_000 if epoch == 0 else -1,
                topics=("t",) if epoch == 0 else None,
                regex="u.*" if epoch == 0 else None,
                owned=self._owned[member_id],
            )
        )
        self._known[member_id] = response
        if response.assignment is not None:
            topics = response.assignment.topic_partitions
            self._owned[member_id] = frozenset((each.topic_id, index) for each in topics for index in each.partitions)

    def observe(self) -> None:
        for event in self.driver.events:
            self._journal.observe(event, self.driver.now_ms)
        self.driver.events.clear()

    def measure(self, operations: Operations, *, epoch: int | None = None, rounds: int = 1) -> None:
        """Heartbeats of all members, every five seconds."""
        for _ in range(rounds):
            with operations.counted():
                for member_id in self.ids:
                    self.beat(member_id, epoch)
                    self.observe()
            self.driver.advance(5_000)

    @property
    def state(self) -> ConsumerGroupState:
        return self.driver.core.consumer_groups[G].state()


def _consumer_costs(members: int) -> dict[str, float]:
    """Operations per member of a consumer group: to come, to get its partitions, to heartbeat, and to go."""
    consumers = _Consumers(members)
    joins, moves, beats, leaves, ends = (Operations() for _ in range(5))
    consumers.measure(joins, epoch=0)
    consumers.measure(moves, rounds=3)
    assert consumers.state is ConsumerGroupState.STABLE
    consumers.measure(beats)
    with leaves.counted():
        for member_id in consumers.ids[: members // 2]:
            consumers.beat(member_id, -1)
    consumers.observe()
    consumers.driver.restart()
    with ends.counted():
        consumers.driver.advance(45_000)
        consumers.observe()
    assert consumers.state is ConsumerGroupState.EMPTY
    return {
        "join": joins.count / members,
        "partitions": moves.count / members,
        "heartbeat": beats.count / members,
        "leave": leaves.count / members,
        "session": ends.count / members,
    }


def test_a_member_of_a_consumer_group_costs_the_same_however_many_there_are() -> None:
    few, many = _both(_consumer_costs, 16, 64)
    assert all(few.values()), few
    grown = {what: many[what] / few[what] for what in few}
    assert all(growth < SLACK for growth in grown.values()), grown
