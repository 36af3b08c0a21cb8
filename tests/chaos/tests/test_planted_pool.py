"""The plan ``pool`` finds bugs that are planted in a copy of the tree."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.tests.bugs import COMMIT_BEFORE_HANDLED, NO_EVICTION, Bug, copy_of_the_tree

pytestmark = [pytest.mark.ring(name="planted"), pytest.mark.timeout(600)]

_RUN_S = 500


@pytest.mark.parametrize(
    ("bug", "said"),
    [
        (COMMIT_BEFORE_HANDLED, r"^records lost [1-9]"),
        (NO_EVICTION, r"^ended early: worker, .*: (the pool is whole|all records are committed) did not happen"),
    ],
    ids=lambda value: value.name if isinstance(value, Bug) else "",
)
def test_a_planted_bug_is_found(tmp_path: Path, bug: Bug, said: str) -> None:
    """Workers are killed at steps and at any time."""
    tree = copy_of_the_tree(tmp_path / "tree")
    bug.plant(tree)
    command = [sys.executable, "-m", "tests.chaos", "pool", "--rounds", "4", "--only", "worker"]
    done = subprocess.run(
        [*command, "--folder", str(tmp_path / "run")],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        timeout=_RUN_S,
    )
    assert done.returncode == 1, done.stderr
    assert re.search(said, done.stdout, re.MULTILINE), done.stdout + done.stderr
