"""Programs of users, each in a process of its own, and what is left of them."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
END_S = 60.0


class Program:
    """``with program(source) as running``: Python source that prints lines; it is killed at the end."""

    def __init__(self, source: str, environment: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", source],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        )

    def line(self) -> str:
        """Return the next line of its output. Raises AssertionError with its stderr if it has ended."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        return line.rstrip("\n")

    def go_on(self) -> None:
        """Let its next ``input()`` return."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self, number: signal.Signals | None = None) -> tuple[int, str, str]:
        """Return exit code, and the rest of stdout and stderr, once it has ended, of the signal if there is one."""
        if number is not None:
            self.process.send_signal(number)
        out, err = self.process.communicate(timeout=END_S)
        return self.process.returncode, out, err


@contextlib.contextmanager
def program(source: str, **environment: str) -> Iterator[Program]:
    """Run it with these variables in addition to those of the tests."""
    running = Program(source, environment)
    try:
        yield running
    finally:
        running.process.kill()
        running.process.communicate()


def until_gone(*pids: int) -> None:
    """Wait until none of these processes runs, whether its exit code has been collected or not."""
    until_s = time.monotonic() + END_S
    for pid in pids:
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        ended, _, _ = select.select([fd], [], [], max(0.0, until_s - time.monotonic()))
        os.close(fd)
        assert ended, psutil.Process(pid).cmdline()


def keepers_of(pid: int) -> list[int]:
    """Return the pids of the keepers of the program with that pid."""
    return [each.pid for each in psutil.process_iter(["cmdline"]) if _is_keeper(each.info["cmdline"] or [], pid)]


def _is_keeper(command: list[str], pid: int) -> bool:
    return command[-1:] == [str(pid)] and any(word.endswith("client/keeper.py") for word in command)


def family(pid: int) -> list[int]:
    """Return the pids of the process and its descendants."""
    process = psutil.Process(pid)
    return [pid, *(child.pid for child in process.children(recursive=True))]
