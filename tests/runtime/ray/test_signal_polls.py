"""A worker's main thread no longer wakes to look for signals, wakes for anything else, and SIGTERM ends the process."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

WORKER = """
import asyncio, ctypes, os, select, sys, threading
from muster.actors.runtime.ray.light_worker import end_signal_polls

libc, spec = ctypes.CDLL(None), ctypes.c_long * 4
timer, calls, poll = libc.timerfd_create(1, 0), os.eventfd(0), select.epoll()
poll.register(timer, select.EPOLLIN)
poll.register(calls, select.EPOLLIN)
period_ms, wakes = int(sys.argv[1]), 0

def actor():
    ended = asyncio.run(end_signal_polls())
    before = wakes
    threading.Event().wait(0.2)
    print(ended, wakes - before > 0, flush=True)
    os.eventfd_write(calls, 1)

threading.Thread(target=actor, daemon=True).start()
while True:
    libc.timerfd_settime(timer, 0, spec(0, 0, 0, period_ms * 1_000_000), None)
    if any(fd == calls for fd, _ in poll.poll()):
        print("called", flush=True)
        os.eventfd_read(calls)
        select.select([], [], [])
    wakes += 1
"""


@pytest.mark.parametrize(
    ("period_ms", "ended"), [(10, "True False"), (50, "False True")], ids=["Ray's", "another timer"]
)
def test_main_thread_sleeps_until_it_is_called(period_ms: int, ended: str) -> None:
    command = [sys.executable, "-c", WORKER, str(period_ms)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().strip() == ended
            assert process.stdout.readline().strip() == "called"
        finally:
            process.send_signal(signal.SIGTERM)
    assert process.returncode == -signal.SIGTERM
