"""Savings on Ray's workers: without pyarrow, and without waking all the time.

The main thread of a worker runs an event loop (Boost.Asio) with one timer: every 10 ms, a constant in Ray, it looks
whether Python has a signal to handle. An idle process takes 0.65% of a core for that, and Muster has nine or more.
The loop sleeps in epoll on a timerfd. Once that is disarmed, nothing arms it again, since the timer that is due stays
first in line. Calls of the actor wake the loop through another file, as before.

What ends with that timer: Python's signal handlers, of which a worker has one, for SIGTERM; the signal's default
replaces it, which ends the process at once, as SIGKILL does, for which all actors are made. And
``ray.actor.exit_actor``, which Muster does not use.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import signal
import sys
from pathlib import Path
from types import ModuleType

from muster.actors.runtime.ray.public_api import public_api_only

_ARROW_SERIALIZATION = "ray._private.arrow_serialization"
_PERIOD_NS = 10_000_000
_ATTEMPTS = 40
_SEEN = 3
"""How often in a row the timer has to be seen within its period, so that it is not one with a longer period."""
_PAUSE_S = 0.023
"""Two periods: by then, a timer that was disarmed while it was handled is armed again."""
_EVENT_POLL, _TIMER = "anon_inode:[eventpoll]", "anon_inode:[timerfd]"
_PROCESS = Path("/proc/self")
_LEFT = re.compile(r"^it_value: \((\d+), (\d+)\)$", re.MULTILINE)


def without_arrow_serialization() -> None:
    """Have Ray not register its serializers of Arrow data in this process.

    Wherever pyarrow is installed, every worker and driver imports it, and numpy with it, to register them. That costs
    0.2 s of processor time and 20 MB. Ray creates its serialization context for the arguments of an actor's
    constructor, so importing the actor's module is the time to prevent it there. Muster's actors pass no Arrow data.
    """
    if public_api_only() or _ARROW_SERIALIZATION in sys.modules:
        return
    nothing = ModuleType(_ARROW_SERIALIZATION)
    nothing.__dict__["_register_custom_datasets_serializers"] = lambda context: None
    sys.modules[_ARROW_SERIALIZATION] = nothing


def without_arrow_serialization_in_worker() -> None:
    """Call :func:`without_arrow_serialization` if this process is a worker of Ray, and not a driver."""
    if public_api_only():
        return
    import ray

    if ray._private.worker.global_worker.mode == ray.WORKER_MODE:
        without_arrow_serialization()


_ending: set[asyncio.Task[bool]] = set()
"""An event loop keeps no task alive."""


def end_signal_polls_soon() -> None:
    """:func:`end_signal_polls`, without waiting for it. For the event loop of an actor."""
    if public_api_only():
        return
    task = asyncio.get_running_loop().create_task(end_signal_polls())
    _ending.add(task)
    task.add_done_callback(_ending.discard)


async def end_signal_polls() -> bool:
    """End them in this process. Returns whether they have ended; where Linux or Ray differ, all stays as it is."""
    seen: list[int] = []
    for _ in range(_ATTEMPTS):
        timer = _poll_timer()
        if timer is None:  # or the main thread is at work
            seen.clear()
        else:
            seen.append(timer)
        if timer is not None and seen[-_SEEN:] == [timer] * _SEEN and _disarm(timer):
            await asyncio.sleep(_PAUSE_S)
            if _left_ns(timer) == 0:
                _set_default_of_sigterm()
                return True
        await asyncio.sleep(_PAUSE_S)
    return False


def _poll_timer() -> int | None:
    """Return the timerfd that wakes the main thread within the period, if that thread sleeps in epoll now."""
    try:
        call = (_PROCESS / "task" / str(os.getpid()) / "syscall").read_text().split()
        poll = int(call[1], 16)
        if _kind(poll) != _EVENT_POLL:
            return None
        watched = (_PROCESS / "fdinfo" / str(poll)).read_text()
        for fd in map(int, re.findall(r"^tfd: +(\d+)", watched, re.MULTILINE)):
            if _kind(fd) == _TIMER and 0 < _left_ns(fd) <= _PERIOD_NS:
                return fd
    except (OSError, IndexError, ValueError):  # "running", or no such file on this system
        pass
    return None


def _kind(fd: int) -> str:
    return str((_PROCESS / "fd" / str(fd)).readlink())


def _left_ns(timer: int) -> int:
    """Nanoseconds until the timer expires, 0 if it is disarmed."""
    found = _LEFT.search((_PROCESS / "fdinfo" / str(timer)).read_text())
    if found is None:
        raise ValueError("no timer")
    return int(found[1]) * 1_000_000_000 + int(found[2])


def _disarm(timer: int) -> bool:
    disarmed = (ctypes.c_long * 4)()  # struct itimerspec: interval and value, seconds and nanoseconds of each
    return bool(ctypes.CDLL(None).timerfd_settime(timer, 0, disarmed, None) == 0)


def _set_default_of_sigterm() -> None:
    """Restore SIGTERM's default like ``signal.signal``, which only the main thread may call."""
    set_handler = ctypes.CDLL(None).signal
    set_handler.argtypes, set_handler.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
    set_handler(signal.SIGTERM, None)
