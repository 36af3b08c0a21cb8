"""``--detach``: the parent ends when the child serves, or reports why it does not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.cli.conftest import ROOT

END_S = 60
WAITS = "import signal, sys; signal.pause()"


def detached(log: Path, then: str) -> subprocess.Popen[str]:
    """Start a program that continues in the background and runs that body there.

    It accepts Ctrl-C and hang-ups, even if a shell or nohup made the tests ignore them.
    """
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "signal.signal(signal.SIGHUP, signal.SIG_DFL); "
        "from pathlib import Path; from muster.gateway.cli.lifecycle.detach import detach; "
        f"detach(Path({str(log)!r})); {then}"
    )
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_it_goes_on_when_the_parent_has_ended(tmp_path: Path) -> None:
    serve = f"import os; print('a step'); print('muster ready', os.getpid(), os.getsid(0), flush=True); {WAITS}"
    parent = detached(tmp_path / "log", serve)
    said, steps = parent.communicate(timeout=END_S)
    pid, session = map(int, said.removeprefix("muster ready").split())
    child = psutil.Process(pid)
    try:
        assert parent.returncode == 0
        assert steps == "a step\n"
        assert (tmp_path / "log").read_text() == steps + said
        assert session == pid, "the end of the parent's session does not end it"
        open_files = {Path(f"/proc/{pid}/fd/{number}").readlink() for number in (0, 1, 2)}
        assert open_files == {Path(os.devnull), tmp_path / "log"}
    finally:
        child.kill()
        child.wait(END_S)


@pytest.mark.parametrize(
    ("then", "code"),
    [
        ("raise SystemExit(3)", 3),
        ("pass", 1),  # stopped before it served
        ("import os; os.kill(os.getpid(), 9)", 137),
    ],
    ids=["failed", "stopped", "killed"],
)
def test_it_ended_before_it_served(tmp_path: Path, then: str, code: int) -> None:
    assert detached(tmp_path / "log", then).wait(END_S) == code


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_who_stops_the_parent_stops_the_child(tmp_path: Path, number: signal.Signals) -> None:
    """Until it serves: a `timeout`, or an ssh session that ends, leaves no process behind that is still starting."""
    parent = detached(tmp_path / "log", f"print('a step', flush=True); {WAITS}")
    assert parent.stderr
    assert parent.stderr.readline() == "a step\n"
    (child,) = psutil.Process(parent.pid).children()
    parent.send_signal(number)
    assert parent.wait(END_S) == 128 + number
    assert not child.is_running()
