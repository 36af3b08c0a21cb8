"""A process that the demo starts, and the JSON lines that it writes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_muster.bound import bound

_GRACE_S = 15


class Child:
    """A process in its own process group, so that Ctrl-C reaches only the demo, which then ends the process by its pid.

    It gets SIGTERM when the demo ends.
    """

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        """Start the process. ``log`` takes its stderr. Raises OSError."""
        self.name = name
        self._lock = threading.Lock()
        self._latest: dict[str, dict[str, Any]] = {}
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                bound(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=Path(__file__).parents[2],
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def latest(self, kind: str) -> dict[str, Any] | None:
        """Return the last line of that type, or None."""
        with self._lock:
            return self._latest.get(kind)

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def resume(self) -> None:
        """Send SIGUSR1."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGUSR1)

    def terminate(self) -> None:
        """Send SIGTERM."""
        if self._process.poll() is None:
            self._process.terminate()

    def wait(self, timeout_s: float) -> int | None:
        """Return the exit code, after it ended and all its lines are read; None if it did not end in time."""
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        self._reader.join(timeout_s)
        return code

    def end(self, grace_s: float = _GRACE_S) -> None:
        """Send SIGTERM, SIGKILL if it does not end, and SIGKILL to the processes that it leaves in its group (a
        JVM)."""
        if self._process.poll() is not None:
            return
        self.terminate()
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                try:
                    said = json.loads(line)
                except ValueError:
                    continue  # printed by a library
                if isinstance(said, dict) and "type" in said:
                    with self._lock:
                        self._latest[said["type"]] = said
