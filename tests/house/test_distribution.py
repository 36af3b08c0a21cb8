"""Tests of a group run in one worker of pytest-xdist, which versions of pytest and pytest-xdist can undo in silence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.rings.ring import load

_TESTS = """
import os, pathlib, pytest
@pytest.mark.xdist_group("{group}")
@pytest.mark.parametrize("number", range(6))
def test_it(number, worker_id):
    pathlib.Path({folder!r}, f"{{worker_id}}-{group}-{name}-{{number}}").touch()
"""


@pytest.mark.timeout(120)
def test_a_group_has_one_worker(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    seen.mkdir()
    for name, group in (("a", "cluster"), ("b", "cluster"), ("c", "nodes")):
        (tmp_path / f"test_{name}.py").write_text(_TESTS.format(group=group, name=name, folder=str(seen)))
    (tmp_path / "pytest.ini").touch()
    arguments = load()["first"].arguments(0)
    distribution = arguments[arguments.index("--dist") :]
    assert distribution == ["--dist", "loadgroup", "--no-loadscope-reorder", "-n", "4"]
    command = [sys.executable, "-m", "pytest", *distribution, str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    ran = [path.name.split("-")[:2] for path in seen.iterdir()]
    assert len(ran) == 18
    assert {group: len({worker for worker, each in ran if each == group}) for _, group in ran} == {
        "cluster": 1,
        "nodes": 1,
    }
