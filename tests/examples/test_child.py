"""Processes of the demo: their lines are read, and they end on request, or are ended."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from examples.demo.child import Child

TALKS = """
import json, signal, sys
print("a library says hello")
print(json.dumps({"type": "progress", "total": 1}), flush=True)
print(json.dumps({"type": "progress", "total": 2}), flush=True)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(print(json.dumps({"type": "done", "total": 3}), flush=True)))
print(json.dumps({"type": "ready"}), flush=True)
signal.pause()
"""
DEAF = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('{"type": "ready"}', flush=True)
while True:
    signal.pause()
"""


LEAVES = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.signal(15, signal.SIG_IGN); signal.pause()"])
print('{"type": "ready", "pid": %d}' % child.pid, flush=True)
child.wait()
"""


STARTS = """
import json, signal, sys
from pathlib import Path
from examples.demo.child import Child
child = Child("it", [sys.executable, "-c", sys.argv[1]], Path(sys.argv[2]))
while child.latest("ready") is None:
    assert child.wait(0.02) is None
print(child._process.pid, flush=True)
signal.pause()
"""

STAYS = """
import json, signal
from examples.demo import member
member.ALONE_S = 1
it = member.Member()
print('{"type": "ready"}', flush=True)
while not it.stopping:
    signal.pause()
print(json.dumps({"type": "done", "ends_in": signal.getitimer(signal.ITIMER_REAL)[0]}), flush=True)
while True:
    signal.pause()
"""
"""A consumer that hangs during shutdown."""


def start(program: str, folder: Path) -> Child:
    child = Child("it", [sys.executable, "-c", program], folder / "it.log")
    while child.latest("ready") is None:
        assert child.wait(0.02) is None, (folder / "it.log").read_text()
    return child


def test_the_last_line_of_each_type_is_kept(tmp_path: Path) -> None:
    child = start(TALKS, tmp_path)
    assert child.latest("progress") == {"type": "progress", "total": 2}
    child.terminate()
    assert child.wait(10) == 0
    assert child.latest("done") == {"type": "done", "total": 3}


def test_one_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    child = start(DEAF, tmp_path)
    child.end(grace_s=0.1)
    assert child.exit_code == -signal.SIGKILL
    child.end()


def test_what_it_leaves_behind_is_killed(tmp_path: Path) -> None:
    child = start(LEAVES, tmp_path)
    ready = child.latest("ready")
    assert ready is not None
    left = psutil.Process(ready["pid"])
    child.end()
    gone, alive = psutil.wait_procs([left], timeout=10)
    assert gone == [left]
    assert not alive


@pytest.mark.parametrize("program", [TALKS, STAYS])
def test_one_ends_when_the_demo_is_killed(program: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTS, program, str(tmp_path / "it.log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        child = psutil.Process(int(demo.stdout.readline()))
        demo.kill()
    gone, _ = psutil.wait_procs([child], timeout=30)
    assert gone


def test_a_consumer_may_take_its_time_while_the_demo_is_there(tmp_path: Path) -> None:
    child = start(STAYS, tmp_path)
    child.terminate()
    while child.latest("done") is None:
        assert child.wait(0.02) is None
    assert child.latest("done") == {"type": "done", "ends_in": 0.0}
    child.end(grace_s=0.1)
