"""Divides the time of the event loop: whatever has much to do does it a little at a time, by turns with all others.

A turn is about a millisecond of the loop. What has come for the first time does not wait for a turn: so a client that
sends one request at a time is served between those of others who send many, or large ones.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from muster.actors.wire.steps.reading import Steps

T = TypeVar("T")

TURN_S = 0.001
"""What waits gets so much of the event loop together, before all else that has come is looked at. Half of it would cost
a twentieth of the throughput of a gateway that is saturated."""


def over(began_s: float) -> bool:
    """Whether a turn that began at that time of ``time.perf_counter`` is over."""
    return time.perf_counter() - began_s >= TURN_S


class Turns:
    """Those that wait for their turn on one event loop."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], float]] = deque()
        self._is_scheduled = False
        self._ended_s = 0.0

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self._waiting)

    def queue(self, work: Callable[[], float]) -> None:
        """Call it when all that wait now have had their turn; not at once.

        It returns how much of a turn it causes the loop to do later, in a task: from 0 to 1.
        """
        self._waiting.append(work)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._ended_s = time.perf_counter()
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        """One turn; one of them goes ahead at least. What the loop has done since the last turn counts."""
        began_s, later = self._ended_s, 0.0
        while self._waiting:
            later += self._waiting.popleft()()
            if later >= 1 or over(began_s):
                break
        self._ended_s = time.perf_counter()
        self._is_scheduled = bool(self._waiting)
        if self._is_scheduled:
            asyncio.get_running_loop().call_soon(self._run)

    async def next(self) -> None:
        """Wait for a turn."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.queue(partial(_wake, woken))
        await woken

    async def run(self, steps: Steps[T]) -> T:
        """The result of the work. What takes less than a turn is done without waiting."""
        while True:
            began_s = time.perf_counter()
            try:
                while not over(began_s):
                    next(steps)
            except StopIteration as done:
                result: T = done.value
                return result
            await self.next()


def _wake(woken: asyncio.Future[None]) -> float:
    if woken.done():  # given up
        return 0.0
    woken.set_result(None)
    return 1.0
