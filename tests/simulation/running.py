"""Runs a seed of any world, shortens a failing one, and names the command that runs it again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tests.simulation.planted.broken import Broken
from tests.simulation.planted.planting import Mutant
from tests.simulation.schedule import Schedule


class World(Protocol):
    """A seed's world. A seed always gives the same history."""

    schedule: Schedule

    @property
    def counts(self) -> Counter[str]:
        """Frequencies of what happened, by kind."""
        ...

    def run(self, steps: int, /) -> None:
        """Run the whole history; the faults stop after ``steps`` events. Raises Broken."""
        ...

    def history(self) -> Iterator[str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldKind:
    name: str
    option: str | None
    """Selects it on the command line; None: the kind without an option."""
    about: str
    """Shown by ``--help``."""
    create: Callable[[int, bool], World]
    """From a seed, and whether to keep the whole trace."""
    steps: int
    """Events before the faults stop."""
    total: str
    """The count that the last line of a search shows."""
    few_seeds: int
    """Seeds that every change runs."""
    many_seeds: int
    """Number of seeds of the ring ``seeds``, which are new ones each time."""
    reaches: Mapping[str, float]
    """The simulation is worth its time only if each of these counts is at least so many per seed."""
    mutants: list[Mutant]
    mutant_seeds: int = 40
    """A mutant must be caught within this number of seeds."""
    mutants_begin: Mapping[str, int] = field(default_factory=dict)
    """The first seed for mutants that few histories reveal: it saves time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    broken: Broken | None
    faulty_steps: int
    """Number of events after which the faults stop."""
    steps: int
    """Number of events until the failure or the end."""
    counts: Counter[str]
    """Frequencies of what happened, by kind."""
    history: tuple[str, ...]
    """Kept only of a failure, or if the whole trace was wanted."""


def run(kind: WorldKind, seed: int, steps: int | None = None, *, trace_all: bool = False) -> Result:
    """Run the seed; ``steps``: events before the faults stop, by default those of the kind."""
    faulty_steps = kind.steps if steps is None else steps
    world = kind.create(seed, trace_all)
    broken = None
    try:
        world.run(faulty_steps)
    except Broken as found:
        broken = found
    return Result(
        broken=broken,
        faulty_steps=faulty_steps,
        steps=world.schedule.steps,
        counts=world.counts,
        history=tuple(world.history()) if broken or trace_all else (),
    )


def shorten(kind: WorldKind, seed: int, steps: int, invariant: str) -> int:
    """Fewer faulty events after which the seed still breaks that invariant, by halving and quartering the rest."""
    for cut in (steps // 2, steps // 4, steps // 8):
        while steps > cut > 0 and _breaks(kind, seed, steps - cut, invariant):
            steps -= cut
    return steps


def _breaks(kind: WorldKind, seed: int, steps: int, invariant: str) -> bool:
    broken = run(kind, seed, steps).broken
    return broken is not None and broken.invariant == invariant


def replay_command(kind: WorldKind, seed: int, steps: int | None = None) -> str:
    words = [".venv/bin/python -m tests.simulation", *([f"--{kind.option}"] if kind.option else [])]
    words += ["--seed", str(seed), *(["--steps", str(steps)] if steps not in (None, kind.steps) else [])]
    return " ".join([*words, "--trace"])


def report(kind: WorldKind, seed: int, result: Result) -> str:
    """How the seed failed, and the command that runs it again."""
    return f"seed {seed}, step {result.steps}: {result.broken}\n{replay_command(kind, seed, result.faulty_steps)}"
