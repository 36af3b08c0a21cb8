"""The paths of steady requests: they may not grow unseen. Of counts, not of times."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.path import counts_file
from benchmarks.path.counting import Counts, Function
from benchmarks.path.requests import REQUESTS
from benchmarks.path.sampling import CLIENT, GATEWAY_OUT, LOOP, STAGES, stage_of
from tests.house.test_layers import ROOT

SEEDS = ("1", "2")
"""Seeds of the hashes of strings, which decide the order of sets."""

SHARED = ("actors/audit/", "actors/config/", "actors/runtime/", "actors/tables/", "actors/wire/", "placement/")
"""Folders that serve several stages."""


def start(file: Path, seed: str) -> subprocess.Popen[bytes]:
    """Count in a process of its own: a profiler and its threads are the whole process's."""
    command = [sys.executable, "-m", "benchmarks", "path", "--write", "--counts", str(file)]
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Counts]]:
    """Two runs at once."""
    folder = tmp_path_factory.mktemp("counts")
    running = {folder / seed: start(folder / seed, seed) for seed in SEEDS}
    try:
        assert [process.wait(200) for process in running.values()] == [0, 0]
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    return [counts_file.read(file) for file in running]


def test_no_path_has_grown(counted: list[dict[str, Counts]]) -> None:
    grown = list(counts_file.growth(counts_file.read(), counted[0]))
    assert not grown, "\n\n".join(grown)


def test_two_runs_count_the_same(counted: list[dict[str, Counts]]) -> None:
    """However busy the machine is."""
    assert counted[0].keys() == {request.name for request in REQUESTS}
    assert counted[0] == counted[1]


def test_every_folder_that_is_entered_has_a_stage(counted: list[dict[str, Counts]]) -> None:
    """Each path goes through some of the stages; a folder that moved would have its time given to others."""
    stages = {name: {stage_of(file) for file in each.files} - {None} for name, each in counted[0].items()}
    assert stages["commit"] == {*STAGES} - {GATEWAY_OUT, LOOP}, "the others differ by time, not by file"
    assert CLIENT not in set().union(*stages.values())
    shared = {file for each in counted[0].values() for file in each.files if stage_of(file) is None}
    assert [file for file in shared if not file.startswith(SHARED)] == []


F, G, H = (Function("gateway/a.py", name) for name in "fgh")


def test_growth_names_what_is_new() -> None:
    before = {"produce": Counts(2, {F: 10, G: 10}, 100)}
    assert list(counts_file.growth(before, before)) == []
    assert list(counts_file.growth(before, {"produce": Counts(2, {F: 12, G: 10}, 110)})) == []
    (text,) = counts_file.growth(before, {"produce": Counts(2, {F: 11, G: 10, H: 2}, 100)})
    assert text == (
        "produce: 12 calls instead of 10\n"
        "  new: h (gateway/a.py)\n"
        "  10 -> 11 calls: f (gateway/a.py)\n"
        "If so be it: python -m benchmarks path --write"
    )


@pytest.mark.parametrize(
    ("now", "text"),
    [
        (Counts(1, {F: 10}, 111), "r: 111 C calls instead of 100"),
        (Counts(1, {F: 5, Function("actors/b.py", "f"): 5}, 100), "r: 2 files instead of 1"),
        (Counts(1, {F: 10, Function("kio/c.py", "f"): 2}, 100), "r: 12 calls instead of 10"),
    ],
)
def test_files_and_calls_may_not_grow(now: Counts, text: str) -> None:
    (found,) = counts_file.growth({"r": Counts(1, {F: 10}, 100)}, {"r": now})
    assert found.splitlines()[0] == text


def test_a_request_that_was_not_counted_is_named() -> None:
    (text,) = counts_file.growth({}, {"produce": Counts(1, {F: 1}, 1)})
    assert text.startswith("produce is not in counts.csv")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    kio = Function("kio/c.py", "f")
    counts_file.written(
        {"a": Counts(5, {F: 10, kio: 3, kio._replace(name="g"): 4}, 7), "b": Counts(1, {G: 1}, 0)}, tmp_path / "c"
    )
    read = counts_file.read(tmp_path / "c")
    assert read == {"a": Counts(5, {F: 10, Function("kio", ""): 7}, 7), "b": Counts(1, {G: 1}, 0)}
    assert read["a"].python_calls == 17
    assert read["a"].files == ["gateway/a.py"]
