"""When written records are made durable: flush.messages and flush.ms of the topic.

With flush.messages=1, which is the default here but not in Kafka, every commit is synced before it is acknowledged.
Above that, records are acknowledged once they are in the page cache, as by a Kafka broker: they survive the process,
but not the machine. They are then synced when flush.messages of them have accumulated, when the first of them has
waited for flush.ms, when a marker ends their transaction, when their segment is closed, and when the log is closed.

A marker is synced before it is acknowledged: its coordinator then forgets the transaction, and would not end it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from muster.actors.log.config import LogConfig
from muster.actors.log.format.batch import CONTROL, BatchHeader

_MAX_S = 3600.0


class Written(Protocol):
    """A batch of a commit."""

    @property
    def header(self) -> BatchHeader: ...


class Flushing:
    """The flush state of one log. ``wake`` makes the writer run even without anything to write."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._records = 0
        self._timer: asyncio.TimerHandle | None = None
        self.is_due = False

    @property
    def is_behind(self) -> bool:
        """Whether any acknowledged record is not synced."""
        return self._records > 0

    def wants_sync(self, writes: Sequence[Written], config: LogConfig) -> bool:
        """Whether a commit of these batches must be synced."""
        if self.is_due or not writes or config.flush_messages <= 1:
            return self.is_due or bool(writes)
        records = self._records
        for write in writes:
            if write.header.attributes & CONTROL:
                return True
            records += write.header.record_count
        return records >= config.flush_messages

    def synced(self) -> None:
        """Everything is synced. For any thread."""
        self._records = 0
        self.is_due = False

    def written(self, writes: Sequence[Written]) -> None:
        """Count batches that were written but not synced. For any thread."""
        for write in writes:
            self._records += write.header.record_count

    def arm(self, config: LogConfig) -> None:
        """Start or stop the timer. Call after each commit, on the event loop."""
        if self._records and self._timer is None:
            wait_s = min(config.flush_ms / 1000, _MAX_S)
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._expired)
        elif not self._records and self._timer is not None:
            self.stop()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expired(self) -> None:
        self._timer = None
        self.is_due = True
        self._wake()
