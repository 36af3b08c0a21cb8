"""``muster`` as a user runs it: a process, its exit code, its stdout and its stderr."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
Muster = Callable[..., "subprocess.CompletedProcess[str]"]


def commands(directory: Path, timeout_s: float = 60) -> Muster:
    """Run ``muster ARGUMENTS`` to its end in that directory, with an otherwise empty environment."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "muster.gateway.cli.main", *arguments],
            cwd=directory,
            env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(directory)},
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )

    return run


@pytest.fixture
def muster(tmp_path: Path) -> Muster:
    """In an empty directory."""
    return commands(tmp_path)


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """Return the error of a command that failed before it did anything."""
    assert done.returncode != 0
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("muster: ")
    return lines[0]
