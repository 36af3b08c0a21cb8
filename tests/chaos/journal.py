"""Events as JSON lines, each written immediately: a process that is killed loses no event that it has written.

Every line has ``t``, seconds of CLOCK_MONOTONIC (one clock for all processes of a machine), and ``e``, the kind.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SEND_OFFSETS = "send_offsets"
"""The name of a transformer's call of send_offsets_to_transaction."""


def now_s() -> float:
    """CLOCK_MONOTONIC, in seconds."""
    return round(time.monotonic(), 4)


class Journal:
    """One new file. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC, 0o644)
        self._calls = 0
        self._lock = threading.Lock()

    def write(self, event: str, **fields: Any) -> None:
        line = json.dumps({"t": now_s(), "e": event, **fields}, separators=(",", ":"))
        os.write(self._fd, line.encode() + b"\n")  # one call: written completely or not at all, and held by the kernel

    @contextmanager
    def call(self, name: str, timeout_s: float, **fields: Any) -> Iterator[int]:
        """Record a call into a client library that should end within ``timeout_s``; yields the call's number.

        An exception is recorded, and propagates to the caller.
        """
        with self._lock:
            self._calls += 1
            number = self._calls
        self.write("begin", call=name, id=number, timeout=timeout_s, **fields)
        try:
            yield number
        except BaseException as error:
            self.write("end", id=number, error=f"{type(error).__name__}: {error}"[:300])
            raise
        self.write("end", id=number)
