"""Counts of the calls that steady requests make, by ``sys.setprofile``.

A count is the median of the steps, so what a timer does between them does not matter. The product's clocks stand still
while a request is served: none of its limits of time depends on how busy the machine is. Standard library code that
hands work to threads is left out: what it does depends on which thread is first. Code inlined in C (uvloop, kio's
dependencies) makes no calls that could be counted.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import sys
import sysconfig
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import thread as pool
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType, SimpleNamespace
from typing import Any, NamedTuple

from benchmarks.path.requests import Burst, Steps
from benchmarks.path.world import checked

ROOT = Path(__file__).parents[2]
WARM_UP_STEPS, COUNTED_STEPS = 25, 9
_QUIET_S = 0.002
_STEP_S = 0.001
"""Time that passes between two steps on the product's clocks."""
_STANDARD = "(standard library)"
_LIBRARIES = {
    sysconfig.get_path("purelib"): "",
    sysconfig.get_path("platlib"): "",
    sysconfig.get_path("stdlib"): f"{_STANDARD}/",
}
"""Folders of libraries, and how the paths of their files begin here; the first that fits."""
_THREADING = (threading.__file__, str(Path(pool.__file__).parent), sysconfig.get_path("stdlib") + "/queue.py")
_DEFAULT_POOLS = ("ThreadPoolExecutor", "asyncio", "uvloop")
"""Beginnings of the names of threads in default executors."""
_RUN, _SUBMIT = pool._WorkItem.run.__code__, ThreadPoolExecutor.submit.__code__
_OWN = str(Path(__file__).parent)
_PRODUCT = ("actors/", "gateway/", "placement/")


class Function(NamedTuple):
    file: str
    """Relative to the checkout, or to the folder of the libraries: see :func:`relative`."""
    name: str

    @property
    def is_product(self) -> bool:
        return self.file.startswith(_PRODUCT)

    @property
    def library(self) -> str:
        """Name of the package."""
        return self.file.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Counts:
    """Medians of the counted steps."""

    requests: int
    """Requests of a step."""
    calls: dict[Function, int] = field(default_factory=dict)
    """Calls of functions in Python, in the order in which they are entered; each resumption of a generator is one."""
    c_calls: int = 0

    @property
    def functions(self) -> list[Function]:
        """Functions of the product."""
        return [each for each in self.calls if each.is_product]

    @property
    def files(self) -> list[str]:
        """Files of the product."""
        return list(dict.fromkeys(each.file for each in self.functions))

    @property
    def python_calls(self) -> int:
        return sum(self.calls.values())


class Counter:
    """Counts while it is on, in the event loop's thread and in those of the product's pools that start later.

    Threads of the default executor are left out: they load and write tables whenever that is due.
    """

    def __init__(self) -> None:
        self.calls: dict[CodeType, int] = {}
        self.c_calls: dict[CodeType, int] = {}
        self._running = 0
        """Work of the product's pools."""
        self._pools: set[ThreadPoolExecutor] = set()
        threading.setprofile(self._begin)

    def _begin(self, frame: FrameType, event: str, argument: Any) -> None:
        """Decide about a thread at the first function that says what it is."""
        if frame.f_code is pool._worker.__code__:
            is_default = threading.current_thread().name.startswith(_DEFAULT_POOLS)
            sys.setprofile(None if is_default else self._hook)
        elif frame.f_code.co_filename != threading.__file__:
            sys.setprofile(None)

    def _hook(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            self.calls[frame.f_code] = self.calls.get(frame.f_code, 0) + 1
            if frame.f_code is _RUN:
                self._running += 1
            elif frame.f_code is _SUBMIT:
                self._pools.add(frame.f_locals["self"])
        elif event == "return":
            self._running -= frame.f_code is _RUN
        elif event == "c_call":
            self.c_calls[frame.f_code] = self.c_calls.get(frame.f_code, 0) + 1

    @property
    def events(self) -> int:
        """Return the number of calls since it is on, without the benchmark's own."""
        each = (*self.calls.items(), *self.c_calls.items())
        return sum(number for code, number in each if not code.co_filename.startswith(_OWN))

    @property
    def is_busy(self) -> bool:
        """Whether a pool works: it may wait for the disk, and call nothing."""
        pools = (pool for pool in self._pools if not str(pool._thread_name_prefix).startswith(_DEFAULT_POOLS))
        return self._running > 0 or not all(pool._work_queue.empty() for pool in pools)

    def on(self) -> None:
        self.calls, self.c_calls = {}, {}
        sys.setprofile(self._hook)

    def off(self) -> tuple[dict[CodeType, int], dict[CodeType, int]]:
        """Return the calls of Python functions, and of C functions by their callers, since it is on."""
        sys.setprofile(None)
        found = self.calls, self.c_calls
        self.calls, self.c_calls = {}, {}
        return found

    def close(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)


async def count(steps: Steps, counter: Counter) -> Counts:
    """Count steady steps, after others that fill the caches."""
    # In a task of its own: each time that it goes on, so do the coroutines that wait for it, which may be anybody's.
    return await asyncio.create_task(_count(steps, counter))


async def _count(steps: Steps, counter: Counter) -> Counts:
    found: list[tuple[dict[CodeType, int], dict[CodeType, int]]] = []
    size = 0
    with _standing_clock() as clock, _no_collection():
        for step in range(WARM_UP_STEPS + COUNTED_STEPS):
            clock.advance()
            for burst in steps(step):
                if burst.is_counted and step >= WARM_UP_STEPS:
                    size = burst.size
                    found.append(await _counted(burst, counter))
                else:
                    await send(burst)
            if step >= WARM_UP_STEPS - 1:
                await _quiet(counter)
    return _medians(size, found)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the garbage collector from calling finalizers of what others have left."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def send(burst: Burst) -> None:
    """Send the burst, and check the responses."""
    for responses in await asyncio.gather(*(client.send(requests) for client, requests in burst.sends)):
        for response in responses:
            checked(burst.api, response)


async def _counted(burst: Burst, counter: Counter) -> tuple[dict[CodeType, int], dict[CodeType, int]]:
    counter.on()
    waiting = [client.send(requests) for client, requests in burst.sends]
    responses = [response for each in waiting for response in await each]
    await _quiet(counter)
    found = counter.off()
    for response in responses:
        checked(burst.api, response)
    return found


async def _quiet(counter: Counter) -> None:
    """Return when nothing works, nor has been called for a while: not all is done before the response."""
    loop, before = asyncio.get_running_loop(), -1
    while before != (before := counter.events) or counter.is_busy:
        future: asyncio.Future[None] = loop.create_future()
        loop.call_later(_QUIET_S, future.set_result, None)
        await future


def _medians(requests: int, steps: list[tuple[dict[CodeType, int], dict[CodeType, int]]]) -> Counts:
    return Counts(requests, _median([calls for calls, _ in steps]), sum(_median([of_c for _, of_c in steps]).values()))


def _median(steps: list[dict[CodeType, int]]) -> dict[Function, int]:
    """Return the medians that are not 0, in the order in which the functions are first entered."""
    by_step = [_by_function(calls) for calls in steps]
    names = dict.fromkeys(function for each in by_step for function in each)
    medians = {name: statistics.median_low(each.get(name, 0) for each in by_step) for name in names}
    return {name: median for name, median in medians.items() if median}


def _by_function(calls: dict[CodeType, int]) -> dict[Function, int]:
    found: dict[Function, int] = {}
    for code, number in calls.items():
        if (function := function_of(code)) is not None:
            found[function] = found.get(function, 0) + number
    return found


def function_of(code: CodeType) -> Function | None:
    """Return None for the benchmark's own functions, and for those of threads."""
    file = code.co_filename
    if file.startswith((_OWN, *_THREADING)):
        return None
    return Function(relative(file), code.co_qualname)


def relative(file: str) -> str:
    """Return the path below the checkout, where ``muster`` links to the folders, or below the libraries."""
    for library, beginning in _LIBRARIES.items():
        if file.startswith(library):
            return beginning + file[len(library) + 1 :]
    if file.startswith("<"):  # methods of dataclasses and named tuples; modules that are a part of Python
        return f"{_STANDARD}/{file}"
    return file.removeprefix(f"{ROOT}/").removeprefix("muster/")


class _Clock(SimpleNamespace):
    """In place of the module ``time``."""

    def __init__(self) -> None:
        super().__init__(**{name: value for name, value in vars(time).items() if not name.startswith("_")})
        self._now_s = time.monotonic()
        self.monotonic = self.perf_counter = lambda: self._now_s
        self.monotonic_ns = self.perf_counter_ns = lambda: round(self._now_s * 1e9)

    def advance(self) -> None:
        self._now_s += _STEP_S


@contextmanager
def _standing_clock() -> Iterator[_Clock]:
    """Replace the clock of all of Muster's modules."""
    clock, modules = _Clock(), list(_with_clock())
    for module in modules:
        module.time = clock
    try:
        yield clock
    finally:
        for module in modules:
            module.time = time


def _with_clock() -> Iterable[Any]:
    for name, module in list(sys.modules.items()):
        if name.startswith("muster.") and getattr(module, "time", None) is time:
            yield module
