"""Items that one process collects for the audit between two rounds, handed over exactly once.

The audit sends the number of the batch that it received last. If that is not the last one that was handed over, the
response was lost, and its items are sent again with those added since. If another process of the audit sends a request,
or too many items are added before there is a request, everything is dropped and a new *life* begins, which shows the
audit that something is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

MAX_ITEMS = 200_000


class Item(Protocol):
    """Something that happened to a key."""

    def then(self, later: Self, /) -> Self | None:
        """Both as one item; None if they cannot be merged."""


K = TypeVar("K")
T = TypeVar("T", bound=Item)


@dataclass(frozen=True, slots=True)
class Batch(Generic[K, T]):
    """Everything since the previous batch of the same life."""

    life: str
    whole: bool
    """Whether the life began with the process: nothing was dropped before it."""
    number: int
    entries: Mapping[K, tuple[T, ...]]


class Outbox(Generic[K, T]):
    """``name`` is unique among all processes, live or dead. Not thread-safe."""

    def __init__(self, name: str, most_items: int = MAX_ITEMS) -> None:
        self._name = name
        self._most_items = most_items
        self._lives = 1
        self._session: str | None = None
        """The audit's process that sent the last request; None: there was none yet."""
        self._number = 0
        self._handed: dict[K, list[T]] = {}
        self._growing: dict[K, list[T]] = {}
        self._items = 0
        """Number of items in ``_growing``, and in ``_handed`` as of the last :meth:`take`."""
        self.is_dropping = False
        """Whether nothing is kept until the next :meth:`take`, because it was full."""

    def add(self, key: K, item: T) -> None:
        """Add an item that happened after all others of that key. O(1)."""
        if self.is_dropping:
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
            self.is_dropping = True

    def take(self, session: str, received: int) -> Batch[K, T]:
        """Hand over all items. ``session`` is the audit's process, ``received`` the number of its last batch, or 0."""
        if self.is_dropping or self._session not in (None, session):
            self._drop()
            self._lives += 1
            self.is_dropping = False
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
