"""Blocking code as coroutines: one fiber at a time runs until it would block.

Each fiber has its own thread, since Python has no other way to suspend a call in the middle. Two of them never run at
the same time: the thread that resumes a fiber waits until it pauses or ends, so the schedule alone sets the order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import ClassVar


class Killed(BaseException):
    """The process of this fiber is dead: unwind."""


class Fiber:
    """A call that can pause. ``resume`` and ``kill`` are for the one thread that runs the schedule."""

    current: ClassVar[Fiber | None] = None
    _idle: ClassVar[list[_Thread]] = []

    def __init__(self, work: Callable[[], None]) -> None:
        self.done = False
        self.killed = False
        self._work = work
        self._thread: _Thread | None = None

    def resume(self) -> None:
        """Run until it pauses or ends."""
        if self.done:
            return
        if Fiber.current is not None:
            raise RuntimeError("a fiber is resumed by the schedule only")
        if self._thread is None:
            self._thread = Fiber._idle.pop() if Fiber._idle else _Thread()
            self._thread.work = self._run
        Fiber.current = self
        try:
            self._thread.switch()
        finally:
            Fiber.current = None
        if self.done:
            Fiber._idle.append(self._thread)
            self._thread = None

    def pause(self) -> None:
        """Inside the fiber: wait for the next ``resume``. Killed."""
        assert Fiber.current is self
        assert self._thread is not None
        if self.killed:
            raise Killed
        self._thread.switch_back()
        if self.killed:
            raise Killed

    def kill(self) -> None:
        """Unwind it now."""
        self.killed = True
        if self._thread is None:
            self.done = True
        while not self.done:
            self.resume()

    def _run(self) -> None:
        try:
            self._work()
        except Killed:
            pass
        finally:
            self.done = True


class _Thread:
    """Runs one fiber after the other."""

    def __init__(self) -> None:
        self.work: Callable[[], None] = lambda: None
        self._go, self._back = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._back.acquire()
        threading.Thread(target=self._serve, name="fiber", daemon=True).start()

    def switch(self) -> None:
        self._go.release()
        self._back.acquire()

    def switch_back(self) -> None:
        self._back.release()
        self._go.acquire()

    def _serve(self) -> None:
        while True:
            self._go.acquire()
            self.work()
            self._back.release()
