"""How often, and for how long, clients had to pause: for /metrics, a limited number of series."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from muster.gateway.quotas.limits import Who

MAX_SERIES = 1_000
"""Clients choose client ids; those beyond the limit are counted together."""


class Throttled(NamedTuple):
    """Pauses of those who share a quota."""

    quota: str
    who: Who | None
    """None: all others."""
    responses: int
    total_ms: int


class Throttles:
    """Counters since the start."""

    def __init__(self, max_series: int = MAX_SERIES) -> None:
        self._max_series = max_series
        self._counts: dict[tuple[str, Who | None], list[int]] = {}
        self.left_out = 0
        """Throttled responses that have no series of their own."""

    def add(self, quota: str, who: Who, throttle_ms: int) -> None:
        """Count a response with this throttle time."""
        count = self._counts.get((quota, who))
        if count is None:
            if len(self._counts) >= self._max_series:
                self.left_out += 1
                count = self._counts.setdefault((quota, None), [0, 0])
            else:
                count = self._counts[quota, who] = [0, 0]
        count[0] += 1
        count[1] += throttle_ms

    def __iter__(self) -> Iterator[Throttled]:
        for (quota, who), (responses, total_ms) in self._counts.items():
            yield Throttled(quota, who, responses, total_ms)
