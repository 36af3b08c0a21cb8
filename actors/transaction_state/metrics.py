"""Counters of a partition of ``__transaction_state``, and its snapshot that gateways scrape. Counts start with it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from muster.actors.runtime.process import now_ms
from muster.actors.transactions.coordinator import TransactionCoordinator
from muster.actors.transactions.events import Event, MarkerFailed, TransactionCompleted, TransactionFenced
from muster.actors.transactions.types import NO_TIMESTAMP


class TransactionMetrics:
    """Observes the events of one coordinator."""

    def __init__(self, core: TransactionCoordinator) -> None:
        self._core = core
        self._made_ms = now_ms()
        self._load_ms = 0
        self._completed: Counter[str] = Counter(commit=0, abort=0)
        self._fenced: Counter[str] = Counter()
        self._failed_markers = 0

    def active(self) -> None:
        """Note that the log was replayed, in the time since this object was created."""
        self._load_ms = now_ms() - self._made_ms

    def observe(self, event: Event, _: int) -> None:
        match event:
            case TransactionCompleted():
                self._completed["commit" if event.commit else "abort"] += 1
            case TransactionFenced():
                self._fenced[event.cause.value] += 1
            case MarkerFailed(repeated=True):
                self._failed_markers += 1

    def response(self, _: dict[str, Any]) -> dict[str, Any]:
        """``states``: transactional ids by state. ``oldest_ms``: how long ago the oldest transaction began that is
        ongoing or has markers missing; 0 without one."""
        entries, now = self._core.hard_state.entries, now_ms()
        open_ids = {*self._core.hard_state.ongoing, *self._core.sendings}
        began = [entries[each].metadata.start_ms for each in open_ids if each in entries]
        oldest_ms = min((start_ms for start_ms in began if start_ms != NO_TIMESTAMP), default=now)
        return {
            "states": Counter(entry.metadata.state.title for entry in entries.values()),
            "oldest_ms": max(0, now - oldest_ms),
            "load_ms": self._load_ms,
            "completed": self._completed,
            "fenced": self._fenced,
            "failed_markers": self._failed_markers,
        }
