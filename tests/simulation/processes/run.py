"""Run a seed, and return the result."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tests.simulation import running
from tests.simulation.planted.broken import Broken
from tests.simulation.processes.world import STEPS, World

__all__ = ["STEPS", "Result", "replay_command", "run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    broken: Broken | None
    steps: int
    counts: Counter[str]
    """What happened in the seed, by kind."""
    history: tuple[str, ...]


def run(seed: int, steps: int = STEPS, *, trace_all: bool = False) -> Result:
    world = World(seed, trace_all=trace_all)
    broken = running.broken_by(world, steps)
    return Result(
        broken=broken,
        steps=world.schedule.steps,
        counts=world.acknowledged.counts + Counter({"sessions expired": world.ensemble.expired}),
        history=running.kept(world, broken, trace_all),
    )


def replay_command(seed: int, steps: int = STEPS) -> str:
    return running.command(seed, steps, STEPS, "--processes")
