"""Offsets that a gateway sent, for a group or unattributed, collected for the audit."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from muster.actors.audit.outbox import Batch, Outbox
from muster.actors.audit.topics import TopicHistory
from muster.actors.tables.rollup import Row
from muster.placement.view import Topic

SendKey = tuple[str | None, str, UUID, int]
"""Group (None: unattributed), topic, its id, partition."""


class Run(NamedTuple):
    """Offsets [first, end) that were sent once, in whole batches."""

    first: int
    end: int
    bytes: int
    at_ms: int
    """When sending began, ms since the epoch by the gateway's clock."""

    def then(self, later: Run) -> Run | None:
        """Both as one run, if ``later`` starts where this one ends."""
        if later.first != self.end:
            return None
        return Run(self.first, later.end, self.bytes + later.bytes, min(self.at_ms, later.at_ms))


class Sends:
    """Gets the rows of the samples table, each once. Thread-safe: rows come from the flushing thread."""

    def __init__(self, name: str) -> None:
        self._outbox: Outbox[SendKey, Run] = Outbox(name)
        self._topics = TopicHistory()
        self._lock = threading.Lock()

    def follow(self, topics: Mapping[str, Topic], now_ms: int) -> None:
        """Follow the topics: ids of later sends are looked up in these."""
        with self._lock:
            self._topics.follow(topics, now_ms)

    def add(self, rows: Iterable[Row]) -> None:
        """Add complete rows, whose attribution is final."""
        with self._lock:
            for row in rows:
                head = row.head
                run = Run(head.first_offset, row.last_offset + 1, row.bytes, head.ts_ms)
                topic_id = self._topics.id_at(head.topic, head.ts_ms)
                if topic_id is not None:
                    self._outbox.add((head.group, head.topic, topic_id, head.partition), run)

    def take(self, session: str, received: int) -> Batch[SendKey, Run]:
        """Hand over a batch without sends that have not been flushed: see :meth:`Outbox.take`."""
        with self._lock:
            return self._outbox.take(session, received)
