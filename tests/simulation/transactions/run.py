"""Runs a seed."""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation import running
from tests.simulation.planted.broken import Broken
from tests.simulation.transactions.world import STEPS, World

__all__ = ["STEPS", "Result", "replay_command", "run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    broken: Broken | None
    steps: int
    """Number of events until the failure or the end."""
    committed: int
    """Transactions of which a producer knows that they are committed."""
    events: dict[str, int]
    history: tuple[str, ...]


def run(seed: int, steps: int = STEPS, *, trace_all: bool = False) -> Result:
    world = World(seed, trace_all=trace_all)
    try:
        broken = running.broken_by(world, steps)
    except Exception as error:
        broken = Broken(repr(error), "the_core_never_fails")
    return Result(
        broken=broken,
        steps=world.schedule.steps,
        committed=len(world.promises.committed),
        events=dict(world.actor.events),
        history=running.kept(world, broken, trace_all),
    )


def replay_command(seed: int, steps: int = STEPS) -> str:
    return running.command(seed, steps, STEPS, "--transactions")
