"""Divides the time of the event loop: whatever has much to do does it a little at a time, by turns with all others.

A turn is about a millisecond of the loop. While some wait, it is the turn of the one that has had least: each has a
virtual time up to which it has had its share (start-time fair queueing; Goyal, Vin and Cheng, 1996), and one that has
had less than its share does not wait at all. So a client that sends a request now and then is served at once between
those who send many, or large ones, or connect anew for each.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import TypeVar

from muster.actors.wire.kafka.steps import Steps

T = TypeVar("T")

TURN_S = 0.001
"""Time of the event loop that waiting work gets together, before all else that has come is looked at.

Half of it would cost a twentieth of the throughput of a gateway that is saturated.
"""
LATE_S = 0.5
"""How long work in the background may take before it delays clients more."""
_SHORT_S = TURN_S / 4
_AT_ONCE_S = 4 * TURN_S
"""Time of work without a turn, before all else is looked at. A turn for each large Fetch would halve their number."""
_PAUSE_S = 0.002
_ARRIVAL_S = 0.001
"""Cost of accepting a connection and closing it: one that is opened for each request has no advantage."""


def over(began_s: float) -> bool:
    """Whether a turn that began at that time of ``time.perf_counter`` is over."""
    return time.perf_counter() - began_s >= TURN_S


class Turns:
    """Turns of work that waits on one event loop."""

    def __init__(self) -> None:
        self.waiting: list[tuple[float, int, Callable[[], float]]] = []
        """Work that waits, by the virtual time up to which each has had its share, and then by age."""
        self._order = count()
        self._now_s = 0.0
        """The virtual time: that of the one whose turn it was last."""
        self._latest_s = 0.0
        """The latest virtual time of all: when nothing waits any more, all have had the same."""
        self._is_scheduled = False
        self._ended_s = 0.0
        self._at_once_s = 0.0
        """Time of work without waiting since all else was looked at."""

    def arrival(self) -> float:
        """Up to when one that is new has had its share."""
        return self._now_s + _ARRIVAL_S

    def is_due(self, had_s: float) -> bool:
        """Whether one that has had its share up to then need not wait."""
        return not self.waiting or had_s <= self._now_s

    def charged(self, had_s: float, cost_s: float) -> float:
        """Up to when it has had its share after it has taken so long."""
        had_s = max(had_s, self._now_s) + cost_s
        self._latest_s = max(self._latest_s, had_s)
        return had_s

    def queue(self, work: Callable[[], float], had_s: float) -> None:
        """Call it when all have had their turn that have had their share only up to an earlier time; not at once.

        It returns how much of a turn it causes the loop to do later, in a task: from 0 to 1.
        """
        heappush(self.waiting, (max(had_s, self._now_s), next(self._order), work))
        if not self._is_scheduled:
            self._is_scheduled = True
            self._ended_s = time.perf_counter()
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        """One turn; one of them goes ahead at least. What the loop has done since the last turn counts."""
        began_s, later = self._ended_s, 0.0
        while self.waiting:
            self._now_s, _, work = heappop(self.waiting)
            later += work()
            if later >= 1 or over(began_s):
                break
        self._ended_s = time.perf_counter()
        self._is_scheduled = bool(self.waiting)
        if self._is_scheduled:
            asyncio.get_running_loop().call_soon(self._run)
        else:
            self._now_s = self._latest_s

    def now_or_queue(self, work: Callable[[], float]) -> None:
        """Do at once what is usually done in no time, unless others wait or the loop has done much of it just now."""
        if self.waiting or self._at_once_s > _AT_ONCE_S:
            self.queue(work, self.arrival())
            return
        if not self._at_once_s:
            asyncio.get_running_loop().call_soon(self._look_around)
        began_s = time.perf_counter()
        work()
        self._at_once_s += time.perf_counter() - began_s

    def _look_around(self) -> None:
        """All else that has come is looked at now."""
        self._at_once_s = 0.0

    async def turn(self) -> None:
        """Wait for a turn, as one that is new."""
        await self._next(self.arrival())

    async def _next(self, had_s: float) -> None:
        """Wait for a turn."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.queue(partial(_wake, woken), had_s)
        await woken

    async def run(self, steps: Steps[T]) -> T:
        """Return the result of the work. Work that takes less than a turn is done without waiting."""
        had_s = self._now_s

        async def wait() -> None:
            nonlocal had_s
            had_s = self.charged(had_s, TURN_S)
            await self._next(had_s)

        return await _by_turns(steps, wait)


async def in_background(steps: Steps[T]) -> T:
    """Return the result of work that delays clients little, and does not wait for them: short turns with pauses.

    After LATE_S, it has a whole turn each time that the event loop turns.
    """
    late_s = time.perf_counter() + LATE_S

    def is_late() -> bool:
        return time.perf_counter() >= late_s

    async def wait() -> None:
        await asyncio.sleep(0 if is_late() else _PAUSE_S)

    return await _by_turns(steps, wait, lambda: TURN_S if is_late() else _SHORT_S)


async def _by_turns(
    steps: Steps[T], wait: Callable[[], Awaitable[None]], turn_s: Callable[[], float] = lambda: TURN_S
) -> T:
    while True:
        ends_s = time.perf_counter() + turn_s()
        try:
            while time.perf_counter() < ends_s:
                next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
        await wait()


def _wake(woken: asyncio.Future[None]) -> float:
    if woken.done():  # given up
        return 0.0
    woken.set_result(None)
    return 1.0
