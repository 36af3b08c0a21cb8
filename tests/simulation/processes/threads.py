"""Replacements for the modules threading, time and queue in product code: the same on virtual time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tests.simulation.processes.fibers import Fiber
from tests.simulation.processes.process import Machine, Process


def here() -> Process:
    """Return the process that is running now."""
    assert Process.current is not None
    return Process.current


class Signal:
    """Wait for a wake-up or a timeout."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Process, Fiber, list[bool]]] = []

    def wait(self, timeout_s: float | None = None) -> bool:
        """Whether the wake-up came in time."""
        process, fiber = here(), Fiber.current
        if fiber is None:
            raise RuntimeError("an event loop blocks")
        state: list[bool] = []
        self._waiting.append((process, fiber, state))
        if timeout_s is not None:
            process.after(timeout_s * 1000, lambda: self._end(process, fiber, state, False))
        fiber.pause()
        self._waiting = [each for each in self._waiting if each[2] is not state]
        return state[0]

    def wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for process, fiber, state in waiting:
            if not state:
                state.append(True)
                process.wake(fiber)

    @staticmethod
    def _end(process: Process, fiber: Fiber, state: list[bool], woken: bool) -> None:
        if not state:
            state.append(woken)
            fiber.resume()


class Condition:
    def __init__(self) -> None:
        self._signal = Signal()

    def __enter__(self) -> bool:
        return True

    def __exit__(self, *exc: object) -> None:
        pass

    def wait(self, timeout: float | None = None) -> bool:
        return self._signal.wait(timeout)

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        schedule = here().machine.schedule
        until_ms = None if timeout is None else schedule.now_ms + timeout * 1000
        while not (result := predicate()):
            left_s = None if until_ms is None else (until_ms - schedule.now_ms) / 1000
            if left_s is not None and left_s <= 0:
                break
            self._signal.wait(left_s)
        return result

    def notify_all(self) -> None:
        self._signal.wake()


class Flag:
    """threading.Event."""

    def __init__(self) -> None:
        self._set = False
        self._changed = Condition()

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        self._changed.notify_all()

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        return bool(self._changed.wait_for(lambda: self._set, timeout))


class Thread:
    def __init__(self, *, target: Callable[[], None], name: str = "", daemon: bool = False) -> None:
        self._target = target
        self._ended = Flag()

    def start(self) -> None:
        here().start_thread(self._run)

    def _run(self) -> None:
        try:
            self._target()
        finally:
            self._ended.set()

    def join(self, timeout: float | None = None) -> None:
        self._ended.wait(timeout)


class SimpleQueue:
    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._changed = Condition()

    def put(self, item: Any) -> None:
        self._items.append(item)
        self._changed.notify_all()

    def get(self, timeout: float | None = None) -> Any:
        if not self._changed.wait_for(lambda: self._items, timeout):
            raise Empty
        return self._items.popleft()

    def empty(self) -> bool:
        return not self._items

    def qsize(self) -> int:
        return len(self._items)


class Empty(Exception):
    """queue.Empty."""


THREADING = SimpleNamespace(Condition=Condition, Event=Flag, Thread=Thread, Lock=threading.Lock)
QUEUE = SimpleNamespace(SimpleQueue=SimpleQueue, Empty=Empty)


def time_of(machine: Machine) -> SimpleNamespace:
    """Return the module ``time``; the clock of a host is available only to a process on that host."""

    def monotonic() -> float:
        return machine.schedule.now_ms / 1000

    def sleep(seconds: float) -> None:
        Signal().wait(seconds)

    return SimpleNamespace(monotonic=monotonic, sleep=sleep, perf_counter=monotonic, time=monotonic)
