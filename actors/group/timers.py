"""Named timers. Postponing a deadline, as every heartbeat does, costs O(1): the timer is requeued when it is due."""

from __future__ import annotations

from collections.abc import Generator, Hashable
from enum import IntEnum
from heapq import heapify, heappop, heappush
from typing import Generic, NamedTuple, TypeVar

_FEW = 64
"""A number of outdated entries that is not worth the work."""


class TimerKind(IntEnum):
    SESSION = 0
    """A member's session; for a new member, its first join."""
    PENDING = 1
    """A member id that was handed out waits for its second JoinGroup."""
    JOIN = 2
    """The join phase, or the initial delay, ends."""
    SYNC = 3
    """Members of the generation must have sent SyncGroup."""
    SIMPLE = 4
    """A consumer without membership has not been seen for a while."""
    EXPIRY = 5
    """Check all groups for expired offsets."""
    STUCK = 6
    """A phase of a rebalance takes long."""
    REVOCATION = 7
    """A member of a consumer group has to give up partitions."""
    CLASSIC_JOIN = 8
    """A classic member of a consumer group has to join again."""
    CLASSIC_SYNC = 9
    """A classic member of a consumer group has joined and has to send SyncGroup."""


class TimerName(NamedTuple):
    kind: TimerKind
    group: str = ""
    member: str = ""


Name = TypeVar("Name", bound=Hashable)


class Timers(Generic[Name]):
    """Deadlines by name. A replaced or cancelled timer never fires.

    An entry is (deadline in ms, order of setting). The heap may hold outdated entries of a name. The entry in
    ``_armed`` is the valid one; the entry in ``_queued`` represents it in the heap, at its deadline or earlier. When
    most entries are outdated the heap is rebuilt, which costs O(1) for each of them.
    """

    def __init__(self) -> None:
        self._armed: dict[Name, tuple[int, int]] = {}
        self._queued: dict[Name, tuple[int, int]] = {}
        self._heap: list[tuple[int, int, Name]] = []
        self._order = 0

    def set(self, name: Name, deadline_ms: int) -> None:
        self._order += 1
        self._armed[name] = (deadline_ms, self._order)
        queued = self._queued.get(name)
        if queued is None or deadline_ms < queued[0]:
            self._queue(name)

    def cancel(self, name: Name) -> None:
        self._armed.pop(name, None)

    def clear(self) -> None:
        self._armed.clear()
        self._queued.clear()
        self._heap.clear()

    def get(self, name: Name) -> int | None:
        """Deadline of that timer in ms; None if it is not set."""
        armed = self._armed.get(name)
        return armed[0] if armed else None

    def next_ms(self) -> int | None:
        """When to call ``due``: not later than the earliest deadline; None without timers.

        It may be earlier if a deadline was postponed; ``due`` then returns nothing, and the next call comes later.
        """
        while self._heap:
            deadline_ms, order, name = self._heap[0]
            if name in self._armed and self._queued.get(name) == (deadline_ms, order):
                return deadline_ms
            self._discard()
        return None

    def due(self, now_ms: int) -> Generator[Name]:
        """Take out the timers that are due, one by one, earliest first.

        A timer that is set while the caller handles another one fires in the next call at the earliest: a
        timer that re-arms itself without delay cannot keep the caller forever. Close it to leave the rest due.
        """
        last = self._order
        later: list[tuple[int, int, Name]] = []
        try:
            while (entry := self._take(now_ms)) is not None:
                if entry[1] > last:
                    later.append(entry)
                else:
                    del self._queued[entry[2]], self._armed[entry[2]]
                    yield entry[2]
        finally:
            for entry in later:
                heappush(self._heap, entry)

    def next_due(self, now_ms: int) -> Name | None:
        """Return the first timer that is due; it stays set."""
        while self._heap and self._heap[0][0] <= now_ms:
            deadline_ms, order, name = self._heap[0]
            if self._armed.get(name) == (deadline_ms, order):
                return name
            self._discard()
        return None

    def _take(self, now_ms: int) -> tuple[int, int, Name] | None:
        return None if self.next_due(now_ms) is None else heappop(self._heap)

    def _discard(self) -> None:
        """Remove the head of the heap; if the timer's deadline was only postponed, requeue it there."""
        deadline_ms, order, name = heappop(self._heap)
        if self._queued.get(name) == (deadline_ms, order):
            del self._queued[name]
            if name in self._armed:
                self._queue(name)

    def _queue(self, name: Name) -> None:
        deadline_ms, order = self._queued[name] = self._armed[name]
        heappush(self._heap, (deadline_ms, order, name))
        if len(self._heap) > 2 * len(self._armed) + _FEW:
            self._compact()

    def _compact(self) -> None:
        self._queued = {name: entry for name, entry in self._queued.items() if name in self._armed}
        self._heap = [(*entry, name) for name, entry in self._queued.items()]
        heapify(self._heap)
