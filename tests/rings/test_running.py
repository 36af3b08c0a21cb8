"""Rings are run to their ends: what their rows say, what runs beside what, and what ends with the runner."""

from __future__ import annotations

import subprocess
import sys
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


def ring(name: str, command: str, *, shares: bool = False) -> Ring:
    return Ring(name=name, covers="", paths=(), command=command, shares=shares)


def test_a_command_passes_or_fails(tmp_path: Path) -> None:
    runner = Runner("c" * 12, 7)
    assert runner.run(ring("good", "true"), tmp_path / "log").result == "passed"
    assert runner.run(ring("bad", "sh -c 'exit 3'"), tmp_path / "log").result == "exit status 3"
    runner.run(ring("seeded", "echo {seed}"), tmp_path / "log")
    assert (tmp_path / "log").read_text() == "7\n"


@pytest.mark.timeout(120)
def test_tests_are_counted(tmp_path: Path) -> None:
    test = tmp_path / "test_it.py"
    test.write_text("import pytest\n@pytest.mark.parametrize('n', range(3))\ndef test_it(n): assert n\n")
    command = f"pytest -p tests.stopwatch -c pyproject.toml --rootdir . {test}"
    row = Runner("c" * 12, 0).run(ring("first", command), tmp_path / "log")
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
    run_all(Runner("c" * 12, 0), rings, lambda row, log: ended.append(f"{row.ring} {row.result}"))
    assert sorted(ended[:2]) == ["a passed", "c passed"]
    assert ended[2:] == ["b passed"]


def test_a_ring_ends_with_its_runner(tmp_path: Path) -> None:
    """Interrupted, it ends what it has started."""
    started, ended = tmp_path / "started", tmp_path / "ended"
    test = tmp_path / "test_it.py"
    test.write_text(
        "from pathlib import Path\nimport pytest, threading\n"
        f"@pytest.fixture\ndef thing():\n    Path('{started}').touch()\n    yield\n    Path('{ended}').touch()\n"
        "def test_it(thing): threading.Event().wait(600)\n"
    )
    command = [sys.executable, "-c", _RUNS.format(command=f"pytest -n 2 -c pyproject.toml --rootdir . {test}")]
    ignoring_interrupts = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command]  # as a shell's job in the background
    runner = subprocess.Popen(ignoring_interrupts, cwd=ROOT)
    eventually(started.exists, "the test has begun", within_s=60)
    rings = psutil.Process(runner.pid).children(recursive=True)
    runner.terminate()
    assert runner.wait(60) != 0
    assert ended.exists()
    assert psutil.wait_procs(rings, timeout=30)[1] == []


_RUNS = """
from tests.rings.__main__ import _runner
from tests.rings.ring import Ring
with _runner() as (runner, _):
    runner.run(Ring(name="first", covers="", paths=(), command={command!r}))
"""


def test_rings_of_the_table_have_command_lines() -> None:
    rings = load()
    assert marked("first") == "not ring or ring(name='first')"
    assert " ".join(rings["nodes"].arguments(0)).endswith("--dist loadgroup --no-loadscope-reorder -n 2 tests/nodes")
    assert "--dist" not in rings["hosts"].arguments(0)
    assert "SEED=12" in rings["fuzz"].arguments(12)
