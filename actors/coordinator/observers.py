"""Observers of a core's events: each is called with the kinds of events that it is for, and no other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

Observer = Callable[[Any, int], object]
"""Called with an event and its time, ms since the Unix epoch."""


class Observers:
    """Most events are commits, which few observers are for: the others are not called."""

    def __init__(self) -> None:
        self._added: list[tuple[Observer, frozenset[type] | None]] = []
        self._of: dict[type, tuple[Observer, ...]] = {}

    def add(self, observer: Observer, kinds: Iterable[type] | None = None) -> None:
        """Call it with every event of exactly these types, after those that were added before; without any, of all."""
        self._added.append((observer, None if kinds is None else frozenset(kinds)))
        self._of.clear()

    def clear(self) -> None:
        """Call none from now on."""
        self._added.clear()
        self._of.clear()

    def of(self, kind: type) -> tuple[Observer, ...]:
        """Return the observers of events of that type, in order."""
        found = self._of.get(kind)
        if found is None:
            found = tuple(observer for observer, kinds in self._added if kinds is None or kind in kinds)
            self._of[kind] = found
        return found
