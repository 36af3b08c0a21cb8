"""A process of the simulated world: it has a clock, an event loop and threads, and can be stopped and killed."""

from __future__ import annotations

import asyncio
import contextvars
import math
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, ClassVar

from tests.simulation.planted.broken import Broken
from tests.simulation.processes.fibers import Fiber, Killed
from tests.simulation.schedule import Event, Schedule


class Machine:
    """Shared by all processes of a world: virtual time, random choices, and the violations found."""

    def __init__(self, schedule: Schedule, chance: random.Random, note: Callable[..., None]) -> None:
        self.schedule = schedule
        self.chance = chance
        self.note = note
        self.broken: Broken | None = None
        self.processes: list[Process] = []

    def found(self, broken: Broken) -> None:
        """Report an invariant that does not hold.

        Kept here, since product code may catch an exception raised inside it.
        """
        self.broken = self.broken or broken

    def close(self) -> None:
        """End every process and release its resources."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.loop.dispose()


class Process:
    """Everything in it runs in events of the schedule: none while it is stopped, none after it was killed."""

    current: ClassVar[Process | None] = None

    def __init__(self, machine: Machine, name: str) -> None:
        self.machine = machine
        self.name = name
        self.alive = True
        self.loop = ProcessLoop(self)  # type: ignore[abstract]
        self.skew_ms = machine.chance.randint(-300, 300)
        self.at_end: list[Callable[[], None]] = []
        """Called when it is killed: the kernel's part in the end of a process."""
        self.disturbed_until_ms = 0
        """Until when it was stopped last."""
        self._stopped_until_ms = 0
        self._fibers: list[Fiber] = []
        machine.processes.append(self)

    @property
    def now_ms(self) -> int:
        """The time on its host's clock."""
        return self.machine.schedule.now_ms + self.skew_ms

    @property
    def is_stopped(self) -> bool:
        return self.machine.schedule.now_ms < self._stopped_until_ms

    def stop(self, ms: int) -> None:
        """SIGSTOP, and SIGCONT after that time."""
        self._stopped_until_ms = max(self._stopped_until_ms, self.machine.schedule.now_ms + ms)
        self.disturbed_until_ms = max(self.disturbed_until_ms, self._stopped_until_ms)

    def go_on(self) -> None:
        """SIGCONT now; events that are already deferred stay deferred."""
        self._stopped_until_ms = 0

    def kill(self) -> None:
        """SIGKILL."""
        if not self.alive:
            return
        self.alive = False
        for fiber in self._fibers:
            fiber.kill()
        self._fibers.clear()
        for end in self.at_end:
            end()

    def after(self, ms: float, do: Callable[[], object]) -> Event:
        """Schedule it in this process."""
        return self.machine.schedule.after(max(0, math.ceil(ms - 1e-6)), lambda: self._run(do))

    def _run(self, do: Callable[[], object]) -> None:
        if not self.alive or self.machine.broken is not None:
            return
        if self.is_stopped:
            self.machine.schedule.at(self._stopped_until_ms, lambda: self._run(do))
            return
        before, Process.current = Process.current, self
        asyncio._set_running_loop(self.loop)
        try:
            do()
        except Exception as error:
            self.machine.found(Broken(f"{self.name}: {error!r}", "no_callback_fails"))
        finally:
            asyncio._set_running_loop(None)
            Process.current = before

    def start_thread(self, work: Callable[[], None]) -> None:
        """Start a thread soon."""
        fiber = Fiber(work)
        self._fibers = [each for each in self._fibers if not each.done]
        self._fibers.append(fiber)
        self.after(self.machine.chance.choice([0, 0, 0, 1]), fiber.resume)

    def wake(self, fiber: Fiber) -> None:
        self.after(0, fiber.resume)


class ProcessLoop(asyncio.AbstractEventLoop):
    """asyncio on the schedule: the parts of an event loop that tasks, futures, timers and executors need."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._tasks: list[tuple[asyncio.Task[Any], Coroutine[Any, Any, Any]]] = []

    def time(self) -> float:
        return self._process.machine.schedule.now_ms / 1000

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._process.alive

    def is_closed(self) -> bool:
        return not self._process.alive

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Any = None) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        if len(self._tasks) > 200:
            self._tasks = [each for each in self._tasks if not each[0].done()]
        self._tasks.append((task, coro))
        return task

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._plan(handle, 0)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._plan(handle, (when - self.time()) * 1000)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass

    def _plan(self, handle: Any, ms: float) -> None:
        if self._process.alive:
            self._process.after(ms, lambda: self._call(handle))

    def _call(self, handle: Any) -> None:
        if not handle._cancelled:
            handle._context.run(handle._callback, *handle._args)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Ignore reports of tasks that failed or were destroyed early, at any garbage collection."""

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self.create_future()

        def settle(how: Callable[[Any], None], what: Any) -> None:
            if not future.done():
                how(what)

        def work() -> None:
            try:
                result = func(*args)
            except Exception as error:
                self.call_soon(settle, future.set_exception, error)
            else:
                self.call_soon(settle, future.set_result, result)

        if self._process.alive:
            self._process.start_thread(lambda: contextvars.Context().run(work))
        return future

    def dispose(self) -> None:
        """Close the coroutines that did not finish before the process ended."""
        asyncio._set_running_loop(self)
        while self._tasks:  # closing one may start others
            task, coroutine = self._tasks.pop()
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            for _ in range(50):
                with suppress(Exception, asyncio.CancelledError, Killed):
                    coroutine.close()
                    break
        asyncio._set_running_loop(None)
