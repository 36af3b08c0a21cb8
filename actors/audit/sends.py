"""What a gateway collects for the audit: which offsets were sent, for which group or for nobody."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import NamedTuple

from muster.actors.audit.outbox import Batch, Outbox
from muster.actors.tables.rollup import Row

Key = tuple[str | None, str, int]
"""Group (None: nobody that has a name), topic, partition."""


class Run(NamedTuple):
    """Offsets [first, end) that were sent once, in whole batches."""

    first: int
    end: int
    bytes: int

    def then(self, later: Run) -> Run | None:
        """What goes on where this ends."""
        return Run(self.first, later.end, self.bytes + later.bytes) if later.first == self.end else None


class Sends:
    """Fed with the rows of the samples table, each once. Thread-safe: rows come from the thread that flushes."""

    def __init__(self, name: str) -> None:
        self._outbox: Outbox[Key, Run] = Outbox(name)
        self._lock = threading.Lock()

    def add(self, rows: Iterable[Row]) -> None:
        """Rows that are complete; their attribution is final."""
        with self._lock:
            for row in rows:
                head = row.head
                run = Run(head.first_offset, row.last_offset + 1, row.bytes)
                self._outbox.add((head.group, head.topic, head.partition), run)

    def take(self, session: str, received: int) -> Batch[Key, Run]:
        """As :meth:`Outbox.take`. What has not been flushed is not in it."""
        with self._lock:
            return self._outbox.take(session, received)
