"""Runs a seed."""

from __future__ import annotations

from dataclasses import dataclass

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
    broken = None
    try:
        world.run(steps)
    except Broken as found:
        broken = found
    except Exception as error:
        broken = Broken(repr(error), "the_core_never_fails")
    return Result(
        broken=broken,
        steps=world.schedule.steps,
        committed=len(world.promises.committed),
        events=dict(world.actor.events),
        history=tuple(world.history()) if broken or trace_all else (),
    )


def replay_command(seed: int, steps: int = STEPS) -> str:
    shorter = f" --steps {steps}" if steps != STEPS else ""
    return f".venv/bin/python -m tests.simulation --transactions --seed {seed}{shorter} --trace"
