"""The tables ``commits``, ``group_events`` and ``registrations`` of one coordinator, collected while it serves.

Group events and registrations are in a spool on disk as soon as they happen, so SIGKILL loses none. Commits are kept
in memory until their window ends, so SIGKILL loses the open window, and the next coordinator logs which one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from muster.actors.config import MusterConfig
from muster.actors.group.events import Event, GroupRestored, OffsetsCommitted, OffsetsDeleted, OffsetsExpired
from muster.actors.offsets.history.commit_window import CommitWindow, Kind
from muster.actors.offsets.history.group_events import GroupEvents
from muster.actors.offsets.history.open_windows import OpenWindows
from muster.actors.offsets.history.registrations import row_of, snapshot_rows
from muster.actors.offsets.partition import OffsetsPartition
from muster.actors.runtime.event_writer import EventWriter
from muster.actors.tables.schemas.groups import GROUP_EVENTS, REGISTRATIONS
from muster.actors.tables.schemas.offsets import COMMITS
from muster.placement.mapping.registration import Change


class GroupHistory:
    """Observes an :class:`OffsetsPartition`. Create it before the partition is activated, ``start`` it right after."""

    def __init__(
        self,
        core: OffsetsPartition,
        storage: Path,
        config: MusterConfig,
        *,
        offsets_partitions: int,
        now_ms: Callable[[], int],
    ) -> None:
        """``offsets_partitions``: how many partitions ``__consumer_offsets`` has."""
        self._commits = _Commits(core, storage, config.metrics_commits_flush_ms, now_ms)
        self._events = _Events(core, storage, config.metrics_events_flush_ms, now_ms)
        self._registrations = _Registrations(core, storage, config, offsets_partitions, now_ms)

    def start(self) -> None:
        """Write from now on, starting with what a dead predecessor left."""
        for part in (self._commits, self._events, self._registrations):
            part.writer.start()

    async def close(self) -> None:
        """Call after the partition has stopped. Writes everything to the tables."""
        for part in (self._commits, self._events, self._registrations):
            await part.writer.close()
        await asyncio.to_thread(self._commits.marks.close)


class _Commits:
    def __init__(self, core: OffsetsPartition, storage: Path, window_ms: int, now_ms: Callable[[], int]) -> None:
        self._core = core
        self._window = CommitWindow()
        self._mark: Path | None = None
        self._said_lost = False
        owner = _owner(core)
        self.marks = OpenWindows(storage / "metrics", COMMITS, owner, window_ms=window_ms, now_ms=now_ms)
        self.writer = EventWriter(
            storage, COMMITS, owner, flush_ms=window_ms, now_ms=now_ms, collect=self._end_of_window
        )
        core.observers.add(self._committed, [OffsetsCommitted])
        core.observers.add(partial(self._removed, Kind.EXPIRED), [OffsetsExpired])
        core.observers.add(partial(self._removed, Kind.DELETED), [OffsetsDeleted])

    def _committed(self, event: OffsetsCommitted, now_ms: int) -> None:
        self._open().committed(event, now_ms)

    def _removed(self, kind: Kind, event: OffsetsExpired | OffsetsDeleted, now_ms: int) -> None:
        self._open().removed(event.group, event.partitions, kind, now_ms)

    def _open(self) -> CommitWindow:
        if not self._window:
            self._mark = self.marks.open()
        return self._window

    async def _end_of_window(self) -> None:
        if not self._said_lost:
            self._said_lost = True
            await asyncio.to_thread(self.marks.say_lost)
        if self._window:
            ended, self._window = self._window, CommitWindow()
            await asyncio.to_thread(self._keep, ended, self._mark)

    def _keep(self, ended: CommitWindow, mark: Path | None) -> None:
        self.writer.add_all(ended.rows(offsets_partition=self._core.partition, epoch=self._core.epoch))
        self.marks.written(mark)


class _Events:
    def __init__(self, core: OffsetsPartition, storage: Path, flush_ms: int, now_ms: Callable[[], int]) -> None:
        self._events = GroupEvents(partition=core.partition, epoch=core.epoch)
        self._restored: list[dict[str, Any]] = []
        """Rows that the log restores may wait for the first flush: a coordinator of many groups serves sooner."""
        self.writer = EventWriter(
            storage, GROUP_EVENTS, _owner(core), flush_ms=flush_ms, now_ms=now_ms, collect=self._keep_restored
        )
        core.observers.add(self._observe, self._events.kinds)

    def _observe(self, event: Event, now_ms: int) -> None:
        row = self._events.observe(event, now_ms)
        if row is None:
            return
        if isinstance(event, GroupRestored):
            self._restored.append(row)
        else:
            self.writer.add(row)

    async def _keep_restored(self) -> None:
        restored, self._restored = self._restored, []
        if restored:
            await asyncio.to_thread(self.writer.add_all, restored)


class _Registrations:
    """A :class:`muster.actors.offsets.partition.UpdateSink`."""

    def __init__(
        self,
        core: OffsetsPartition,
        storage: Path,
        config: MusterConfig,
        offsets_partitions: int,
        now_ms: Callable[[], int],
    ) -> None:
        self._core = core
        self._offsets_partitions = offsets_partitions
        self._now_ms = now_ms
        self._snapshot_ms = config.metrics_registrations_snapshot_ms
        self._next_snapshot_ms: int | None = None
        self.writer = EventWriter(
            storage,
            REGISTRATIONS,
            _owner(core),
            flush_ms=config.metrics_events_flush_ms,
            now_ms=now_ms,
            collect=self._snapshot_if_due,
        )
        core.sinks.append(self)

    def put(self, updates: tuple[Change, ...]) -> None:
        ts_ms = self._now_ms()
        self.writer.add(*[row_of(update, ts_ms) for update in updates])

    async def _snapshot_if_due(self) -> None:
        """Write a snapshot if due.

        The first comes before any other row: rows of earlier coordinators are no longer valid.
        """
        ts_ms = self._now_ms()
        if self._next_snapshot_ms is not None and ts_ms < self._next_snapshot_ms:
            return
        self._next_snapshot_ms = ts_ms + self._snapshot_ms
        core = self._core
        rows = snapshot_rows(
            core.registrations(),
            offsets_partition=core.partition,
            offsets_partitions=self._offsets_partitions,
            epoch=core.epoch,
            ts_ms=ts_ms,
        )
        await asyncio.to_thread(self.writer.add_all, rows)


def _owner(core: OffsetsPartition) -> str:
    return f"offsets-{core.partition}"
