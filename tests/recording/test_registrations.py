"""The rows of ``registrations`` alone show the registered members at any time, whatever happened to coordinators."""

from __future__ import annotations

import random
from typing import Any

import pytest

from muster.actors.group.config import GroupConfig
from muster.actors.group.messages import JoinGroupResponse
from muster.actors.offsets.history.registrations import Row, row_of, snapshot_rows
from muster.actors.tables.schemas import TABLES
from muster.actors.tables.schemas.groups import REGISTRATIONS
from muster.placement.mapping.registration import Registration, Trace
from tests.group.driver import Driver, commit, join, leave
from tests.recording.history import held_at, intervals

GROUPS = ("billing", "search")
SIMPLE_TTL_MS = 3_000
Held = dict[tuple[str, str], dict[str, Any]]


class World:
    """One offsets partition under many coordinators; after every step, the state is recorded beside the rows."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.driver = Driver(
            GroupConfig(group_initial_rebalance_delay_ms=0, attribution_simple_ttl_ms=SIMPLE_TTL_MS), auto=False
        )
        self.rows: list[Row] = []
        self.held: dict[int, Held] = {}
        self.late: list[Row] = []
        self.snapshot()

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.driver.advance(self.random.randrange(1, 500))
            self.random.choices(
                [self.join, self.leave, self.use, self.write, self.snapshot, self.fail_over], (9, 4, 4, 12, 2, 2)
            )[0]()
            self.note()

    def join(self) -> None:
        group, instance = self.random.choice(GROUPS), self.random.choice((None, "i1", "i2"))
        response = self.driver.responses.get(self.driver.send(join(instance=instance, group=group), client=instance))
        if isinstance(response, JoinGroupResponse) and response.member_id:
            self.driver.send(join(response.member_id, instance=instance, group=group), client=instance)

    def leave(self) -> None:
        group = self.driver.core.groups.get(self.random.choice(GROUPS))  # type: ignore[call-overload]
        if group is not None and group.members:
            self.driver.send(leave(self.random.choice([*group.members]), group=group.id))

    def use(self) -> None:
        """Commit like a consumer without membership."""
        offsets = {("t", self.random.randrange(3)): 1}
        self.driver.send(commit(offsets, group=self.random.choice(GROUPS)), client=self.random.choice("xyz"))

    def write(self) -> None:
        self.driver.write_all()

    def fail_over(self) -> None:
        """Fail over.

        The log does not have everything; part of the dead one's reports arrives later, with its own clock.
        """
        self.note()
        epoch = self.driver.epoch
        self.driver.restart()
        self.driver.updates.clear()
        self.driver.now_ms += 1
        self.snapshot()
        for row in self.random.sample(self.rows, min(3, len(self.rows))):
            if row["epoch"] == epoch:
                self.rows.append({**row, "ts": self.driver.now_ms + 1, "sequence": row["sequence"] + 1_000})

    def snapshot(self) -> None:
        self.note()
        held = self.driver.core.registrations()
        self.rows += snapshot_rows(
            held, offsets_partition=7, offsets_partitions=50, epoch=self.driver.epoch, ts_ms=self.driver.now_ms
        )

    def note(self) -> None:
        """Note the reports since the last step, and the current state."""
        said = [one for one in self.driver.updates if not isinstance(one, Trace)]
        self.driver.updates.clear()
        self.rows += [row_of(change, self.driver.now_ms) for change in said]
        self.held[self.driver.now_ms] = {
            (one.group, one.member_id): _without_ts(one) for one in self.driver.core.registrations()
        }


def _without_ts(registration: Registration) -> dict[str, Any]:
    row = row_of(registration, 0)
    del row["ts"]
    return row


@pytest.mark.parametrize("seed", range(20))
def test_who_held_at_any_time(seed: int) -> None:
    world = World(seed)
    world.run(150)
    assert world.driver.epoch > 3
    assert sum(len(held) for held in world.held.values()) > 100
    world.random.shuffle(world.rows)
    found = intervals(world.rows)
    for at_ms, held in world.held.items():
        replayed = {who: {**row} for who, row in held_at(world.rows, at_ms).items()}
        for row in replayed.values():
            del row["ts"]
        assert replayed == held, at_ms
        by_interval = [row for since, until, row in found if since <= at_ms and (until is None or at_ms < until)]
        assert {(row["group"], row["member_id"]) for row in by_interval} == held.keys(), at_ms
        assert len(by_interval) == len(held)


def test_every_column_is_one_of_the_table() -> None:
    world = World(1)
    world.run(150)
    schema = TABLES[REGISTRATIONS]
    required = schema.required
    assert {row["event"] for row in world.rows} == {"registered", "withdrawn", "snapshot"}
    for row in world.rows:
        assert required <= row.keys() <= set(schema.names)
