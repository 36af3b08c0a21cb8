"""Any history from a seed, in every world: no invariant may break, and everything must recover in the end.

A failure prints the last steps and the command that replays the seed. More seeds: ``make simulate SEEDS=5000``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import cast

import pytest
from _pytest.mark import ParameterSet

from tests.seeds import seeds
from tests.simulation.planted.broken import Broken
from tests.simulation.running import Result, World, WorldKind, replay_command, report, run, shorten
from tests.simulation.schedule import Schedule
from tests.simulation.worlds import COORDINATOR, PROCESSES, WORLDS

TALLIES: defaultdict[str, Counter[str]] = defaultdict(Counter)
"""Counts in the seeds of this session, by world and kind."""
every_world = pytest.mark.parametrize("kind", WORLDS, ids=lambda kind: kind.name)


def _every_seed() -> Iterator[ParameterSet]:
    for kind in WORLDS:
        for seed in seeds(kind.few_seeds, kind.many_seeds, fresh=kind.many_seeds):
            yield pytest.param(kind, *seed.values, id=f"{kind.name}-{seed.id}", marks=seed.marks)


@pytest.mark.parametrize(("kind", "seed"), [*_every_seed()])
def test_nothing_breaks(kind: WorldKind, seed: int) -> None:
    result = _tallied(kind, seed)
    if result.broken is not None:
        pytest.fail("\n".join([*result.history, "", report(kind, seed, result)]), pytrace=False)


@every_world
def test_the_seeds_reach_what_matters(kind: WorldKind) -> None:
    """The simulation is worth its time only if groups are deleted, copies are fenced, and so on."""
    tally = TALLIES[kind.name]
    for seed in range(kind.few_seeds if tally["seeds"] < kind.few_seeds else 0):
        _tallied(kind, seed)
    assert {name: tally[name] for name, often in kind.reaches.items() if tally[name] < often * tally["seeds"]} == {}


def _tallied(kind: WorldKind, seed: int) -> Result:
    result = run(kind, seed)
    TALLIES[kind.name].update(result.counts, seeds=1)
    return result


@every_world
def test_a_seed_is_one_history(kind: WorldKind) -> None:
    """The history is the same in another process, whose strings have different hashes."""
    steps = kind.steps // 4
    command = [sys.executable, *replay_command(kind, 3, steps).split()[1:]]
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    there = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()
    here = run(kind, 3, steps, trace_all=True).history
    assert there[:-1] == [*here]
    assert len(here) > 200


def test_a_failing_seed_is_printed_with_its_command() -> None:
    assert replay_command(COORDINATOR, 17) == ".venv/bin/python -m tests.simulation --seed 17 --trace"
    assert replay_command(PROCESSES, 17) == ".venv/bin/python -m tests.simulation --processes --seed 17 --trace"
    assert replay_command(PROCESSES, 17, 400).endswith("--processes --seed 17 --steps 400 --trace")


class _Breaking:
    """A world that breaks when its faults last for at least 137 events."""

    def __init__(self) -> None:
        self.schedule = Schedule(0)
        self.counts = Counter[str]()

    def run(self, steps: int) -> None:
        if steps >= 137:
            raise Broken("broken", "late" if steps < 1_000 else "later")

    def history(self) -> Iterator[str]:
        yield "what happened"


def test_a_failing_seed_is_shortened() -> None:
    kind = WorldKind(
        name="breaking",
        option=None,
        about="",
        create=lambda seed, trace_all: cast(World, _Breaking()),
        steps=900,
        total="",
        few_seeds=0,
        many_seeds=0,
        reaches={},
        mutants=[],
    )
    assert run(kind, 17).history == ("what happened",)
    assert shorten(kind, 17, 900, "late") in range(137, 250)
    assert shorten(kind, 17, 2_000, "later") in range(1_000, 1_250)
    assert report(kind, 17, run(kind, 17, 140)).endswith("--seed 17 --steps 140 --trace")
