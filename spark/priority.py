"""Spark yields to the cluster: its processes run at a lower CPU priority (niceness) than the cluster's actors.

Ray gives all its workers one niceness, and the JVMs of RayDP cannot set their own; so a task on each node sets it for
the application's JVMs there (:mod:`muster.spark.jvms`).
"""

from __future__ import annotations

import os
from pathlib import Path

from muster.spark.jvms import marked

NICENESS = 10
"""Niceness from 0 to 19: at 10, a tenth of the share of a process at 0 that wants the same core."""


def yield_own() -> None:
    """Lower the priority of this process and the children that it starts later (local Spark's JVM, the driver's)."""
    if (own := os.getpriority(os.PRIO_PROCESS, 0)) < NICENESS:
        os.nice(NICENESS - own)


def yield_marked(application: str) -> int:
    """Lower the priority of the application's JVMs on this machine. Returns the number of threads. Linux only: else 0.

    A niceness belongs to a thread and is inherited by the threads that it starts. So the threads are processed until a
    round finds no new one.
    """
    done = 0
    for process in marked(application):
        while fresh := [thread for thread in _threads(process) if _lower(thread)]:
            done += len(fresh)
    return done


def _threads(process: Path) -> list[int]:
    try:
        return [int(entry.name) for entry in (process / "task").iterdir()]
    except OSError:
        return []


def _lower(thread: int) -> bool:
    """Lower the thread's priority. Returns whether it was higher before."""
    try:
        if os.getpriority(os.PRIO_PROCESS, thread) >= NICENESS:
            return False
        os.setpriority(os.PRIO_PROCESS, thread, NICENESS)
    except OSError:
        return False
    return True
