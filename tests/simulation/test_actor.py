"""The simulated shell does nothing that the real one cannot do."""

from __future__ import annotations

import random

from muster.actors.group.codec.adapters import OFFSET_COMMIT
from muster.actors.group.config import GroupConfig
from muster.actors.wire.kafka import codec
from tests.simulation.actor import Actor, Step, StepKind
from tests.simulation.base_world import START_MS
from tests.simulation.client import commit_body
from tests.simulation.schedule import Schedule


def test_a_write_before_one_that_is_durable_does_not_fail() -> None:
    """The failure was deferred by a pause up to the end of the other: found by make simulate in 146,982 events."""
    schedule, steps = Schedule(START_MS), list[Step]()
    actor = Actor(schedule, random.Random(1), GroupConfig(), steps.append, lambda *_: None)
    actor.start()
    while not actor.serves:
        schedule.step()

    def commit(offset: int) -> None:
        frame = codec.encode_request(OFFSET_COMMIT, 2, 0, "c", commit_body("g", {("t", 0): offset}))
        actor.deliver("c", True, "h", "", frame, lambda _: None)

    actor.faults.stuck_write = 1.0
    commit(1)
    first_ends_ms = actor._last_write_ends_ms
    while schedule.now_ms < first_ends_ms - 10:
        schedule.at(first_ends_ms - 10, lambda: None)
        schedule.step()
    actor.faults.stuck_write, actor.faults.slow_write = 0.0, 1.0
    commit(2)
    second_ends_ms = actor._last_write_ends_ms
    assert second_ends_ms > first_ends_ms
    actor.stall(second_ends_ms - schedule.now_ms)
    while schedule.now_ms <= second_ends_ms and schedule.step():
        pass
    assert [(step.kind, step.write) for step in steps if step.write is not None] == [(StepKind.WRITTEN, 2)]
    assert len(actor.log.entries) == 2
    assert not actor.waiting
