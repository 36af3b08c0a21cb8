"""How many connections a gateway has, and how many may come: in total, by listener and by address (KIP-612).

Sources: Kafka's ConnectionQuotas. Times are ms and never go back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from muster.gateway.quotas.measures import Measures
from muster.gateway.quotas.rate import Rate, Window

NO_LIMIT = 2**31 - 1


class ListenerLimits(NamedTuple):
    """Limits of one listener; NO_LIMIT: only those of the gateway."""

    max_connections: int = NO_LIMIT
    creation_rate: float = NO_LIMIT


class ConnectionLimits(NamedTuple):
    """Limits of one gateway."""

    max_connections: int = NO_LIMIT
    creation_rate: float = NO_LIMIT
    """Connections per second."""
    per_ip: int = NO_LIMIT
    per_ip_overrides: Mapping[str, int] = {}
    ip_rates: Mapping[str | None, float] = {}
    """Connections per second by address; None: of each other one."""


class Refusal(Enum):
    """Why a connection is closed."""

    TOO_MANY = "max.connections.per.ip is reached"
    TOO_FAST = "the quota connection_creation_rate is exceeded"


class Refused(NamedTuple):
    """The connection is closed, after it has been held unread for that time."""

    why: Refusal
    hold_ms: int = 0


class Connections:
    """The connections of one gateway, from when they are accepted. For one event loop."""

    def __init__(self, window: Window) -> None:
        self.limits = ConnectionLimits()
        self._window = window
        self._total = 0
        self._by_listener: Counter[str] = Counter()
        self._by_ip: Counter[str] = Counter()
        self._rate = Rate(window)
        self._listener_rates: dict[str, Rate] = {}
        self._ip_rates: Measures[str, Rate] = Measures(lambda: Rate(window))
        self.refused: Counter[Refusal] = Counter()
        self.delayed_ms = 0
        """For how long accepting was delayed, since the start."""

    def is_full(self, listener: str, own: ListenerLimits) -> bool:
        """Whether no connection of that listener may be accepted until one is closed."""
        return self._total >= self.limits.max_connections or self._by_listener[listener] >= own.max_connections

    def accepted(self, listener: str, own: ListenerLimits, now_ms: int) -> int:
        """Count an accepted connection; return how long no further one may come, in ms: one sample at most."""
        self._total += 1
        self._by_listener[listener] += 1
        delay_ms = 0
        if own.creation_rate < NO_LIMIT:
            rate = self._listener_rates.setdefault(listener, Rate(self._window))
            delay_ms = rate.charge(1, own.creation_rate, now_ms)
        if self.limits.creation_rate < NO_LIMIT:
            delay_ms = max(delay_ms, self._rate.charge(1, self.limits.creation_rate, now_ms))
        delay_ms = min(delay_ms, self._window.sample_ms)
        self.delayed_ms += delay_ms
        return delay_ms

    def comes_from(self, ip: str, now_ms: int) -> Refused | None:
        """Count a connection of that address; return the refusal, if any. Without one, :meth:`left` must follow."""
        rates = self.limits.ip_rates
        if rates and (quota := rates.get(ip, rates.get(None))) is not None:
            rate = self._ip_rates.get(ip, now_ms)
            hold_ms = min(rate.charge(1, quota, now_ms), self._window.sample_ms)
            if hold_ms:
                rate.record(-1, now_ms)
                self.refused[Refusal.TOO_FAST] += 1
                return Refused(Refusal.TOO_FAST, hold_ms)
        if self._by_ip[ip] >= self.limits.per_ip_overrides.get(ip, self.limits.per_ip):
            self.refused[Refusal.TOO_MANY] += 1
            if not self._by_ip[ip]:
                del self._by_ip[ip]
            return Refused(Refusal.TOO_MANY)
        self._by_ip[ip] += 1
        return None

    def left(self, ip: str) -> None:
        """Count a connection of that address as closed."""
        self._by_ip[ip] -= 1
        if self._by_ip[ip] <= 0:
            del self._by_ip[ip]

    def closed(self, listener: str) -> None:
        """Count an accepted connection as closed."""
        self._total -= 1
        self._by_listener[listener] -= 1

    def forget_unused(self, now_ms: int) -> None:
        """Drop the measures of addresses that have not come for an hour. Call it now and then."""
        self._ip_rates.forget_unused(now_ms)
