"""Kafka's token bucket for administrative changes (KIP-599, TokenBucket). Times are ms and never go back."""

from __future__ import annotations

import math

from muster.gateway.quotas.rate import MAX_THROTTLE_MS, Window


class TokenBucket:
    """Full at first; it may be overdrawn, and is then refilled with ``quota`` tokens per second."""

    __slots__ = ("_last_ms", "_tokens", "_window")

    def __init__(self, window: Window) -> None:
        self._window = window
        self._tokens = math.inf
        self._last_ms = 0

    def take(self, tokens: float, quota: float, now_ms: int) -> None:
        """Take them, also if there are fewer."""
        self._tokens = self.tokens(quota, now_ms) - tokens

    def tokens(self, quota: float, now_ms: int) -> float:
        """How many there are; negative if it is overdrawn."""
        burst = quota * self._window.samples * self._window.sample_ms / 1000
        self._tokens = min(burst, self._tokens + quota * (now_ms - self._last_ms) / 1000)
        self._last_ms = now_ms
        return self._tokens

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        """After how long there are 0 tokens again; 0 while it is not overdrawn."""
        missing = -self.tokens(quota, now_ms)
        return min(math.floor(missing / quota * 1000 + 0.5), MAX_THROTTLE_MS) if missing > 0 else 0
