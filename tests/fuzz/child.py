"""Processes of an attack: what is attacked, and the client that behaves."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from typing import Any

import psutil


class Child:
    """A process that prints a line of JSON when it is ready, and one for each line that it gets."""

    def __init__(self, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.ready = self._line()

    @property
    def rss_bytes(self) -> int:
        return int(psutil.Process(self._process.pid).memory_info().rss)

    def report(self) -> Any:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, which reading says
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        return self._line()

    def _line(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ChildProcessError(f"{self._process.args!r} has ended with {self._process.wait()}")
        return json.loads(line)

    def stop(self) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
