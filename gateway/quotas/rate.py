"""How Kafka measures a rate, and for how long a client that exceeds its quota has to pause.

Sources: Kafka's SampledStat, Rate, TokenBucket and QuotaUtils. Times are ms and never go back.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

MAX_THROTTLE_MS = 2**31 - 1
"""The field of a response has no room for more."""


class Window(NamedTuple):
    """``quota.window.num`` samples of ``quota.window.size.seconds``."""

    samples: int
    sample_ms: int

    @property
    def full_ms(self) -> int:
        """The time over which a client is measured that has just come: what it may use at once is free."""
        return (self.samples - 1) * self.sample_ms


class _Sample:
    __slots__ = ("last_ms", "start_ms", "total")

    def __init__(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.total = 0.0


class Rate:
    """An amount per second, over the samples of a window."""

    __slots__ = ("_samples", "_window")

    def __init__(self, window: Window) -> None:
        self._window = window
        self._samples: deque[_Sample] = deque(maxlen=window.samples + 1)

    def record(self, amount: float, now_ms: int) -> None:
        """Add an amount; a negative one takes it back."""
        samples = self._samples
        if not samples or now_ms - samples[-1].start_ms >= self._window.sample_ms:
            samples.append(_Sample(now_ms))
        sample = samples[-1]
        sample.total += amount
        sample.last_ms = now_ms

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        """For how long nothing may be added until the rate is the quota; 0 if it is not exceeded."""
        total, elapsed_ms = self._measure(now_ms)
        rate = total / (elapsed_ms / 1000)
        if rate <= quota:
            return 0
        return min(math.floor((rate - quota) / quota * elapsed_ms + 0.5), MAX_THROTTLE_MS)

    def charge(self, amount: float, quota: float, now_ms: int) -> int:
        """Add an amount; returns :meth:`throttle_ms` after it."""
        self.record(amount, now_ms)
        return self.throttle_ms(quota, now_ms)

    def per_second(self, now_ms: int) -> float:
        """Return the rate."""
        total, elapsed_ms = self._measure(now_ms)
        return total / (elapsed_ms / 1000)

    def is_empty(self, now_ms: int) -> bool:
        """Whether nothing is left in the window."""
        return self._measure(now_ms)[0] <= 0

    def _measure(self, now_ms: int) -> tuple[float, int]:
        """Return the amount, and over how many ms. A sample counts while its last event is in the window."""
        samples, (count, sample_ms) = self._samples, self._window
        while samples and now_ms - samples[0].last_ms >= count * sample_ms:
            samples.popleft()
        if not samples:
            return 0.0, max((count - 1) * sample_ms, 1)
        elapsed_ms = now_ms - samples[0].start_ms
        missing = count - 1 - elapsed_ms // sample_ms
        if missing > 0:
            elapsed_ms += missing * sample_ms
        return sum([sample.total for sample in samples]), max(elapsed_ms, 1)


class TokenBucket:
    """Kafka's token bucket for administrative changes (KIP-599). Full at first; it may be overdrawn.

    It is refilled with ``quota`` tokens per second.
    """

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
