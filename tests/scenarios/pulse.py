"""Detects whether this process was running when it should have been."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

_TICK_S = 0.02


class Pulse:
    """``with Pulse() as pulse``: a thread that records how late each of its wake-ups was."""

    def __init__(self) -> None:
        self._late: list[tuple[float, float]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="pulse", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def late_s(self, since_s: float) -> float:
        """Total time without progress since that time of ``time.monotonic``."""
        return sum(late_s for at_s, late_s in list(self._late) if at_s >= since_s)

    def _beat(self) -> None:
        before_s = time.monotonic()
        while not self._over.wait(_TICK_S):
            now_s = time.monotonic()
            self._late.append((now_s, now_s - before_s - _TICK_S))
            before_s = now_s
