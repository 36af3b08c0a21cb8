"""An offsets partition's counters of its groups, with a coordinator in virtual time."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from muster.actors.group.config import GroupConfig
from muster.actors.group.state import GroupState
from muster.actors.group.types import GroupId
from muster.actors.offsets.metrics import REBALANCE_BUCKETS_MS, GroupCounts, GroupRow, PartitionMetrics, Snapshot
from muster.actors.wire.internal import envelope
from tests.group.driver import Driver, assignment, commit, join, leave

HOUR_MS = 3_600_000


class Counted:
    """A coordinator whose events are counted as they occur."""

    def __init__(self, **properties: Any) -> None:
        self.driver = Driver(GroupConfig(**properties))
        self.counts = GroupCounts()
        self._seen = 0

    def row(self, group: str = "g") -> GroupRow | None:
        self.count()
        known = self.driver.core.groups.get(GroupId(group))
        return None if known is None else self.counts.row(known, 0, None, self.driver.now_ms)

    def count(self) -> None:
        """Take the events since the last call, at the current time."""
        for event in self.driver.events[self._seen :]:
            self.counts.observe(event, self.driver.now_ms)
        self._seen = len(self.driver.events)

    def at(self, ms: int) -> None:
        """Step by step, so that each event is counted at its time."""
        while self.driver.now_ms < 1_000_000 + ms:
            self.driver.advance(1)
            self.count()


def test_a_rebalance_lasts_from_its_first_reason_to_the_assignment() -> None:
    counted = Counted(group_initial_rebalance_delay_ms=400)
    driver = counted.driver
    first = driver.new_member()
    counted.count()
    counted.at(150)
    row = counted.row()
    assert row is not None
    assert (row.rebalancing_ms, row.rebalances_completed) == (150, 0)
    counted.at(400)
    joined = driver.response(first)
    counted.at(900)
    second = driver.new_member()  # the rebalance restarts before its end
    third = driver.send(join(joined.member_id))
    counted.count()
    counted.at(1_000)
    driver.sync_all([driver.response(second), driver.response(third)])
    row = counted.row()
    assert row is not None
    assert (row.rebalancing_ms, row.rebalances_completed, row.rebalances_ms) == (None, 1, 1_000)
    assert row.rebalances_started == {"member joined": 2}
    assert (row.joins, row.syncs) == (3, 2)
    assert counted.counts.rebalance_buckets == [int(bound == 1_000) for bound in (*REBALANCE_BUCKETS_MS, None)]


def test_a_rebalance_that_leaves_the_group_empty_runs_no_more() -> None:
    counted = Counted()
    (member,) = counted.driver.stable()
    counted.driver.exchange(leave(member))
    row = counted.row()
    assert row is not None
    assert (row.state, row.rebalancing_ms, row.rebalances_completed, row.leaves) == ("Empty", None, 1, 1)
    assert row.rebalances_started == {"member joined": 1, "member left": 1}


def test_counts_go_when_the_group_expires() -> None:
    counted = Counted(offsets_retention_minutes=60, offsets_retention_check_interval_ms=HOUR_MS)
    counted.driver.exchange(commit({("t", 0): 1, ("t", 1): 2}))
    counted.driver.advance(HOUR_MS // 2)
    row = counted.row()
    assert row is not None
    assert (row.offset_commits, row.offset_expirations) == (2, 0)
    counted.driver.advance(2 * HOUR_MS)
    assert counted.row() is None
    counted.driver.exchange(commit({("t", 0): 1}))
    row = counted.row()
    assert row is not None
    assert (row.offset_commits, row.offset_expirations) == (1, 0)


def test_counts_of_a_group_that_never_came_to_be_go() -> None:
    driver = Driver(auto=False)
    counts = GroupCounts()
    driver.send(join(version=3))
    for event in driver.events:
        counts.observe(event, driver.now_ms)
    assert counts._groups.keys() == {"g"}
    driver.fail(ErrorCode.not_coordinator)
    counts.keep(driver.core)
    assert not counts._groups


@pytest.mark.parametrize("groups", [0, 1, 249, 250, 251, 600])
def test_a_snapshot_is_made_in_turns_and_read_back_whole(groups: int) -> None:
    driver = Driver()
    names = [f"gü\n{number}" for number in range(groups)]
    for name in names:
        driver.exchange(commit({("t", 0): 1, ("t", 1): 1}, group=name))
    metrics = PartitionMetrics(7, 3, driver.core)
    turns = itertools.count()

    async def main() -> Snapshot:
        async def others() -> None:
            while True:
                next(turns)
                await asyncio.sleep(0)

        other = asyncio.create_task(others())
        response = envelope.read_response(envelope.write_response(await metrics.response({"ask": "metrics"})))
        other.cancel()
        return Snapshot.from_response(response)

    snapshot = asyncio.run(main())
    assert (snapshot.partition, snapshot.epoch) == (7, 3)
    rows = list(snapshot.rows())
    assert [row.group for row in rows] == names
    assert {(row.state, row.offsets) for row in rows} <= {("Empty", 2)}
    assert next(turns) >= groups // 250


def test_a_group_that_is_not_in_the_log_yet_is_not_reported() -> None:
    driver = Driver(auto=False)
    driver.send(join(version=3))
    metrics = PartitionMetrics(7, 3, driver.core)
    assert not list(Snapshot.from_response(asyncio.run(metrics.response({}))).rows())
    driver.write_all()
    (row,) = Snapshot.from_response(asyncio.run(metrics.response({}))).rows()
    assert (row.group, row.members) == ("g", 1)


def test_a_group_that_goes_while_the_snapshot_is_made_is_left_out() -> None:
    driver = Driver()
    for number in range(300):
        driver.exchange(commit({("t", 0): 1}, group=f"g{number}"))
    metrics = PartitionMetrics(7, 3, driver.core)

    async def main() -> Snapshot:
        response = asyncio.create_task(metrics.response({}))
        await asyncio.sleep(0)
        del driver.core.groups[GroupId("g299")]
        return Snapshot.from_response(await response)

    assert len(list(asyncio.run(main()).rows())) == 299


def test_assigned_partitions_are_those_of_all_members() -> None:
    driver = Driver()
    tokens = [driver.new_member() for _ in range(2)]
    joins = driver.responses_to(tokens)
    driver.sync_all(
        joins, lambda member: assignment(("t", 0), ("t", 1), ("t", 2)) if member == joins[0].leader else b""
    )
    assert driver.group().state is GroupState.STABLE
    metrics = PartitionMetrics(7, 3, driver.core)
    (row,) = Snapshot.from_response(asyncio.run(metrics.response({}))).rows()
    assert (row.members, row.assigned_partitions, row.generation) == (2, 3, 1)
