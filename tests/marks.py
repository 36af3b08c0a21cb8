"""Marks of tests: the ring that runs them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

RING = "ring"


def ring_of(item: pytest.Item) -> str | None:
    """Return the name of the ring; None for a test of ``make test``. Raises UsageError for more than one."""
    names = {str(mark.kwargs["name"]) for mark in item.iter_markers(RING)}
    if len(names) > 1:
        raise pytest.UsageError(f"{item.nodeid} is in {len(names)} rings: {', '.join(sorted(names))}")
    return names.pop() if names else None


def mark_folder(items: Iterable[pytest.Item], conftest: str, ring: str) -> None:
    """Put every test below the folder of that conftest, given by its ``__file__``, into a ring, but those with one."""
    folder = Path(conftest).parent
    for item in items:
        if item.path.is_relative_to(folder) and ring_of(item) is None:
            item.add_marker(pytest.mark.ring(name=ring))
