"""A rate limiter for writes."""

from __future__ import annotations

import threading
import time


class RateLimiter:
    """At most ``per_second`` in any second, plus one piece. For one thread; idle time earns no credit."""

    def __init__(self, per_second: int) -> None:
        self.per_second = per_second
        self._free_at_s = 0.0
        self._ended = threading.Event()

    @property
    def piece(self) -> int:
        """The most that should be done at once: the share of a tenth of a second."""
        return max(1, self.per_second // 10)

    def wait(self, count: int) -> None:
        """Block until ``count`` more may be done, or until :meth:`end`."""
        now_s = time.monotonic()
        if self._free_at_s > now_s:
            self._ended.wait(self._free_at_s - now_s)
        self._free_at_s = max(now_s, self._free_at_s) + count / self.per_second

    def end(self) -> None:
        """Release all waiters, present and future."""
        self._ended.set()
