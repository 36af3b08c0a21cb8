"""A program that is run for another one ends with it, however that ends; here, not ``muster up`` but a short one."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from tests.ray.programs import ROOT, Program, keepers_of, program, until_gone

_KEEPER = ROOT / "gateway/client/keeper.py"
_UP = """
import json, os, signal, subprocess, sys, time
if "DEAF" in os.environ:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
left = [os.getpid()]
if "LEAVES" in os.environ:  # a process in a session of its own, that writes into the storage until it is killed
    storage = sys.argv[sys.argv.index("--storage") + 1]
    writing = "import os, sys, time\\nwhile True: os.makedirs(sys.argv[1], exist_ok=True); time.sleep(0.001)"
    left.append(subprocess.Popen([sys.executable, "-c", writing, storage + "/x"], start_new_session=True).pid)
if "FAILS" in os.environ:
    sys.exit("muster: it cannot start")
file = sys.argv[sys.argv.index("--config") + 1]
notes = {"pids": left, "keeper": os.getppid(), "folder": os.path.dirname(file), "properties": open(file).read()}
notes["mode"] = os.stat(file).st_mode & 0o777
print("this is not for the program's own output", flush=True)
print("muster ready bootstrap=127.0.0.1:1 metrics=http://127.0.0.1:2/metrics", json.dumps(notes), file=sys.stderr)
with open(os.environ["NOTES"], "w") as file:
    json.dump(notes, file)
print("muster ready bootstrap=127.0.0.1:1,127.0.0.1:3 metrics=http://127.0.0.1:2/metrics", flush=True)
while True:
    signal.pause()
"""
_START = f"""
import os, sys, threading
from muster.gateway.client import process
process.UP = (sys.executable, "-c", {_UP!r})
up = process.MusterUp({{}}, None, {{"a.b": "c=d", "password": "p:1 "}}, os.environ)
ready = up.started(30)
print(ready.bootstrap, *ready.http, flush=True)
"""


class Kept(NamedTuple):
    """Processes and the directory of one that was started."""

    pids: list[int]
    keeper: int
    folder: Path
    properties: str
    mode: int

    @classmethod
    def of(cls, notes: Path) -> Kept:
        found = json.loads(notes.read_text())
        return cls(**{**found, "folder": Path(found["folder"])})

    def until_gone(self) -> None:
        until_gone(*self.pids, self.keeper)
        assert not self.folder.exists()


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # where a keeper that is killed leaves its directory
    return tmp_path / "notes.json"


def started(running: Program, notes: Path) -> Kept:
    assert running.line() == "127.0.0.1:1,127.0.0.1:3 http://127.0.0.1:2"
    return Kept.of(notes)


def test_a_stop_returns_when_the_keeper_has_ended(notes: Path) -> None:
    look = """
import json
keeper = open(f"/proc/{json.load(open(os.environ['NOTES']))['keeper']}/cmdline")
up.stop()
try:
    print(keeper.read() == "", flush=True)
except ProcessLookupError:
    print(True, flush=True)
"""
    with program(_START + "input()\n" + look, NOTES=str(notes)) as running:
        started(running, notes)
        running.go_on()
        assert running.line() == "True"


@pytest.mark.parametrize(
    "end",
    [
        "pass",
        "up.stop()",
        "os._exit(0)",
        "1 / 0",
        "os.kill(os.getpid(), 9)",
        "threading.Thread(target=os._exit, args=[0]).start(); threading.Event().wait()",
        "os.execv('/bin/true', ['true'])",
    ],
)
def test_it_ends_with_the_program(notes: Path, end: str) -> None:
    with program(_START + "input()\n" + end, NOTES=str(notes)) as running:
        kept = started(running, notes)
        assert kept.folder.is_dir()
        assert psutil.Process(kept.pids[0]).is_running()
        running.go_on()
        _, out, err = running.end()
        kept.until_gone()
    assert "not for the program" not in out + err


def test_nothing_of_it_is_in_the_program(notes: Path) -> None:
    """Neither a child, which the program might wait for, nor a thread, nor the group of a Ctrl-C."""
    found = "print(threading.active_count(), flush=True)\ninput()\n"
    with program(_START + found, NOTES=str(notes)) as running:
        kept = started(running, notes)
        assert running.line() == "1"
        assert psutil.Process(running.process.pid).children() == []
        for pid in (kept.keeper, *kept.pids):
            assert os.getsid(pid) != os.getsid(running.process.pid)
            assert os.getpgid(pid) != os.getpgid(running.process.pid)
        assert kept.mode == 0o600
        assert kept.folder.stat().st_mode & 0o777 == 0o700
        assert "c\\=d" in kept.properties


@pytest.mark.parametrize("end", ["os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_a_forked_process_does_not_keep_it(notes: Path, end: str) -> None:
    """It has copies of all pipes."""
    forks = f"""
child = os.fork()
if child == 0:
    os.close(1), os.close(2)
    threading.Event().wait()
print(child, flush=True)
{end}
"""
    with program(_START + forks, NOTES=str(notes)) as running:
        kept = started(running, notes)
        child = psutil.Process(int(running.line()))
        try:
            kept.until_gone()
            assert child.is_running()
        finally:
            child.kill()


def test_a_forked_process_does_not_end_it(notes: Path) -> None:
    """Neither at the end of its copy of the block, nor at its own, nor on request."""
    forks = """
from muster.gateway.client.cluster import Cluster
from muster.gateway.client.errors import NotRunning
with Cluster("127.0.0.1:1", starter=up):
    child = os.fork()
    if child:
        print(os.waitpid(child, 0)[1], flush=True)
        input()
    else:
        try:
            up.stop()
        except NotRunning as error:
            print(error, flush=True)
"""
    with program(_START + forks, NOTES=str(notes)) as running:
        kept = started(running, notes)
        assert running.line() == f"this Muster belongs to the process with pid {running.process.pid}: call stop() there"
        assert running.line() == "0"
        assert psutil.Process(kept.pids[0]).ppid() == kept.keeper
        running.go_on()
        assert running.end() == (0, "", "")
        kept.until_gone()


def test_a_program_that_ends_while_it_starts(notes: Path) -> None:
    with program(_START.replace("ready = up.started(30)", "os._exit(0)"), NOTES=str(notes)) as running:
        running.end()
        until_gone(*keepers_of(running.process.pid))
    if notes.exists():
        Kept.of(notes).until_gone()


def test_what_it_leaves_is_gone_before_the_directory_is_removed(notes: Path) -> None:
    """Else the directory would be made again."""
    with program(_START + "input()", NOTES=str(notes), LEAVES="1") as running:
        kept = started(running, notes)
        os.kill(kept.pids[1], signal.SIGSTOP)
        running.end(signal.SIGKILL)
        until_gone(kept.pids[0])
        assert psutil.Process(kept.pids[1]).ppid() == kept.keeper
        assert kept.folder.is_dir()
        os.kill(kept.pids[1], signal.SIGKILL)
        kept.until_gone()


def test_what_does_not_stop_in_time_is_killed(notes: Path) -> None:
    with program(_START + "input()\nup.stop(0.2)\nprint(up.exit_code)", NOTES=str(notes), DEAF="1") as running:
        kept = started(running, notes)
        running.go_on()
        assert running.line() == "-9"
        kept.until_gone()


def test_a_keeper_that_is_killed_stops_it(notes: Path) -> None:
    with program(_START + "up.wait()\nprint(up.exit_code, flush=True)\nup.stop()", NOTES=str(notes)) as running:
        kept = started(running, notes)
        os.kill(kept.keeper, signal.SIGKILL)
        until_gone(*kept.pids)
        assert running.line() == "None"
        assert running.end() == (0, "", "")


@pytest.mark.parametrize("pid", ["keeper", "up"])
def test_a_sigterm_from_elsewhere_stops_it_in_order(notes: Path, pid: str) -> None:
    with program(_START + "up.wait()\nprint(up.exit_code, flush=True)", NOTES=str(notes)) as running:
        kept = started(running, notes)
        os.kill(kept.keeper if pid == "keeper" else kept.pids[0], signal.SIGTERM)
        assert running.line() == "-15"
        kept.until_gone()


def test_linux_without_pidfd(notes: Path, tmp_path: Path) -> None:
    """The keeper looks for the program's end itself."""
    file = tmp_path / "keeper.py"
    file.write_text(f"import os, runpy\ndel os.pidfd_open\nrunpy.run_path({str(_KEEPER)!r}, run_name='__main__')")
    start = _START.replace("up = ", f"process._KEEPER = {str(file)!r}\nup = ")
    with program(start + "input()", NOTES=str(notes)) as running:
        kept = started(running, notes)
        running.end(signal.SIGKILL)
        kept.until_gone()


def test_one_that_fails_says_why(notes: Path) -> None:
    with program(_START, NOTES=str(notes), FAILS="1") as running:
        code, _, err = running.end()
    assert code == 1
    assert err.endswith(
        "NotStarted: muster up ended with exit code 1; the end of its output:\nmuster: it cannot start\n"
    )


def test_one_that_takes_too_long_is_ended(notes: Path) -> None:
    start = _START.replace("muster ready bootstrap=127.0.0.1:1,", "muster is not ready ").replace("(30)", "(1)")
    with program(start, NOTES=str(notes)) as running:
        code, _, err = running.end()
        assert code == 1
        assert "NotStarted: muster up was not ready after 1 s; give it more time with start_timeout_s" in err
        assert "this is not for the program's own output" in err
        Kept.of(notes).until_gone()
