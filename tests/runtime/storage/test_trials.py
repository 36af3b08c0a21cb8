"""Weaknesses of a file system are found on one node, before anything is stored there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from muster.actors.runtime.storage.promises import FilePromise
from muster.actors.runtime.storage.trials import check
from tests.runtime.storage.conftest import Weak

WEAK = {
    "no-fsync": ("sync", "fdatasync of a file failed: Input/output error"),
    "no-directory-fsync": ("sync", "fsync of a directory failed: Invalid argument"),
    "no-replace": ("rename", "rename over an existing file failed: File exists"),
    "copy": ("rename", "a rename copied the content into the file that it should have replaced"),
    "no-exclusive": ("create", "a name that exists could be created again (O_EXCL)"),
    "no-append": ("write", "lines that were appended overwrote each other (O_APPEND)"),
    "no-mapping": ("mapping", "mapping a file (mmap, MAP_SHARED) failed: No such device"),
    "no-flock": ("lock", "flock failed: No locks available"),
    "granted-flock": ("lock", "a lock that is held was granted a second time (flock)"),
}
"""Weaknesses that the start of Muster finds, too."""
WEAK_WHILE_READ = {
    "torn": ("rename", "a reader found a file that was being replaced, and not the whole of it"),
    "missing": ("rename", "a name that was being replaced was missing for 1 s"),
}


def muster(environment: dict[str, str], directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "muster.gateway.cli.main", *arguments],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("thorough", [False, True])
def test_this_file_system_is_fit(tmp_path: Path, thorough: bool) -> None:
    findings = check(tmp_path, thorough=thorough)
    assert [finding for finding in findings if finding.problem] == []
    assert {finding.promise for finding in findings} == {*FilePromise} - {FilePromise.VISIBLE, FilePromise.CLAIM}
    assert [*tmp_path.iterdir()] == [], "temporary folders are removed"


@pytest.mark.ring(name="operations")
@pytest.mark.parametrize(("how", "promise", "problem"), [(how, *found) for how, found in WEAK.items()])
def test_muster_does_not_start_on_a_weak_one(weak: Weak, tmp_path: Path, how: str, promise: str, problem: str) -> None:
    done = muster(weak(how), tmp_path, "up", "--storage", str(tmp_path / "storage"), "--port", "0")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"muster: storage path {tmp_path / 'storage'} (")
    assert f"is not fit for Muster: {promise}: {problem}. Known to be fit: local disks; NFSv4" in line


@pytest.mark.ring(name="operations")
@pytest.mark.parametrize(
    ("how", "promise", "problem"), [(how, *found) for how, found in (WEAK | WEAK_WHILE_READ).items()]
)
def test_the_command_finds_it(weak: Weak, tmp_path: Path, how: str, promise: str, problem: str) -> None:
    done = muster(weak(how), tmp_path, "storage", "check", str(tmp_path), "--json")
    assert done.returncode == 1
    assert "1 promise not kept by " in done.stderr
    results = {found["promise"]: found["result"] for found in json.loads(done.stdout)["findings"]}
    assert results.pop(promise) == f"BROKEN: {problem}"
    assert not [result for result in results.values() if "BROKEN" in result]


def test_the_command_shows_what_was_tried(weak: Weak, tmp_path: Path) -> None:
    done = muster(weak(""), tmp_path, "storage", "check", str(tmp_path))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split()[:4] == ["PROMISE", "NODE", "RESULT", "MS"]
    assert any(line.startswith("sync") and "fdatasync of 4 KiB: " in line for line in lines)
    assert any(line.startswith("lock") and "kept" in line for line in lines)


def test_the_command_needs_a_directory(weak: Weak, tmp_path: Path) -> None:
    done = muster(weak(""), tmp_path, "storage", "check", "nowhere")
    assert (done.returncode, done.stderr) == (
        1,
        "muster: there is no directory nowhere; create it, or mount it, first\n",
    )
