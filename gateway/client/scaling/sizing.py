"""How many members a consumer group needs, by its lag. Pure; the same for every kind of member.

members = (records that arrive + records that are late / time left to the target) / rate of one member

Each partition counts for one member at most, as no more can read it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from muster.gateway.client.errors import InvalidScaling
from muster.gateway.client.scaling.rates import PartitionLag, Rates

__all__ = ["PartitionLag", "Sizing"]

_LATE = 0.7
"""Part of the target: a record that is unread for longer is late. Younger ones may be read, and not committed yet."""
_HURRY = 0.5
"""Part of the target in which late records are to be read."""
_PATIENCE = 0.25
"""Part of the target for which more members must be needed, unless records are late."""
_SMOOTH = 0.125
"""Part of the target over which arrival rates are smoothed."""
_LOAD, _LOW_LOAD = 0.8, 0.7
"""Parts of the rate of a member: one is added above the first load, and removed if the others stay below the second."""
_UNEVEN = 0.15
"""Part of the rate of a member by which the load of one may be above that of all on average."""
_GAP_S = 600.0
"""Longest time between two looks. After a longer one, as after a clock that goes back, all times start anew."""
_ROUNDING = 1e-9


class _Need(NamedTuple):
    """Members that are needed, unbounded."""

    up: int
    """Members to which the group should grow, if these are more than it has."""
    down: int
    """Members to which it may shrink, if these are fewer."""
    is_late: bool
    """Records are late, or will be."""
    is_certain: bool
    """Members cannot read in time what is unread now, by their rate."""


class Sizing:
    """Decides how many members a group should have, look by look. May be pickled between two looks.

    A group without members gets one as soon as a record is unread. Then it grows at most once per ``start_s``, as the
    members that were added last must show what they do first; from one member at once, if its rate shows that it cannot
    read in ``target_s`` what is unread. It never grows above the partitions that lag, unless more are needed to keep up
    with what arrives. It shrinks once fewer members were enough for ``down_s``, and to ``low`` after ``idle_s`` without
    an unread or a new record. While the end of a partition's log is unknown, it keeps its size.

    Records in a partition without a committed offset are for one member, until it shows whether members begin at the
    beginning of logs: then they are unread like others, or count no more.

    Members have to commit more often than every 0.7 ``target_s``: what they have read and not committed counts as
    unread.
    """

    def __init__(
        self,
        low: int = 0,
        high: int = 8,
        target_s: float = 10.0,
        start_s: float = 20.0,
        *,
        idle_s: float = 30.0,
        down_s: float = 30.0,
    ) -> None:
        """Keep ``low`` to ``high`` members, and the oldest unread record younger than ``target_s``.

        ``start_s``: from the decision to add a member until it reads. Raises InvalidScaling.
        """
        if not 0 <= low <= high:
            raise InvalidScaling(f"a group cannot have {low} to {high} members: choose 0 <= low <= high")
        for name, value in {"target_s": target_s, "start_s": start_s, "idle_s": idle_s, "down_s": down_s}.items():
            if not (0 <= value < math.inf and (value or name != "target_s")):
                raise InvalidScaling(f"{name} cannot be {value}: choose seconds above 0")
        self.low, self.high = low, high
        self.target_s, self.start_s, self.idle_s, self.down_s = target_s, start_s, idle_s, down_s
        self._rates = Rates()
        self._size: int | None = None
        self._looked_s = -math.inf
        self._grew_s = -math.inf
        self._grows = False
        """The caller has not added all members yet."""
        self._idle_from_s: float | None = None
        self._above_from_s: float | None = None
        self._shrank_s = -math.inf
        self._needed: deque[tuple[float, int]] = deque()
        """Members that were needed in the last ``down_s``, and when; not fewer than were needed later."""

    @property
    def rate(self) -> float | None:
        """Records per second that one member reads; None until that was measured."""
        return self._rates.one

    def look(self, now_s: float, rows: Sequence[PartitionLag], members: int) -> int:
        """Return how many members there should be now.

        ``now_s``: of any clock, but of the same at each look. ``members``: that run or are being started.
        """
        if self._size is None:
            self._size = members
        elif not 0 <= now_s - self._looked_s <= _GAP_S:
            self._start_anew(now_s)
        if self._grows and members >= self._size:
            self._grew_s, self._grows = now_s, False
        self._looked_s = now_s
        all_read = not self._grows and now_s - self._grew_s >= self.start_s
        rows = self._rates.resolved(rows)
        self._rates.look(now_s, rows, members, smooth_s=_SMOOTH * self.target_s, all_read=all_read)
        self._size = self._bounded(self._decide(now_s, rows, self._bounded(self._size)))
        return self._size

    def _bounded(self, size: int) -> int:
        return max(self.low, min(size, self.high))

    def _start_anew(self, now_s: float) -> None:
        self._rates.start_anew()
        self._grew_s = now_s
        self._idle_from_s = self._above_from_s = None
        self._needed.clear()

    def _decide(self, now_s: float, rows: Sequence[PartitionLag], size: int) -> int:
        unread = any(row.is_unread for row in rows)
        if any(row.end is None for row in rows):
            return max(size, unread)
        if unread or self._rates.arrives:
            self._idle_from_s = None
        elif self._idle_from_s is None:
            self._idle_from_s = now_s
        if self._idle_from_s is not None and now_s - self._idle_from_s >= self.idle_s:
            self._above_from_s = None
            self._needed.clear()
            return self.low
        if size == 0:
            return self._grown(now_s, 1) if unread else 0
        need = self._need(now_s, rows, size)
        up, enough = self._bounded(need.up), self._enough(now_s, need.down, size)
        if self._should_grow(now_s, up, size, need):
            return self._grown(now_s, up)
        if enough < size and now_s - max(self._grew_s, self._shrank_s) >= self.start_s:
            self._shrank_s, self._grows = now_s, False
            return enough
        return size

    def _need(self, now_s: float, rows: Iterable[PartitionLag], size: int) -> _Need:
        known = [(row, seen) for row in rows if (seen := self._rates.seen.get((row.topic, row.partition))) is not None]
        ages_s = [
            (now_s - seen.unread_s if row.lag_s is None else row.lag_s) if seen.lag else 0.0 for row, seen in known
        ]
        lags = [seen.lag for _, seen in known]
        lagging = sum(lag > 0 for lag in lags)
        is_certain = self.rate is not None and sum(lags) > min(size, lagging) * self.rate * self.target_s
        backlogs = [
            lag if is_certain or age_s > _LATE * self.target_s else 0 for lag, age_s in zip(lags, ages_s, strict=True)
        ]
        backlog = sum(backlogs)
        arrivals = [seen.arrival or 0.0 for _, seen in known]
        late = [each / (_HURRY * self.target_s) for each in backlogs]
        if self.rate is None:
            return _Need(size, size if backlog else size - 1, bool(backlog), is_certain=False)
        spare = (min(size, lagging) * self.rate - sum(arrivals)) * self.start_s
        left = 1.0 - min(max(spare, 0.0) / backlog, 1.0) if backlog else 0.0
        rate = self.rate
        up, down, up_without, down_without = (
            _members(arrivals, late, part, rate, load)
            for part, load in ((left, _LOAD), (1.0, _LOW_LOAD), (0.0, _LOAD), (0.0, _LOW_LOAD))
        )
        return _Need(
            min(up, max(lagging, up_without)), min(down, max(lagging, down_without)), bool(backlog), is_certain
        )

    def _should_grow(self, now_s: float, up: int, size: int, need: _Need) -> bool:
        if up <= size:
            self._above_from_s = None
            return False
        if self._above_from_s is None:
            self._above_from_s = now_s
        if need.is_certain and size == 1:  # it has shown what it does
            return True
        lasts = need.is_late or now_s - self._above_from_s >= _PATIENCE * self.target_s
        return lasts and now_s - self._grew_s >= self.start_s

    def _grown(self, now_s: float, size: int) -> int:
        self._grew_s, self._grows = now_s, True
        self._above_from_s = None
        return size

    def _enough(self, now_s: float, down: int, size: int) -> int:
        """Return the most members that were needed in the last ``down_s``, 1 or more."""
        down = max(self._bounded(down), 1)
        needed = self._needed
        if not needed:
            needed.append((now_s, size))
        while needed and needed[-1][1] <= down:
            needed.pop()
        needed.append((now_s, down))
        while needed[0][0] < now_s - self.down_s:
            needed.popleft()
        return needed[0][1]


def _members(arrivals: Iterable[float], late: Iterable[float], part: float, rate: float, load: float) -> int:
    """Return how many members read what arrives in each partition, and that part of what is late.

    They have that load on average, and the one with the most partitions, if these are spread evenly, a bit more.
    """
    demands = ((arrival + each * part) / rate for arrival, each in zip(arrivals, late, strict=True))
    busy = [min(demand, load) for demand in demands if demand > _ROUNDING]
    if not busy:
        return 0
    for_one = math.floor(len(busy) * (load + _UNEVEN) / sum(busy) + _ROUNDING)
    return max(math.ceil(sum(busy) / load - _ROUNDING), math.ceil(len(busy) / for_one))
