"""Runs a seed, and shortens a failing one."""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation import running
from tests.simulation.planted.broken import Broken
from tests.simulation.world import STEPS, World

__all__ = ["STEPS", "Result", "replay_command", "run", "shorten"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    broken: Broken | None
    faulty_steps: int
    """Number of events after which the faults stop."""
    steps: int
    """Number of events until the failure or the end."""
    core_steps: int
    acknowledged: int
    ended_transactions: int
    events: dict[str, int]
    history: tuple[str, ...]


def run(seed: int, steps: int = STEPS, *, trace_all: bool = False) -> Result:
    world = World(seed, trace_all=trace_all)
    broken = running.broken_by(world, steps)
    return Result(
        broken=broken,
        faulty_steps=steps,
        steps=world.schedule.steps,
        core_steps=world.core_steps,
        acknowledged=world.promises.offsets.acknowledged,
        ended_transactions=world.promises.offsets.ended,
        events=dict(world.events),
        history=running.kept(world, broken, trace_all),
    )


def shorten(seed: int, steps: int, invariant: str) -> int:
    """Fewer faulty events after which the seed still breaks that invariant, by halving and quartering the rest."""
    for cut in (steps // 2, steps // 4, steps // 8):
        while steps > cut > 0 and _breaks(seed, steps - cut, invariant):
            steps -= cut
    return steps


def _breaks(seed: int, steps: int, invariant: str) -> bool:
    broken = run(seed, steps).broken
    return broken is not None and broken.invariant == invariant


def replay_command(seed: int, steps: int = STEPS) -> str:
    return running.command(seed, steps, STEPS)
