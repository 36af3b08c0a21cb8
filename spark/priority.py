"""Spark yields to who serves: its processes run at a lower CPU priority (niceness) than the actors of the cluster.

Ray gives all its workers one niceness, and the JVMs of RayDP cannot set their own; so a task on each node does it for
those JVMs there that carry the application's mark in their command line.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

NICENESS = 10
"""Of 0 to 19: at 10, a tenth of the share of a process at 0 that wants the same core."""

_MARK = "-Dmuster.spark.application="
_PROC = Path("/proc")


def mark(application: str) -> str:
    """The JVM option by which the application's processes are known."""
    return _MARK + application


def yield_own() -> None:
    """This process and the children that it starts from now on (local Spark's JVM, the driver's)."""
    if (own := os.getpriority(os.PRIO_PROCESS, 0)) < NICENESS:
        os.nice(NICENESS - own)


def yield_marked(application: str) -> int:
    """The JVMs of that application on this machine; how many threads it was done for. Linux only: 0 elsewhere.

    A niceness belongs to a thread and goes on to the threads that it starts. So the threads are gone through until
    a round finds none that is new.
    """
    done = 0
    for process in _marked(application):
        while fresh := [thread for thread in _threads(process) if _lower(thread)]:
            done += len(fresh)
    return done


def _marked(application: str) -> Iterator[Path]:
    wanted = mark(application).encode()
    for process in _PROC.glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it has ended, or is another user's
            continue
        if wanted in arguments:
            yield process


def _threads(process: Path) -> list[int]:
    try:
        return [int(entry.name) for entry in (process / "task").iterdir()]
    except OSError:
        return []


def _lower(thread: int) -> bool:
    """Whether its priority was higher and is not any more."""
    try:
        if os.getpriority(os.PRIO_PROCESS, thread) >= NICENESS:
            return False
        os.setpriority(os.PRIO_PROCESS, thread, NICENESS)
    except OSError:
        return False
    return True
