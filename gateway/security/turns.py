"""Turns for work that takes processor time before a client is known: hashing passwords, checking tokens."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

THREADS = 2
MAX_WAITING = 1024


class TooBusy(Exception):
    """Too much waits already, most of it from the same host."""


class Turns:
    """Runs work in a few threads, one for each host in turn: many logins from one host delay those of others little.

    Used on one event loop.
    """

    def __init__(self, threads: int = THREADS, max_waiting: int = MAX_WAITING) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="sasl")
        self._free = threads
        self._max_waiting = max_waiting
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By host; the first host is the next."""

    async def run(self, host: str, work: Callable[[], T]) -> T:
        """Return the result of ``work``. Raises TooBusy if it has not begun, and will not."""
        await self._turn(host)
        done = asyncio.get_running_loop().run_in_executor(self._threads, work)
        done.add_done_callback(self._ended)
        return await asyncio.shield(done)

    def of(self, host: str) -> TurnsOf:
        return TurnsOf(self, host)

    async def _turn(self, host: str) -> None:
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(host, deque()).append(turn)
        if sum(map(len, self._waiting.values())) > self._max_waiting:
            self._refuse_last_of_longest()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._pass_on()
            elif turn in (of_host := self._waiting.get(host, deque())):
                of_host.remove(turn)
            raise

    def _refuse_last_of_longest(self) -> None:
        host = max(self._waiting, key=lambda each: len(self._waiting[each]))
        turn = self._waiting[host].pop()
        if not turn.done():  # or its login was just cancelled
            turn.set_exception(TooBusy(f"too many logins wait, most of them from {host}"))

    def _ended(self, done: asyncio.Future[T]) -> None:
        if not done.cancelled():
            done.exception()  # retrieved, or asyncio logs it if the client has gone
        self._pass_on()

    def _pass_on(self) -> None:
        """Give the turn to the next host, which then is the last."""
        while self._waiting:
            host = next(iter(self._waiting))
            of_host = self._waiting.pop(host)
            turn = of_host.popleft() if of_host else None
            if of_host:
                self._waiting[host] = of_host
            if turn is not None and not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class TurnsOf:
    """The turns of one host."""

    def __init__(self, turns: Turns, host: str) -> None:
        self._turns = turns
        self._host = host

    async def __call__(self, work: Callable[[], T], /) -> T:
        """See :meth:`Turns.run`."""
        return await self._turns.run(self._host, work)
