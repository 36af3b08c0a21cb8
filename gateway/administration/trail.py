"""The trail of one gateway: a row for each change and each refused attempt, and few rows for a flood of them. No I/O.

An attempt is written at once. Further ones of the same client for the same thing with the same outcome become one
row, with their number, at the end of the minute. Beyond ``MAX_KEYS`` different ones in a minute, those of the same API
and outcome become one row without client and resource. So nothing is left out of ``times``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

WINDOW_MS = 60_000
MAX_KEYS = 1_000
MAX_CHARS = 1_000
"""Limit of a name and of a detail in a row; clients choose them."""


class Who(NamedTuple):
    """Who sent a request."""

    principal: str
    host: str
    client_id: str | None = None
    connection: str | None = None


class Change(NamedTuple):
    """Administrative change, or an attempt that failed with an error."""

    api: str
    """Kafka's name of the API; method and path for HTTP."""
    resource_type: str
    resource: str | None
    error: str
    """Kafka's name of the error, NONE if it was done; the status for HTTP."""
    detail: str | None = None


class _Key(NamedTuple):
    door: str
    who: Who | None
    change: Change


class _Repeats:
    """Attempts after the one that has its row."""

    __slots__ = ("last_ms", "times")

    def __init__(self) -> None:
        self.times = 0
        self.last_ms = 0


Add = Callable[[Mapping[str, Any]], None]


class Trail:
    """Call :meth:`settle` about once a second and :meth:`close` at the end. For one thread."""

    def __init__(self, add: Add, now_ms: Callable[[], int], gateway: int) -> None:
        """``add`` gets the rows."""
        self._add = add
        self._now_ms = now_ms
        self._gateway = gateway
        self._began_ms = 0
        self._repeats: dict[_Key, _Repeats] = {}

    def record(self, door: str, who: Who, change: Change) -> None:
        """Record an attempt through that door: ``kafka`` or ``http``."""
        now_ms = self._now_ms()
        if not self._repeats:
            self._began_ms = now_ms
        key = _Key(door, who, change)
        if (repeats := self._repeats.get(key)) is None and len(self._repeats) >= MAX_KEYS:
            key = _Key(door, None, Change(change.api, change.resource_type, None, change.error))
            repeats = self._repeats.setdefault(key, _Repeats())
        if repeats is None:
            self._repeats[key] = _Repeats()
            self._add(self._row(key, now_ms, 1))
        else:
            repeats.times += 1
            repeats.last_ms = now_ms

    def settle(self) -> None:
        """Write the repeated attempts of a minute that is over."""
        if self._repeats and self._now_ms() - self._began_ms >= WINDOW_MS:
            self.close()

    def close(self) -> None:
        """Write all repeated attempts."""
        ended, self._repeats = self._repeats, {}
        for key, repeats in ended.items():
            if repeats.times:
                self._add(self._row(key, repeats.last_ms, repeats.times))

    def _row(self, key: _Key, ts_ms: int, times: int) -> dict[str, Any]:
        who, change = key.who or Who("", ""), key.change
        return {
            "ts": ts_ms,
            "gateway": self._gateway,
            "door": key.door,
            "principal": _cut(who.principal or None),
            "client_id": _cut(who.client_id),
            "host": who.host or None,
            "api": change.api,
            "resource_type": change.resource_type,
            "resource": _cut(change.resource),
            "error": change.error,
            "detail": _cut(change.detail),
            "times": times,
        }


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}~"
