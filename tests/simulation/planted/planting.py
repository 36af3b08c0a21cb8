"""Mutants: the product, deliberately broken, which a simulation must detect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

Change = tuple[Any, str, Any]
Plant = Callable[[Callable[[], list[Change]]], Callable[[], list[Change]]]


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    caught_by: frozenset[str]
    """Invariants that may detect it first."""
    changes: Callable[[], list[Change]]
    """(module or class, name, replacement)."""

    @contextmanager
    def loose(self) -> Iterator[None]:
        """Break the product inside the block."""
        patches = [patch.object(place, name, instead) for place, name, instead in self.changes()]
        for each in patches:
            each.start()
        try:
            yield
        finally:
            for each in reversed(patches):
                each.stop()


def planting(mutants: list[Mutant]) -> Callable[..., Plant]:
    """Return a decorator that adds a mutant to the list; its arguments are the invariants that may detect it first."""

    def mutant(*caught_by: str) -> Plant:
        def add(changes: Callable[[], list[Change]]) -> Callable[[], list[Change]]:
            mutants.append(Mutant(changes.__name__.strip("_"), frozenset(caught_by), changes))
            return changes

        return add

    return mutant
