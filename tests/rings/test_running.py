"""Rings are run to their ends: what their rows say, what runs beside what, and what ends with the runner."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.rings import running
from tests.rings.ring import ROOT, Ring, load, marked
from tests.rings.running import Runner, run_all
from tests.zookeeper_fixture import eventually


@pytest.fixture(autouse=True)
def _own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "DURATIONS", tmp_path / "durations")
    monkeypatch.setattr(running, "LOGS", tmp_path / "logs")


def commit() -> str:
    return "c" * 12


def ring(name: str, command: str, *, shares: bool = False) -> Ring:
    return Ring(name=name, covers="", paths=(), command=command, shares=shares)


def test_a_command_passes_or_fails(tmp_path: Path) -> None:
    runner = Runner(commit, 7)
    assert runner.run(ring("good", "true"), tmp_path / "log").result == "passed"
    assert runner.run(ring("bad", "sh -c 'exit 3'"), tmp_path / "log").result == "exit status 3"
    runner.run(ring("seeded", "echo {seed}"), tmp_path / "log")
    assert (tmp_path / "log").read_text() == "7\n"


@pytest.mark.timeout(120)
def test_tests_are_counted(tmp_path: Path) -> None:
    test = tmp_path / "test_it.py"
    test.write_text("import pytest\n@pytest.mark.parametrize('n', range(3))\ndef test_it(n): assert n\n")
    command = f"pytest -p tests.stopwatch -c pyproject.toml --rootdir . {test}"
    row = Runner(commit, 0).run(ring("first", command), tmp_path / "log")
    assert (row.tests, row.result) == (3, "1 failed"), (tmp_path / "log").read_text()


def test_two_that_share_run_beside_each_other(tmp_path: Path) -> None:
    """Each waits for what the other does."""
    meet = "sh -c 'touch {0}; while [ ! -e {1} ]; do sleep 0.05; done'"
    first, second = tmp_path / "first", tmp_path / "second"
    rings = [
        ring("a", meet.format(first, second), shares=True),
        ring("b", "true"),
        ring("c", meet.format(second, first), shares=True),
    ]
    ended: list[str] = []
    run_all(Runner(commit, 0), rings, lambda row, log: ended.append(f"{row.ring} {row.result}"))
    assert sorted(ended[:2]) == ["a passed", "c passed"]
    assert ended[2:] == ["b passed"]


def test_a_commit_that_changes_meanwhile_is_not_tested(tmp_path: Path) -> None:
    commits = iter(["a" * 12, "b" * 12, "b" * 12, "b" * 12])
    runner = Runner(lambda: next(commits), 0)
    assert runner.run(ring("first", "true"), tmp_path / "log").commit == "a" * 12 + "-dirty"
    assert runner.run(ring("first", "true"), tmp_path / "log").commit == "b" * 12


def test_what_cannot_be_run_has_failed(tmp_path: Path) -> None:
    row = Runner(commit, 0).run(ring("first", "no-such-program"), tmp_path / "log")
    assert row.result == "FileNotFoundError: [Errno 2] No such file or directory: 'no-such-program'"


@pytest.fixture
def heeds_interrupts() -> Iterator[None]:
    """Have what is started heed SIGINT, which a shell has its jobs in the background ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_interrupts")
def test_a_ring_that_does_not_end_is_ended(tmp_path: Path) -> None:
    runner = Runner(commit, 0, until_s=time.time() + 0.5)
    assert runner.run(ring("long", "sleep 600"), tmp_path / "log").result == "not ended within 0 s"


def test_rings_end_with_their_runner(tmp_path: Path) -> None:
    """Interrupted, they end what they have started."""
    command = "pytest -n 2 -c pyproject.toml --rootdir . {}"
    rings = []
    for name in ("a", "b"):
        test = tmp_path / f"test_{name}.py"
        test.write_text(_TEST.format(started=str(tmp_path / f"{name}-started"), ended=str(tmp_path / f"{name}-ended")))
        rings.append(command.format(test))
    script = [sys.executable, "-c", _RUNS.format(folder=str(tmp_path), commands=rings)]
    ignoring_interrupts = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *script]  # as a shell's job in the background
    runner = subprocess.Popen(ignoring_interrupts, cwd=ROOT)
    for name in ("a", "b"):
        eventually((tmp_path / f"{name}-started").exists, "the test has begun", within_s=60)
    processes = psutil.Process(runner.pid).children(recursive=True)
    runner.terminate()
    assert runner.wait(60) != 0
    assert (tmp_path / "a-ended").exists()
    assert (tmp_path / "b-ended").exists()
    assert psutil.wait_procs(processes, timeout=30)[1] == []


_TEST = """
from pathlib import Path
import pytest, threading

@pytest.fixture
def thing():
    Path({started!r}).touch()
    yield
    Path({ended!r}).touch()

def test_it(thing):
    threading.Event().wait(600)
"""
_RUNS = """
from pathlib import Path
from tests.rings import __main__ as main, running
from tests.rings.ring import Ring
running.DURATIONS = running.LOGS = Path({folder!r}, "build")
main.Checkout.commit = lambda checkout: "c" * 12
with main._runner() as (runner, _):
    rings = [Ring(name="first", covers="", paths=(), command=command, shares=True) for command in {commands!r}]
    running.run_all(runner, rings, print)
"""


def test_rings_of_the_table_have_command_lines() -> None:
    rings = load()
    assert marked("first") == "not ring or ring(name='first')"
    assert " ".join(rings["plugin"].arguments(0)).endswith("--dist loadgroup --no-loadscope-reorder -n 2 tests/plugin")
    assert "--dist" not in rings["nodes"].arguments(0)
    assert "SEED=12" in rings["fuzz"].arguments(12)
