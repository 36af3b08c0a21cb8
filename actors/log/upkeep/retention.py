"""Selects the segments to remove: by age and size (cleanup.policy=delete), and for DeleteRecords.

The rules are those of Kafka's UnifiedLog.deleteOldSegments: whole segments, starting with the oldest, as long as each
one qualifies. A segment's age is that of its largest timestamp, or of its file if its records have no timestamps.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence

from muster.actors.log.committer import Committer
from muster.actors.log.config import FOR_EVER, LogConfig
from muster.actors.log.files.segment import Segment
from muster.actors.log.format.batch import NO_TIMESTAMP
from muster.actors.log.upkeep.segment_replacement import Change

log = logging.getLogger(__name__)

_AHEAD_MS, _DAY_MS = 3_600_000, 86_400_000
"""Time that Kafka's and Muster's defaults let producers write ahead, and a day."""


class FutureTimes:
    """Warns of segments that do not expire because of times in the future, once of each.

    A topic whose message.timestamp.after.max.ms allows it accepts them.
    """

    def __init__(self, partition: str) -> None:
        """``partition``: as ``topic-0``."""
        self._partition = partition
        self._known: Segment | None = None

    def look(self, segments: Sequence[Segment], config: LogConfig, now_ms: int) -> None:
        """Whether there is one that retention.ms comes to next. Raises OSError."""
        oldest = next((segment for segment in segments if segment.fd >= 0 and segment.size_bytes), None)
        if oldest is None or oldest is self._known or not config.deletes or config.retention_ms == FOR_EVER:
            return
        ahead_ms = _largest_timestamp_ms(oldest) - now_ms
        if ahead_ms > _AHEAD_MS:
            self._known = oldest
            log.warning(
                "%s: %s has a record with the timestamp %d, %s days in the future, so retention.ms=%d removes neither "
                "this segment nor those behind it until then; DeleteRecords (kafka-delete-records) can, and with "
                "message.timestamp.after.max.ms such records are refused",
                self._partition,
                oldest.path.name,
                oldest.max_timestamp_ms,
                f"{ahead_ms / _DAY_MS:,.1f}",
                config.retention_ms,
            )


def is_roll_due(writer: Committer, now_ms: int) -> bool:
    """Whether the last segment must be closed: it is too old, or it expires like all segments before it."""
    *_, active = segments = writer.segments
    if not active.size_bytes:
        return False
    began_ms = writer.began_ms if writer.began_ms is not None else now_ms
    is_old = now_ms - began_ms > writer.config.roll_ms(active.path)
    return is_old or len(expired(segments, writer.config, now_ms)) == len(segments)


def expired(segments: Sequence[Segment], config: LogConfig, now_ms: int) -> Sequence[Segment]:
    """Return the oldest segments, expired by age or size. ``segments`` are all of the log. Raises OSError."""
    if not config.deletes:
        return ()
    return segments[: max(_too_old(segments, config.retention_ms, now_ms), _too_many(segments, config.retention_bytes))]


def _too_old(segments: Sequence[Segment], retention_ms: int, now_ms: int) -> int:
    count = 0
    if retention_ms != FOR_EVER:
        for index, segment in enumerate(segments):
            if segment.fd < 0 or not segment.size_bytes:
                continue  # nothing in it can be read: it is removed with the segments behind it
            if now_ms - _largest_timestamp_ms(segment) <= retention_ms:
                break
            count = index + 1
    return count


def _largest_timestamp_ms(segment: Segment) -> int:
    if segment.max_timestamp_ms != NO_TIMESTAMP:
        return segment.max_timestamp_ms
    return os.fstat(segment.fd).st_mtime_ns // 1_000_000


def _too_many(segments: Sequence[Segment], retention_bytes: int) -> int:
    count = 0
    if retention_bytes > FOR_EVER:
        surplus_bytes = sum(segment.size_bytes for segment in segments) - retention_bytes
        for count, segment in enumerate(segments):
            surplus_bytes -= segment.size_bytes
            if surplus_bytes < 0:
                return count
        count += 1
    return count


def expiry(segments: Sequence[Segment], config: LogConfig, now_ms: int) -> Change | None:
    """Return the change that removes the expired segments, except the last segment. Raises OSError."""
    removed = expired(segments, config, now_ms)[: len(segments) - 1]
    if not removed:
        return None
    return Change(removed=tuple(removed), log_start_offset=segments[len(removed)].base_offset)


def deletion(segments: Sequence[Segment], log_start_offset: int, new_start: int) -> Change | None:
    """Return the change that moves the log start and removes closed segments below it; None if it is there already."""
    if new_start <= log_start_offset:
        return None
    ends = (following.base_offset for following in segments[1:])
    removed = tuple(segment for segment, end in zip(segments, ends, strict=False) if end <= new_start)
    return Change(removed=removed, log_start_offset=new_start)
