"""What running a seed is in every world."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from tests.simulation.planted.broken import Broken


class AnyWorld(Protocol):
    def run(self, steps: int, /) -> None: ...

    def history(self) -> Iterator[str]: ...


def broken_by(world: AnyWorld, steps: int) -> Broken | None:
    """Run the history; what broke, if anything."""
    try:
        world.run(steps)
    except Broken as found:
        return found
    return None


def kept(world: AnyWorld, broken: Broken | None, trace_all: bool) -> tuple[str, ...]:
    """The history, if another process will read it."""
    return tuple(world.history()) if broken or trace_all else ()


def command(seed: int, steps: int, default: int, *options: str) -> str:
    """The command that runs the seed again; ``default``: the world's number of steps."""
    shorter = ["--steps", str(steps)] if steps != default else []
    return " ".join([".venv/bin/python -m tests.simulation", *options, "--seed", str(seed), *shorter, "--trace"])
