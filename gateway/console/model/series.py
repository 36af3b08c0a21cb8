"""Curves of the last hour: values in buckets of time, in arrays of a bounded size. A gap is NaN."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping

HOUR_MS = 3_600_000
GROUP_STEP_MS = 10_000
TOTAL_STEP_MS = 1_000
MAX_GROUPS = 10_000
"""Groups with curves of their own. Those beyond are in the totals only."""
_NAN = math.nan


class Curve:
    """Values by bucket; the newest ``length`` buckets are kept. 4 bytes each, from the first bucket with a value."""

    __slots__ = ("_first", "_values", "length")

    def __init__(self, length: int) -> None:
        self.length = length
        self._first = 0
        self._values = array("f")

    def __len__(self) -> int:
        return len(self._values)

    @property
    def last_bucket(self) -> int:
        """Number of the newest bucket; -1 without one."""
        return self._first + len(self._values) - 1 if self._values else -1

    def put(self, bucket: int, value: float | None, bridge: int = 0) -> None:
        """Set the value of a bucket that is not older than the newest.

        Buckets in between are gaps; up to ``bridge`` of them have the value before: polls are not that frequent.
        """
        given = _NAN if value is None else value
        values = self._values
        if not values or bucket - self.last_bucket >= self.length:
            self._first, self._values = bucket, array("f", (given,))
            return
        behind = bucket - self.last_bucket
        if behind < 0:
            return
        if behind == 0:
            values[-1] = given
            return
        if behind > 1:
            values.extend([values[-1] if behind - 1 <= bridge else _NAN] * (behind - 1))
        values.append(given)
        if (surplus := len(values) - self.length) > 0:
            del values[:surplus]
            self._first += surplus

    def points(self, since_bucket: int = 0) -> Iterator[tuple[int, float | None]]:
        """Yield (bucket, value) in order of time; None for a gap."""
        start = max(since_bucket - self._first, 0)
        for index in range(start, len(self._values)):
            value = self._values[index]
            yield self._first + index, None if math.isnan(value) else value

    def at(self, bucket: int) -> float | None:
        """Return the value of the bucket; None if there is none."""
        index = bucket - self._first
        if not 0 <= index < len(self._values) or math.isnan(self._values[index]):
            return None
        return self._values[index]

    @property
    def latest(self) -> float | None:
        """The newest value; None for a gap or without any."""
        return self.at(self.last_bucket)


class Curves:
    """Named curves with one step of time."""

    def __init__(self, step_ms: int, span_ms: int = HOUR_MS) -> None:
        self.step_ms = step_ms
        self._length = span_ms // step_ms
        self._curves: dict[str, Curve] = {}

    def put(self, now_ms: int, values: Mapping[str, float | None], bridge_ms: int = 0) -> None:
        """Set the values of the current bucket. Gaps up to ``bridge_ms`` long are filled."""
        bucket = now_ms // self.step_ms
        for name, value in values.items():
            curve = self._curves.get(name)
            if curve is None:
                curve = self._curves[name] = Curve(self._length)
            curve.put(bucket, value, bridge_ms // self.step_ms)

    def points(self, name: str, since_ms: int = 0) -> list[tuple[int, float | None]]:
        """Return (ms since the epoch, value) from ``since_ms`` on; None for a gap. Empty if there is no such curve."""
        curve = self._curves.get(name)
        if curve is None:
            return []
        return [(bucket * self.step_ms, value) for bucket, value in curve.points(since_ms // self.step_ms)]

    def coarse(self, name: str, step_ms: int, since_ms: int = 0) -> list[tuple[int, float | None]]:
        """Return the curve with a longer step: the largest value of each, so that no peak is lost."""
        found: dict[int, float | None] = {}
        for at_ms, value in self.points(name, since_ms):
            key = at_ms // step_ms * step_ms
            before = found.get(key)
            found[key] = value if before is None else before if value is None else max(before, value)
        return [(at_ms, found.get(at_ms)) for at_ms in range(min(found), max(found) + 1, step_ms)] if found else []


class GroupCurves:
    """Curves of each group: ``lag``, ``lag_s`` and ``bytes_s``, in buckets of 10 s. Bounded in groups and in time."""

    MEASURES = ("lag", "lag_s", "bytes_s")

    def __init__(self, max_groups: int = MAX_GROUPS, span_ms: int = HOUR_MS) -> None:
        self._max_groups = max_groups
        self._length = span_ms // GROUP_STEP_MS
        self._curves: dict[str, tuple[Curve, Curve, Curve]] = {}
        self._bucket = -1

    def __len__(self) -> int:
        return len(self._curves)

    def put(
        self, now_ms: int, rows: Iterable[tuple[str, float | None, float | None, float | None]], bridge: int = 0
    ) -> bool:
        """Set (group, lag, lag_s, bytes_s) of all groups, once for each bucket. Returns whether it was a new bucket.

        Groups without a value for the whole span are forgotten.
        """
        bucket = now_ms // GROUP_STEP_MS
        if bucket <= self._bucket:
            return False
        self._bucket = bucket
        for group, *values in rows:
            curves = self._curves.get(group)
            if curves is None:
                if len(self._curves) >= self._max_groups:
                    continue
                curves = self._curves[group] = (Curve(self._length), Curve(self._length), Curve(self._length))
            for curve, value in zip(curves, values, strict=True):
                curve.put(bucket, value, bridge)
        gone = [group for group, curves in self._curves.items() if bucket - curves[0].last_bucket >= self._length]
        for group in gone:
            del self._curves[group]
        return True

    def points(self, group: str, measure: str, since_ms: int = 0) -> list[tuple[int, float | None]]:
        """Return (ms since the epoch, value) of one measure; empty if the group has no curve."""
        curves = self._curves.get(group)
        if curves is None:
            return []
        curve = curves[self.MEASURES.index(measure)]
        return [(bucket * GROUP_STEP_MS, value) for bucket, value in curve.points(since_ms // GROUP_STEP_MS)]

    def growth(self, group: str, measure: str, now_ms: int, over_ms: int) -> float | None:
        """Return how much the measure grew over that time; None if one of both ends is not known."""
        curves = self._curves.get(group)
        if curves is None:
            return None
        curve = curves[self.MEASURES.index(measure)]
        before, after = curve.at((now_ms - over_ms) // GROUP_STEP_MS), curve.latest
        return None if before is None or after is None else after - before

    def largest(self, measure: str, limit: int) -> list[str]:
        """Return the groups with the largest current values, the largest first; only values above 0."""
        index = self.MEASURES.index(measure)
        found = [(value, group) for group, curves in self._curves.items() if (value := curves[index].latest)]
        return [group for _, group in sorted(found, key=lambda each: (-each[0], each[1]))[:limit]]
