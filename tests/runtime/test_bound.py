"""Processes end when their parent is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

WAIT_S = 60
STAYS = "import os, signal; {ignore}; print(os.getpid(), os.getpgrp(), flush=True); signal.pause()"
STARTS = "import signal, subprocess; from pytest_muster.bound import bound; {call}; signal.pause()"


@pytest.mark.parametrize(
    ("signals", "ignore"),
    [((), "pass"), ((signal.SIGKILL,), "signal.signal(signal.SIGTERM, signal.SIG_IGN)")],
    ids=["SIGTERM", "SIGKILL"],
)
def test_a_killed_parent_takes_it_along(signals: tuple[signal.Signals, ...], ignore: str) -> None:
    command = [sys.executable, "-c", STAYS.format(ignore=ignore)]
    call = f"subprocess.Popen(bound({command!r}, *{tuple(map(int, signals))}))"
    source = Path(__file__).parents[2] / "pytest-muster" / "src"
    parent = subprocess.Popen(
        [sys.executable, "-c", STARTS.format(call=call)],
        env={**os.environ, "PYTHONPATH": str(source)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert parent.stdout is not None
        pid, group = map(int, parent.stdout.readline().split())
        child = psutil.Process(pid)
        assert group == pid, "a Ctrl-C in the terminal is for the parent alone"
        assert child.ppid() == parent.pid
    finally:
        parent.kill()
        parent.wait()
    _, left = psutil.wait_procs([child], WAIT_S)
    for process in left:
        process.kill()
    assert not left
