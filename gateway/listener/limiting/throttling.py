"""Measures the time that the event loop spends on a request, and mutes connections."""

from __future__ import annotations

import asyncio
import socket
import time
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

_CLOCK_S = 0.0015
"""A timer may be early by so much: the clock of an event loop counts ms."""
_CLOSED_STATES = (7, 8)
"""TCP_CLOSE and TCP_CLOSE_WAIT of tcp_states.h."""


def monotonic_ms() -> int:
    """Return the clock of quotas."""
    return time.monotonic_ns() // 1_000_000


class BusyTime:
    """The time that the event loop spends on a request: in its handler, without what the handler awaits."""

    __slots__ = ("_began_ns", "_total_ns")

    def __init__(self) -> None:
        self._total_ns = 0
        self._began_ns: int | None = None

    def take_ns(self) -> int:
        """Return the time since the last call."""
        if self._began_ns is not None:
            now_ns = time.perf_counter_ns()
            self._total_ns += now_ns - self._began_ns
            self._began_ns = now_ns
        total_ns, self._total_ns = self._total_ns, 0
        return total_ns

    async def measured(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run it, and count the time of each of its steps. It is not called if this is cancelled before it begins."""
        return await self._steps(work())

    @types.coroutine
    def _steps(self, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        value: Any = None
        error: BaseException | None = None
        while True:
            self._began_ns = time.perf_counter_ns()
            try:
                awaited = work.send(value) if error is None else work.throw(error)
            except StopIteration as done:
                result: T = done.value
                return result
            finally:
                self._total_ns += time.perf_counter_ns() - self._began_ns
                self._began_ns = None
                value = error = None  # the error's traceback has this frame: a cycle
            try:
                value = yield awaited
            except BaseException as thrown:
                error = thrown


class HasSocket(Protocol):
    """A transport."""

    def get_extra_info(self, name: str, default: Any = None, /) -> Any: ...


class Mute:
    """For how long no request of a connection is started. One timer, however often it is extended.

    Until something has come, the connection is still read: so it is noticed when the client closes it.
    """

    __slots__ = ("_on_over", "_timer", "_until_s", "is_on")

    def __init__(self) -> None:
        self.is_on = False
        self._on_over: Callable[[], None] | None = None
        """Only while it lasts: it refers to the connection, which is freed without the garbage collector."""
        self._until_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def extend(self, throttle_ms: int, on_over: Callable[[], None]) -> None:
        """Extend the pause to so long from now on, unless it is longer. ``on_over`` is called when it is over."""
        loop = asyncio.get_running_loop()
        self._on_over = on_over
        self._until_s = max(self._until_s, loop.time() + throttle_ms / 1000)
        if self._timer is None:
            self._timer = loop.call_at(self._until_s, self._check)
            self.is_on = True

    def _check(self) -> None:
        loop = asyncio.get_running_loop()
        if self._until_s - loop.time() > _CLOCK_S:
            self._timer = loop.call_at(self._until_s, self._check)
        else:
            self.lift()

    def lift(self) -> None:
        """End the pause now."""
        on_over = self._on_over
        self.cancel()
        if on_over is not None:
            on_over()

    def cancel(self) -> None:
        """Cancel the pause: the connection is closed."""
        self._on_over = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._until_s, self.is_on = None, 0.0, False


def has_been_closed(transport: HasSocket) -> bool:
    """Whether the client has closed a connection that is not read, where the system can say so."""
    sock = transport.get_extra_info("socket")
    try:
        state: bytes = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
    except (AttributeError, OSError):
        return False
    return state[0] in _CLOSED_STATES
