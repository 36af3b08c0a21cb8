"""Runs a seed."""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation import running
from tests.simulation.consumer_groups.world import STEPS, World
from tests.simulation.planted.broken import Broken

__all__ = ["STEPS", "Result", "replay_command", "run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    broken: Broken | None
    steps: int
    """Number of events until the failure or the end."""
    core_steps: int
    events: dict[str, int]
    history: tuple[str, ...]


def run(seed: int, steps: int = STEPS, *, trace_all: bool = False) -> Result:
    world = World(seed, trace_all=trace_all)
    broken = running.broken_by(world, steps)
    return Result(
        broken=broken,
        steps=world.schedule.steps,
        core_steps=world.core_steps,
        events=dict(world.events),
        history=running.kept(world, broken, trace_all),
    )


def replay_command(seed: int, steps: int = STEPS) -> str:
    return running.command(seed, steps, STEPS, "--consumer-groups")
