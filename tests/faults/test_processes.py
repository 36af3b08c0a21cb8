"""Signals to real processes: held, slowed down, killed, and never left stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

from muster.actors.faults import FaultError, processes
from muster.actors.faults.model import ActorFault, Fault

STOPPED = psutil.STATUS_STOPPED


@pytest.fixture
def process() -> Iterator[psutil.Process]:
    """Yield a process that counts, so that it uses the processor whenever it runs."""
    child = subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"])
    yield psutil.Process(child.pid)
    child.kill()
    child.wait()


def of_actor(action: str, **fields: Any) -> ActorFault:
    fault = Fault(action, actor="log-0", **fields)
    assert isinstance(fault, ActorFault)
    return fault


def until(good: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 20
    while not good():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


def ended(pid: int) -> bool:
    return not psutil.pid_exists(pid)


def test_a_pause_lasts_until_it_is_released(process: psutil.Process) -> None:
    holder = processes.do(of_actor("pause"), process.pid)
    assert process.status() == STOPPED
    assert psutil.Process(holder).ppid() != os.getpid()
    processes.release(holder, process.pid)
    until(lambda: process.status() != STOPPED and ended(holder))


def test_a_pause_holds_against_somebody_who_continues_the_process(process: psutil.Process) -> None:
    holder = processes.do(of_actor("pause"), process.pid)
    os.kill(process.pid, signal.SIGCONT)
    until(lambda: process.status() == STOPPED)
    processes.release(holder, process.pid)


def test_a_pause_begins_though_another_one_that_ends_lets_the_process_run_first(process: psutil.Process) -> None:
    """By then it no longer looks stopped: a process that waits to see it stopped must stop it again."""
    sees = f"from muster.actors.faults import holder; holder._report_stopped({process.pid})"
    done = subprocess.run([sys.executable, "-c", sees], stdout=subprocess.PIPE, timeout=60, check=True)
    assert done.stdout.strip()
    assert process.status() == STOPPED


def test_a_pause_ends_by_itself(process: psutil.Process) -> None:
    holder = processes.do(of_actor("pause", expires_ms=3_000), process.pid)
    assert process.status() == STOPPED
    until(lambda: process.status() != STOPPED and ended(holder))


def test_a_slow_process_gets_its_share(process: psutil.Process) -> None:
    """A tenth of the time; half would show that nothing stops it."""
    holder = processes.do(of_actor("slow", speed=0.1), process.pid)
    before_s, started_s = process.cpu_times().user, time.monotonic()
    until(lambda: time.monotonic() - started_s > 1)
    share = (process.cpu_times().user - before_s) / (time.monotonic() - started_s)
    processes.release(holder, process.pid)
    assert share < 0.5
    until(lambda: process.status() != STOPPED)


def test_the_holder_ends_with_the_process(process: psutil.Process) -> None:
    holder = processes.do(of_actor("pause"), process.pid)
    process.kill()
    until(lambda: ended(holder))


def test_kill_and_continue(process: psutil.Process) -> None:
    process.suspend()
    assert processes.do(of_actor("continue"), process.pid) == 0
    until(lambda: process.status() != STOPPED)
    processes.do(of_actor("kill"), process.pid)
    until(lambda: process.status() == psutil.STATUS_ZOMBIE)


def test_a_process_that_is_gone() -> None:
    child = subprocess.Popen([sys.executable, "-S", "-c", ""])
    child.wait()
    for action in ("kill", "continue", "pause"):
        with pytest.raises(FaultError, match=str(child.pid)):
            processes.do(of_actor(action), child.pid)
    processes.release(child.pid, child.pid)
