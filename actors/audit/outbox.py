"""What one process collects for the audit between two rounds, handed over exactly once.

The audit says which batch it received last. If that is not the one that was handed out last, its answer was lost on
the way, and what was in it goes out again with what has come since. When another process of the audit asks, or nobody
does for so long that too much has come, everything is dropped and a new *life* begins, by which the audit knows that
something is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

MAX_ITEMS = 200_000


class Item(Protocol):
    """A thing that happened to a key."""

    def then(self, later: Self, /) -> Self | None:
        """Both as one, if they can be told as one."""


K = TypeVar("K")
T = TypeVar("T", bound=Item)


@dataclass(frozen=True, slots=True)
class Batch(Generic[K, T]):
    """Everything since the batch before it of the same life."""

    life: str
    whole: bool
    """Whether the life began with the process: nothing was dropped before it."""
    number: int
    entries: Mapping[K, tuple[T, ...]]


class Outbox(Generic[K, T]):
    """``name`` is that of no other process, living or dead. Not thread-safe."""

    def __init__(self, name: str, most_items: int = MAX_ITEMS) -> None:
        self._name = name
        self._most_items = most_items
        self._lives = 1
        self._session: str | None = None
        """Who asks; None: nobody yet."""
        self._number = 0
        self._handed: dict[K, list[T]] = {}
        self._growing: dict[K, list[T]] = {}
        self._items = 0
        """In ``_growing``, and in ``_handed`` when it came."""
        self._dropping = False

    def add(self, key: K, item: T) -> None:
        """It happened after everything else of that key. O(1)."""
        if self._dropping:
            return
        known = self._growing.get(key)
        if known is None:
            self._growing[key] = [item]
        elif (both := known[-1].then(item)) is not None:
            known[-1] = both
            return
        else:
            known.append(item)
        self._items += 1
        if self._items > self._most_items:
            self._drop()
            self._dropping = True

    def take(self, session: str, received: int) -> Batch[K, T]:
        """Hand over what has come. ``session`` is the audit's process, ``received`` the number that it has, or 0."""
        if self._dropping or self._session not in (None, session):
            self._drop()
            self._lives += 1
            self._dropping = False
        elif received == self._number:
            self._handed = {}
        self._session = session
        for key, items in self._growing.items():
            self._handed.setdefault(key, []).extend(items)
        self._growing = {}
        self._items = sum(map(len, self._handed.values()))
        self._number += 1
        entries = {key: tuple(items) for key, items in self._handed.items()}
        return Batch(f"{self._name}/{self._lives}", self._lives == 1, self._number, entries)

    def _drop(self) -> None:
        self._number = self._items = 0
        self._handed, self._growing = {}, {}
