"""The journal of a coordinator in any history from a seed: it agrees with the groups, and counts no time twice."""

from __future__ import annotations

import json
from typing import Any

import pytest

from muster.actors.group.state import Group
from muster.actors.group.types import Phase
from muster.actors.group.watchdog import in_rebalance
from muster.actors.offsets.history.journal import Journal
from muster.actors.tables.rebalance_entry import Ending, RebalanceEntry
from tests.seeds import seeds
from tests.simulation.actor import Step, StepKind
from tests.simulation.world import World

STEPS = 600


class JournaledWorld(World):
    """A world in which a journal observes each coordinator and is checked after every step."""

    def __init__(self, seed: int) -> None:
        self.epoch = 0
        self.journal = Journal(partition=0, epoch=0)
        self.entries: list[RebalanceEntry] = []
        self.last: dict[str, RebalanceEntry] = {}
        super().__init__(seed)

    def _observe(self, step: Step) -> None:
        if step.kind is StepKind.LOADED:
            self.epoch += 1
            self.journal = Journal(partition=0, epoch=self.epoch)
            self.last.clear()
        for event in step.outcome.events:
            if entry := self.journal.observe(event, step.now_ms):
                self._check(entry)
                self.entries.append(entry)
                self.last[entry.group] = entry
        super()._observe(step)
        if self.view.core.phase is Phase.ACTIVE:
            for group in self.view.core.groups.values():
                self._agrees(group, step.now_ms)

    def _agrees(self, group: Group, now_ms: int) -> None:
        running = self.journal.running(group.id, now_ms)
        if not in_rebalance(group):
            assert running is None or running.stable_ms is not None
            return
        assert running is not None
        assert running.stable_ms is None
        assert (running.joined_ms or running.began_ms) == group.state_since_ms
        assert running.generation in (None, group.generation)
        if running.generation is not None:
            assert running.members_after is not None

    def _check(self, entry: RebalanceEntry) -> None:
        assert RebalanceEntry.from_json(json.loads(json.dumps(entry.to_json()))) == entry
        assert entry.ending is not Ending.RUNNING
        times = [ms for ms in (entry.began_ms, entry.joined_ms, entry.stable_ms, entry.ended_ms) if ms is not None]
        assert times == sorted(times)
        assert (entry.stable_ms is not None) == (entry.ending is Ending.STABLE)
        assert entry.members_before >= 0
        if entry.generation is not None:
            assert entry.generation == entry.previous_generation + 1
        if before := self.last.get(entry.group):
            assert before.ended_ms <= entry.began_ms
            assert before.number < entry.number
            created_again = before.ending is Ending.EMPTY and entry.previous_generation == 0
            assert created_again or entry.previous_generation == (before.generation or before.previous_generation)
            if before.members_after is not None:
                assert entry.members_before == before.members_after
        if entry.consumption_pauses is not None:
            since_ms = before.began_ms if before else entry.began_ms
            assert all(0 <= pause.ms <= entry.ended_ms - since_ms for pause in entry.consumption_pauses.partitions)
            assert entry.consumption_pauses.count <= entry.consumption_pauses.assigned
            assert entry.consumption_pauses.lost_ms == sum(pause.ms for pause in entry.consumption_pauses.partitions)


@pytest.mark.parametrize("seed", seeds(few=5, many=25, fresh=25))
def test_it_agrees_with_the_groups(seed: int) -> None:
    JournaledWorld(seed).run(STEPS)


def test_the_seeds_reach_every_ending() -> None:
    endings: set[Any] = set()
    for seed in range(12):
        world = JournaledWorld(seed)
        world.run(STEPS)
        endings |= {entry.ending for entry in world.entries}
    assert endings == {Ending.STABLE, Ending.EMPTY, Ending.RESTARTED, Ending.ABORTED}
