"""A program under test, as a process that logs to a file and can be killed and started again."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from pytest_muster.bound import bound

Outcome = Callable[[str, str], None]
"""Keeps a program's name, with what happened to it, and its result."""

STOP_S = 60
_LOG_CHARACTERS = 4000


class Program:
    """Runs from the start of a ``with`` block to its end; an exception there gets the end of its log as a note.

    No process that it started may outlive it: AssertionError.
    """

    def __init__(
        self, name: str, command: Sequence[str], folder: Path, *, environment: Mapping[str, str] | None = None
    ) -> None:
        """``folder``: where it runs, and where ``NAME.log`` is; ``environment``: in addition to that of the tests."""
        self.name = name
        self.command = command
        self.folder = folder
        self.environment = {**os.environ, **(environment or {})}
        self._process: psutil.Popen | None = None

    @property
    def log(self) -> str:
        """Its output so far, of all its runs."""
        path = self.folder / f"{self.name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def ended(self) -> int | None:
        """Exit code, or None while it runs."""
        assert self._process is not None, "not started"
        code: int | None = self._process.poll()
        return code

    def start(self) -> None:
        """Start it, for the first time or again."""
        assert self._process is None or self._process.poll() is not None, "it runs"
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self._process = psutil.Popen(
                bound(self.command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=self.environment,
            )

    def kill(self) -> None:
        """SIGKILL, as ``kill -9`` does."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        self._end(signal.SIGTERM)
        assert self.ended is not None
        return self.ended

    def _end(self, signal_number: signal.Signals) -> None:
        assert self._process is not None, "not started"
        started = self._process.children(recursive=True) if self._process.is_running() else []
        self._process.send_signal(signal_number)
        try:
            self._process.wait(STOP_S)
        except psutil.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        finally:
            _, left = psutil.wait_procs(started, timeout=STOP_S)
            for process in left:
                process.kill()
        assert not left, f"{self.name} has left {left}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.ended is None:
            self.kill() if error else self.stop()
        if error is not None:
            error.add_note(f"{self.name}:\n{self.log[-_LOG_CHARACTERS:]}")
