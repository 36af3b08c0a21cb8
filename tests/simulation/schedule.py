"""Virtual time: which event is next, and when."""

from __future__ import annotations

import heapq
from collections.abc import Callable


class Event:
    """An event that will happen unless it is cancelled."""

    __slots__ = ("do",)

    def __init__(self, do: Callable[[], None]) -> None:
        self.do: Callable[[], None] | None = do

    def cancel(self) -> None:
        self.do = None


class Schedule:
    """Events by time; those of the same millisecond in the order in which they were scheduled."""

    def __init__(self, start_ms: int) -> None:
        self.now_ms = start_ms
        self.steps = 0
        self._order = 0
        self._heap: list[tuple[int, int, Event]] = []

    def after(self, delay_ms: int, do: Callable[[], None]) -> Event:
        return self.at(self.now_ms + delay_ms, do)

    def at(self, time_ms: int, do: Callable[[], None]) -> Event:
        event = Event(do)
        self._order += 1
        heapq.heappush(self._heap, (max(time_ms, self.now_ms), self._order, event))
        return event

    def step(self) -> bool:
        """Execute the next event. False if there is none."""
        while self._heap:
            time_ms, _, event = heapq.heappop(self._heap)
            if event.do is not None:
                self.now_ms = time_ms
                self.steps += 1
                event.do()
                return True
        return False
