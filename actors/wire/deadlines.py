"""Timeouts of many requests with one timer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

_TICK_S = 1.0


class Deadlines:
    """Calls ``expire`` with each token whose time is over, up to a second late.

    Tokens are not removed before that: ``expire`` is called for all, also for those that are no longer waited for.
    """

    def __init__(self, expire: Callable[[int], None]) -> None:
        self._expire = expire
        self._tokens: dict[int, list[int]] = {}
        """By the second, on the loop's clock, at whose end they expire."""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, token: int, timeout_s: float) -> None:
        """Expire the token after ``timeout_s``."""
        loop = asyncio.get_running_loop()
        second = int(loop.time() + timeout_s)
        tokens = self._tokens.get(second)
        if tokens is None:
            self._tokens[second] = [token]
        else:
            tokens.append(token)
        if self._timer is None:
            self._timer = loop.call_later(_TICK_S, self._tick)

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        for second in [second for second in self._tokens if second + 1 <= now_s]:
            for token in self._tokens.pop(second):
                self._expire(token)
        self._timer = loop.call_later(_TICK_S, self._tick) if self._tokens else None

    def close(self) -> None:
        """Forget all tokens."""
        self._tokens.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
