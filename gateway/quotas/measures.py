"""The live measures: one for all that share a quota, dropped when unused, and limited in number."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

UNUSED_MS = 3_600_000
"""After how long without use a measure is dropped, as in Kafka."""
MAX_MEASURES = 10_000
"""Beyond it, the measures that were used longest ago are dropped: clients choose client ids, as many as they like."""
_DROPPED_PART = 8
MAX_NAME_CHARS = 256
"""Longer names are not kept as they are."""

M = TypeVar("M")
K = TypeVar("K", bound=Hashable)


def short(name: str) -> str:
    """Return a name to remember: of a long one, its digest."""
    if len(name) <= MAX_NAME_CHARS:
        return name
    return "sha256:" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


class Measures(Generic[K, M]):
    """By key. Times are ms and never go back."""

    def __init__(self, new: Callable[[], M], limit: int = MAX_MEASURES, unused_ms: int = UNUSED_MS) -> None:
        self._new = new
        self._limit = limit
        self._unused_ms = unused_ms
        self._measures: dict[K, M] = {}
        self._used_ms: dict[K, int] = {}

    def __len__(self) -> int:
        return len(self._measures)

    def get(self, key: K, now_ms: int) -> M:
        """Return the measure with that key, which is used now; a new one if there is none."""
        measure = self._measures.get(key)
        if measure is None:
            if len(self._measures) >= self._limit:
                self._make_room()
            measure = self._measures[key] = self._new()
        self._used_ms[key] = now_ms
        return measure

    def peek(self, key: K) -> M | None:
        """Return the measure with that key, if there is one; this is no use of it."""
        return self._measures.get(key)

    def forget_unused(self, now_ms: int) -> None:
        """Drop what has not been used for an hour."""
        self._drop([key for key, used_ms in self._used_ms.items() if now_ms - used_ms >= self._unused_ms])

    def _make_room(self) -> None:
        oldest_first = sorted(self._used_ms, key=self._used_ms.__getitem__)
        self._drop(oldest_first[: max(1, len(oldest_first) // _DROPPED_PART)])

    def _drop(self, keys: list[K]) -> None:
        for key in keys:
            del self._measures[key], self._used_ms[key]
