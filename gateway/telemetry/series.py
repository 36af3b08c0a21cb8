"""The series of client metrics, as many as the limit allows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from uuid import UUID

from muster.gateway.telemetry.otlp import Point


class Key(NamedTuple):
    """A series of one client instance."""

    metric: str
    attributes: str
    is_counter: bool


class Series(NamedTuple):
    """A series, for a scrape."""

    instance_id: UUID
    group: str
    """Empty if it is not known."""
    client_id: str
    key: Key
    value: float


class _Pushed:
    """Metrics that one client instance has pushed."""

    __slots__ = ("client_id", "group", "values")

    def __init__(self) -> None:
        self.group = ""
        self.client_id = ""
        self.values: dict[Key, float] = {}


class ClientSeries:
    """All client instances of one gateway."""

    def __init__(self, max_series: int) -> None:
        self.max_series = max_series
        self.count = 0
        self.left_out = 0
        """Points that had no room, since the start."""
        self._pushed: dict[UUID, _Pushed] = {}

    def __iter__(self) -> Iterator[Series]:
        for instance_id, pushed in self._pushed.items():
            for key, value in pushed.values.items():
                yield Series(instance_id, pushed.group, pushed.client_id, key, value)

    def add(self, instance_id: UUID, group: str | None, client_id: str, points: Iterable[Point]) -> None:
        """Add a push. Once a group is known, it stays the client's until another one is."""
        pushed = self._pushed.setdefault(instance_id, _Pushed())
        pushed.group, pushed.client_id = group or pushed.group, client_id
        for metric, attributes, value, is_counter, is_delta in points:
            key = Key(metric, attributes, is_counter)
            before = pushed.values.get(key)
            if math.isnan(value) or (before is None and self.count >= self.max_series):
                self.left_out += 1
                continue
            self.count += before is None
            pushed.values[key] = value + (before or 0) if is_delta else value

    def forget(self, instances: Iterable[UUID]) -> None:
        """Their clients have ended."""
        for instance_id in instances:
            pushed = self._pushed.pop(instance_id, None)
            self.count -= len(pushed.values) if pushed is not None else 0
