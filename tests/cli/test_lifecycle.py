"""``muster up`` from its start to its end, however it ends: in order, interrupted, or killed."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.cli.conftest import ROOT, Muster, commands

pytestmark = pytest.mark.ring(name="restarts")

START_S = 120
END_S = 45


class Up:
    """A ``muster up --port 0`` in a process of its own."""

    def __init__(self, storage: Path) -> None:
        self.storage = storage
        self.ready_file = storage.with_name("ready.json")
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "muster.gateway.cli.main", "up", "--port", "0"),
                *("--storage", str(storage), "--ready-file", str(self.ready_file)),
            ],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for(self, text: str) -> None:
        """Read stderr until a line matches."""
        assert self.process.stderr
        seen = []
        for line in self.process.stderr:
            seen.append(line)
            if text in line:
                return
        raise AssertionError(f"{text!r} was not said: {seen}")

    def ready_line(self) -> str:
        """Return the one line on stdout. Raises AssertionError with stderr if it never arrives."""
        assert self.process.stdout
        assert self.process.stderr
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        return line

    def started(self) -> list[psutil.Process]:
        return list(psutil.Process(self.process.pid).children(recursive=True))

    def end(self, number: signal.Signals) -> int:
        """Exit code after the signal."""
        self.process.send_signal(number)
        return self.process.wait(END_S)


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    running = Up(tmp_path / "storage")
    yield running
    running.process.kill()
    running.process.wait()


def assert_gone(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=END_S)
    assert not alive


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
@pytest.mark.parametrize("step", ["starting ZooKeeper", "starting Ray", "starting controller"])
def test_a_signal_while_it_starts(up: Up, step: str, number: signal.Signals) -> None:
    up.wait_for(step)
    started = up.started()
    assert up.end(number) == 0
    assert_gone(started)
    assert not (up.storage / "run/cluster.json").exists()
    assert not up.ready_file.exists()


@pytest.mark.timeout(2 * START_S + 3 * END_S)
def test_killed_it_leaves_nothing_and_starts_again_with_its_topics(up: Up, muster: Muster) -> None:
    ready = up.ready_line()
    assert ready.startswith("muster ready bootstrap=127.0.0.1:")
    in_file = json.loads(up.ready_file.read_text())
    said = dict(part.split("=", 1) for part in shlex.split(ready)[2:])
    assert said["bootstrap"] == ",".join(in_file["bootstrap"])
    assert said["logs"] == in_file["logs"]
    assert list(Path(said["logs"]).glob("gateway-*.log"))
    created = muster("topics", "create", "flights", "--partitions", "3", "--storage", str(up.storage))
    assert created.returncode == 0, created.stderr
    state = json.loads((up.storage / "run/cluster.json").read_text())
    assert (up.storage / "run/cluster.json").stat().st_mode & 0o077 == 0
    assert Path(state["ray_token_path"]).stat().st_mode & 0o077 == 0
    started = up.started()
    assert up.end(signal.SIGKILL) == -signal.SIGKILL
    assert_gone(started)
    assert not Path(state["ray_temp_dir"]).exists()

    again = Up(up.storage)
    try:
        assert again.ready_line().startswith("muster ready")
        listed = muster("topics", "list", "--json", "--storage", str(up.storage))
        assert {"name": "flights", "partitions": 3, "internal": False} in json.loads(listed.stdout)
        started = again.started()
        stopped = muster("down", "--storage", str(up.storage))
        assert stopped.returncode == 0, stopped.stderr
        assert again.process.wait(END_S) == 0
        assert_gone(started)
        assert sorted(path.name for path in (up.storage / "run").iterdir() if path.is_file()) == ["lock", "reserve"]
    finally:
        again.process.kill()
        again.process.wait()


def test_a_second_signal_ends_at_once(up: Up) -> None:
    up.wait_for("starting controller")
    started = up.started()
    up.process.send_signal(signal.SIGINT)
    up.wait_for("stopping")
    assert up.end(signal.SIGINT) in (0, 128 + signal.SIGINT)
    assert_gone(started)


@pytest.mark.parametrize("name", ["raylet", "gcs_server"])
def test_a_ray_of_its_own_that_is_lost_ends_it(tmp_path: Path, name: str) -> None:
    """Also in the background, where a driver of Ray takes a lost raylet for its own end."""
    run, log = tmp_path / "storage/run", tmp_path / "log"
    options = ("--port", "0", "--storage", str(tmp_path / "storage"), "--detach", str(log))
    started = commands(tmp_path, START_S)("up", *options)
    assert started.returncode == 0, started.stderr
    up = psutil.Process(json.loads((run / "cluster.json").read_text())["pid"])
    family = [up, *up.children(recursive=True)]
    next(process for process in family if process.name() == name).kill()
    assert_gone(family)
    assert log.read_text().splitlines()[-1].startswith(f"muster: {name} ended by itself; see the logs in ")
    assert sorted(path.name for path in run.iterdir() if path.is_file()) == ["lock", "reserve"]
