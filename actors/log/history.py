"""The table ``end_offsets``: the positions of one log actor's partitions, with a row for each change.

A log reports changes through a callback, so a round skips unchanged partitions, and a row needs no read. The
exception is the first row of a log: it reads the time of the last append from the disk, unless a record was appended
before the row is written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from muster.actors.log.errors import LogError
from muster.actors.log.partition import PartitionLog
from muster.actors.runtime.event_writer import EventWriter
from muster.actors.tables.events import Row
from muster.actors.tables.schemas.offsets import END_OFFSETS
from muster.placement.view import ClusterView

log = logging.getLogger(__name__)

_AT_ONCE = 50
"""Requests are served after this many partitions (at most a millisecond), and after each first row, which reads."""


@dataclass(slots=True, eq=False)
class _Known:
    """An open log and what was last reported of it."""

    topic: str
    partition: int
    log: PartitionLog
    reported: tuple[int, int, int] | None = None
    """Log start, log end, size; None before the first report."""
    appended_ms: int | None = None
    """When the last record before this log's opening was appended."""


class LogHistory:
    """For the event loop of a log actor. Create it before the logs are opened; ``start`` and ``close`` it with them."""

    def __init__(
        self,
        storage: Path,
        index: int,
        *,
        flush_ms: int,
        topics: Callable[[], ClusterView],
        now_ms: Callable[[], int],
    ) -> None:
        """``index``: of the log actor. ``flush_ms``: how often rows of changed positions are written."""
        self._index = index
        self._topics = topics
        self._now_ms = now_ms
        self._moved: dict[_Known, None] = {}
        self._writer = EventWriter(
            storage, END_OFFSETS, f"log-{index}", flush_ms=flush_ms, now_ms=now_ms, collect=self.round
        )
        self.start = self._writer.start

    def opened(self, topic: str, partition: int, partition_log: PartitionLog) -> None:
        """Report the log from now on: once soon, then whenever it has changed."""
        known = _Known(topic, partition, partition_log)
        self._moved[known] = None
        partition_log.watch(lambda: self._moved.setdefault(known))

    async def round(self) -> None:
        """Add a row for each log that has changed since the last round; requests are served in between."""
        moved, self._moved = self._moved, {}
        rows = []
        for number, known in enumerate(moved, start=1):
            is_first = known.reported is None
            if (row := self._news_of(known)) is not None:
                rows.append(row)
            if is_first or number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        if rows:
            await asyncio.to_thread(self._writer.add_all, rows)

    async def close(self) -> None:
        """Call after the logs are closed. Adds their last rows, and writes everything to the table."""
        await self._writer.close()

    def _news_of(self, known: _Known) -> Row | None:
        partition_log = known.log
        position = (partition_log.log_start_offset, partition_log.high_watermark, partition_log.size_bytes)
        if position == known.reported or self._topics().topic_by_id(partition_log.topic_id) is None:
            return None
        if known.reported is None and partition_log.last_append_ms is None:
            known.appended_ms = _last_append_ms(partition_log)
        known.reported = position
        appended_ms = partition_log.last_append_ms
        return {
            "ts": self._now_ms(),
            "log": self._index,
            "topic": known.topic,
            "partition": known.partition,
            "epoch": partition_log.epoch,
            "log_start_offset": position[0],
            "log_end_offset": position[1],
            "last_append": known.appended_ms if appended_ms is None else appended_ms,
            "size_bytes": position[2],
        }


def _last_append_ms(partition_log: PartitionLog) -> int | None:
    """From the disk; None if unknown."""
    try:
        return partition_log.append_time_ms(partition_log.high_watermark - 1)
    except LogError as error:
        log.info("%s: it is not known when its last record was appended: %s", partition_log.directory.name, error)
        return None
