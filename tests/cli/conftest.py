"""``muster`` as a user runs it: a process, its exit code, what it writes to stdout and to stderr."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
Muster = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def muster(tmp_path: Path) -> Muster:
    """Run ``muster ARGUMENTS`` to its end, in an empty directory."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "gateway.cli.main", *arguments],
            cwd=tmp_path,
            env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
        )

    return run


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """The error of a command that failed before it did anything."""
    assert done.returncode != 0
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("muster: ")
    return lines[0]
