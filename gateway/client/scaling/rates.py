"""Rates of a consumer group, measured from offsets between two looks: what arrives, and what one member reads."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

_FIRST_S, _MEASURE_S = 3.0, 10.0
"""Time over which the rate of a member is measured, at least: at first, and later."""
_NEWEST = 0.4
"""Part of the newest measurement in the rate, beside all before it."""
_RECORDS, _MAX_SMOOTH_S = 20, 60.0
"""Records over which an arrival rate is smoothed if they take longer than the time for smoothing, up to a minute."""

Key = tuple[str, int]
"""Topic and partition."""


class PartitionLag(NamedTuple):
    """The lag of a group in one partition, at one moment."""

    topic: str
    partition: int
    committed: int | None
    """The committed offset; None if there is none."""
    end: int | None
    """The end of the log; None if it is unknown."""
    lag_s: float | None
    """The age of the oldest unread record; None if it is unknown."""
    member_id: str | None = None
    """The member that has the partition, if that is known: rates are then measured member by member."""
    begin: int = 0
    """The beginning of the log: where the group may begin if there is no committed offset."""

    @property
    def is_unread(self) -> bool:
        """Whether it has a record that is not committed, as far as is known."""
        return self.end is not None and self.end > (self.begin if self.committed is None else self.committed)


def partition_lags(response: Mapping[str, Any]) -> list[PartitionLag]:
    """Return the partitions of a response of ``GET /v1/groups/lag?group=G``. Raises KeyError, TypeError for others."""
    return [
        PartitionLag(
            row["topic"],
            row["partition"],
            row["committed_offset"],
            row["end_offset"],
            row["lag_s"],
            row["member_id"],
            (row["end_offset"] or 0) - (row["messages_without_commit"] or 0),
        )
        for row in response["partitions"]
    ]


class Seen(NamedTuple):
    """A partition with a committed offset, at the last look."""

    at_s: float
    committed: int
    end: int
    arrival: float | None
    """Records per second; None until it was seen twice."""
    unread_s: float
    """Since when a record is unread, at least."""
    unread_end: int
    """The end at that time."""

    @property
    def lag(self) -> int:
        return max(self.end - self.committed, 0)


class _Start(NamedTuple):
    """Where a measurement of the rate of members began."""

    at_s: float
    offsets: dict[Key, Seen]
    members: int

    def continues(self, offsets: Mapping[Key, Seen], members: int) -> bool:
        """Return whether the members and their partitions are the same, and no offset went back."""
        return (
            self.members == members
            and self.offsets.keys() == offsets.keys()
            and all(
                offsets[key].committed >= start.committed and offsets[key].end >= start.end
                for key, start in self.offsets.items()
            )
        )


class Rates:
    """Rates of one group, by the last looks at it."""

    def __init__(self) -> None:
        self.seen: dict[Key, Seen] = {}
        self.one: float | None = None
        """Records per second that one member reads; None until that was measured."""
        self.arrives = False
        """Whether records came between the last two looks."""
        self._starts: dict[str | None, _Start] = {}
        self._is_earliest: bool | None = None
        """Whether members begin at the beginning of a log; None until one began where there was a record."""
        self._without_commit: dict[Key, int] = {}
        """The end, at the last look."""

    def resolved(self, rows: Iterable[PartitionLag]) -> list[PartitionLag]:
        """Return the rows with the offset where members begin, where there is no committed one.

        That offset shows when the first one is committed: below what was the end before, their ``auto.offset.reset``
        is earliest. Rows of partitions without a commit are left out if it is not, and unchanged while it is unknown.
        """
        found = []
        before, self._without_commit = self._without_commit, {}
        for row in rows:
            key = row.topic, row.partition
            if row.committed is not None and before.get(key):
                self._is_earliest = row.committed < before[key]
            if row.committed is None and row.is_unread:
                self._without_commit[key] = row.end or 0
            if row.committed is not None or row.end is None or self._is_earliest is None:
                found.append(row)
            elif self._is_earliest:
                found.append(row._replace(committed=row.begin))
        return found

    def start_anew(self) -> None:
        """Forget offsets, and times; not the rate of a member."""
        self.seen, self.arrives, self._starts = {}, False, {}

    def look(
        self, now_s: float, rows: Iterable[PartitionLag], members: int, *, smooth_s: float, all_read: bool
    ) -> None:
        """Update the rates.

        ``smooth_s``: time for smoothing what arrives. ``all_read``: no member was added so recently that it may not
        read yet; needed where members of partitions are not known.
        """
        before, self.seen = self.seen, {}
        owned: dict[str | None, dict[Key, Seen]] = {}
        for row in rows:
            key = row.topic, row.partition
            if row.end is None:
                if key in before:
                    self.seen[key] = before[key]
            elif row.committed is not None:
                self.seen[key] = _seen(now_s, row.committed, row.end, before.get(key), smooth_s)
                owned.setdefault(row.member_id, {})[key] = self.seen[key]
        self.arrives = any(key in before and each.end > before[key].end for key, each in self.seen.items())
        self._measure(now_s, before, owned, members, all_read)

    def _measure(
        self,
        now_s: float,
        before: Mapping[Key, Seen],
        owned: Mapping[str | None, dict[Key, Seen]],
        members: int,
        all_read: bool,
    ) -> None:
        """Measure those who had unread records all the time. From commit to commit, whatever their interval."""
        starts, self._starts = self._starts, {}
        measured: list[float] = []
        least_s = _FIRST_S if self.one is None else _MEASURE_S
        for member_id, offsets in owned.items():
            count = 1 if member_id is not None else members
            start = starts.get(member_id)
            if start is not None and not (start.continues(offsets, count) and (all_read or count == 1)):
                start = None
            commits = any(key in before and each.committed > before[key].committed for key, each in offsets.items())
            if start is not None and not (commits and now_s - start.at_s >= least_s):
                self._starts[member_id] = start
            elif commits:
                self._starts[member_id] = _Start(now_s, offsets, count)
                if start is not None and (rate := _rate(now_s, start, offsets)):
                    measured.append(rate)
        if measured:
            rate = sum(measured) / len(measured)
            self.one = rate if self.one is None else self.one + (rate - self.one) * _NEWEST


def _seen(now_s: float, committed: int, end: int, before: Seen | None, smooth_s: float) -> Seen:
    if before is None or end < before.end:  # a topic of that name is another one
        return Seen(now_s, committed, end, None, now_s, end)
    arrival, passed_s = before.arrival, now_s - before.at_s
    if passed_s > 0:
        came = (end - before.end) / passed_s
        if arrival is None:
            arrival = came
        else:
            is_sure = end - before.end >= _RECORDS
            records_s = smooth_s if is_sure else _RECORDS / max(arrival, _RECORDS / _MAX_SMOOTH_S)
            arrival = _smoothed(arrival, came, passed_s / max(smooth_s, records_s))
    if before.lag and before.committed <= committed < before.unread_end:
        return Seen(now_s, committed, end, arrival, before.unread_s, before.unread_end)
    return Seen(now_s, committed, end, arrival, now_s, end)


def _rate(now_s: float, start: _Start, offsets: Mapping[Key, Seen]) -> float:
    """Return the rate of one member since the start; 0 if members may have been idle meanwhile.

    A member that has all the partitions had no rest if it has not read one of them to the end. Of several members, only
    such partitions count, and no more members than there are of them.
    """
    busy = {key for key, each in offsets.items() if each.committed < start.offsets[key].end}
    readers = min(len(busy), start.members)
    if not readers:
        return 0.0
    read = sum(
        each.committed - start.offsets[key].committed
        for key, each in offsets.items()
        if readers == start.members == 1 or key in busy
    )
    return read / (now_s - start.at_s) / readers


def _smoothed(old: float, new: float, times: float) -> float:
    """Move from old to new, by two thirds in the time for smoothing; ``times``: how often that has passed."""
    return new + (old - new) * math.exp(-times)
