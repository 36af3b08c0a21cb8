"""Work in small steps, so that the event loop can do something else in between."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")

Steps = Generator[None, None, T]
"""Work that may be interrupted after each of its steps, which take some ten microseconds; returns its result."""


def finish(steps: Steps[T]) -> T:
    """Return the result, of all steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
