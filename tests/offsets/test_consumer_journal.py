"""The rebalance journal of consumer groups, with events of a real coordinator core."""

from __future__ import annotations

from uuid import UUID

from muster.actors.config import MusterConfig, group_config
from muster.actors.group.consumer.topics import TopicInfo
from muster.actors.group.events import Cause
from muster.actors.group.messages import ConsumerGroupHeartbeat, ConsumerGroupHeartbeatResponse
from muster.actors.group.types import GroupId, MemberId
from muster.actors.offsets.history.group_events import GroupEvents
from muster.actors.offsets.history.journal import Journal
from muster.actors.tables.rebalance_entry import Ending, RebalanceEntry
from tests.group.driver import Driver, leave

T = UUID(int=7)
OWNS_NOTHING: frozenset[tuple[UUID, int]] = frozenset()


class _Group:
    """A coordinator whose events go to a journal."""

    def __init__(self) -> None:
        properties = {"group.consumer.assignment.interval.ms": "0"}
        self.driver = Driver(group_config(MusterConfig.from_properties(properties)))
        self.driver.topics_known({"t": TopicInfo(T, 4)})
        self.journal = Journal(partition=7, epoch=1)
        self._seen = 0
        self.entries: list[RebalanceEntry] = []

    def beat(
        self, member: str, epoch: int, owned: frozenset[tuple[UUID, int]] | None = None
    ) -> ConsumerGroupHeartbeatResponse:
        joins = epoch == 0
        response: ConsumerGroupHeartbeatResponse = self.driver.exchange(
            ConsumerGroupHeartbeat(
                api_version=1,
                group_id=GroupId("g"),
                member_id=MemberId(member),
                member_epoch=epoch,
                rebalance_timeout_ms=1_000 if joins else -1,
                topics=("t",) if joins else None,
                owned=OWNS_NOTHING if joins else owned,
            ),
            client=member,
        )
        self.observe()
        return response

    def observe(self) -> None:
        for event in self.driver.events[self._seen :]:
            if (entry := self.journal.observe(event, self.driver.now_ms)) is not None:
                self.entries.append(entry)
        self._seen = len(self.driver.events)


def test_rebalances_of_members_that_come_and_go() -> None:
    group = _Group()
    group.beat("a", 0)
    assert [(e.cause, e.ending, e.generation, e.members_after) for e in group.entries] == [
        (Cause.MEMBER_JOINED, Ending.STABLE, 2, 1)
    ]
    assert [who.member_id for who in group.entries[0].added] == ["a"]
    group.driver.advance(100)
    group.beat("b", 0)
    running = group.journal.running("g", group.driver.now_ms)
    assert running is not None
    assert (running.ending, running.generation, running.from_state) == (Ending.RUNNING, 3, "Stable")
    group.beat("a", 2)
    group.driver.advance(50)
    group.beat("a", 2, frozenset({(T, 0), (T, 1)}))
    group.driver.advance(20)
    group.beat("b", 3)
    joined = group.entries[1]
    assert (joined.ending, joined.previous_generation, joined.generation, joined.protocol) == (
        Ending.STABLE,
        2,
        3,
        "uniform",
    )
    assert joined.triggered_by is not None
    assert joined.triggered_by.member_id == "b"
    assert (joined.ended_ms - joined.began_ms, joined.members_before, joined.members_after) == (70, 1, 2)
    assert [(wait.who.member_id, wait.after_ms) for wait in joined.sync_waits.members] == [("b", 70), ("a", 50)]
    assert joined.consumption_pauses is not None
    assert (joined.consumption_pauses.count, joined.consumption_pauses.lost_ms) == (2, 140)
    group.beat("b", -1)
    group.driver.advance(10)
    group.beat("a", 3)
    left = group.entries[2]
    assert (left.cause, left.ending, left.triggered_by) == (Cause.MEMBER_LEFT, Ending.STABLE, None)
    assert [gone.who.member_id for gone in left.gone] == ["b"]
    assert left.consumption_pauses is not None
    assert (left.consumption_pauses.count, left.consumption_pauses.lost_ms) == (2, 20)
    group.beat("a", -1)
    assert group.entries[3].ending is Ending.EMPTY
    assert [RebalanceEntry.from_json(entry.to_json()) for entry in group.entries] == group.entries


def test_a_member_that_does_not_give_up_its_partitions() -> None:
    group = _Group()
    group.beat("a", 0)
    group.beat("b", 0)
    group.beat("a", 2)
    (wait,) = group.driver.core.waiting()
    assert (wait.state.value, wait.generation, [who.member_id for who in wait.members]) == (
        "Reconciling",
        3,
        ["a", "b"],
    )
    assert wait.deadline_ms == group.driver.now_ms + 1_000
    group.driver.advance(1_000)
    group.observe()
    assert [entry.ending for entry in group.entries] == [Ending.STABLE, Ending.RESTARTED]
    group.beat("b", 3)
    fenced = group.entries[2]
    assert (fenced.cause, fenced.ending, fenced.members_before) == (Cause.MEMBER_FENCED, Ending.STABLE, 2)
    assert group.driver.core.waiting() == ()


def test_what_runs_when_the_coordinator_ends() -> None:
    group = _Group()
    group.beat("a", 0)
    group.beat("b", 0)
    assert [entry.ending for entry in group.journal.close(group.driver.now_ms)] == [Ending.ABORTED]


def test_a_group_that_was_loaded() -> None:
    group = _Group()
    group.beat("a", 0)
    group.driver.restart()
    group.journal = Journal(partition=7, epoch=2)
    group.observe()
    group.beat("b", 0)
    running = group.journal.running("g", group.driver.now_ms)
    assert running is not None
    assert (running.previous_generation, running.members_before) == (2, 1)


def test_an_empty_group_that_becomes_a_classic_one() -> None:
    group = _Group()
    group.beat("a", 0)
    group.beat("a", -1)
    group.observe()
    group.entries.clear()
    for _ in range(2):
        (member,) = group.driver.stable()
        group.driver.exchange(leave(member))
    group.observe()
    assert [(e.ending, e.members_before, e.members_after, len(e.added), len(e.gone)) for e in group.entries] == [
        (Ending.STABLE, 0, 1, 1, 0),
        (Ending.EMPTY, 1, 0, 0, 1),
    ] * 2
    rows = GroupEvents(partition=7, epoch=1)
    found = [row for event in group.driver.events if (row := rows.observe(event, 0)) and row["event"] == "converted"]
    assert [(row["protocol"], row["members"], row["generation"]) for row in found] == [("classic", 0, 3)]
