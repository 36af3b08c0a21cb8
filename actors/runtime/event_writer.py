"""Writes rows of a table in the background of an actor: nothing waits for them, and their errors do not spread."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from muster.actors.runtime.process import wall_ms
from muster.actors.runtime.settings import ClusterSettings
from muster.actors.tables.events import EventStore
from muster.actors.tables.store import AT_CLOSE, SpooledStore

log = logging.getLogger(__name__)

Add = Callable[[Mapping[str, Any]], None]
"""Takes a row: its columns by name, times in ms since the Unix epoch. Returns at once and never raises."""

_FLUSH_ROWS = 20_000
"""Number of added rows after which they are flushed before the interval ends."""


def upload_tables(settings: ClusterSettings) -> None:
    """Have this process move finished files of the node to the cluster's bucket, if there is one. May be called again.

    Call it after the process was forked.
    """
    metrics = Path(settings.storage) / "metrics"
    location = settings.location
    if location is None or metrics in AT_CLOSE:
        return
    from muster.actors.tables.bucket.uploads import Uploads  # with obstore

    Uploads(metrics, location, now_ms=wall_ms).start()


class Flushing:
    """Flushes a store from ``start`` to ``close``, in threads. For the event loop, except for ``soon``.

    New errors are logged; the next flush tries again.
    """

    def __init__(
        self,
        table: str,
        store: SpooledStore[Any],
        *,
        flush_ms: int,
        collect: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """``collect`` is awaited before each flush, including the last: it adds rows that are held until then."""
        self._table = table
        self._store = store
        self._flush_s = flush_ms / 1000
        self._collect = collect
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._is_closing = False
        self._is_closed = False
        self._trouble: list[str] = []

    def start(self) -> None:
        """Begin to flush, first what a dead predecessor left. May be called again."""
        if self._task is None:
            self._loop = asyncio.get_running_loop()
            self._task = self._loop.create_task(self._flush_for_ever())

    def soon(self) -> None:
        """Flush now instead of at the end of the interval. From any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._wake.set)

    async def close(self) -> None:
        """Write everything into the table, and close the store. May be called again."""
        self._is_closing = True
        self._wake.set()
        if self._task is not None:
            await asyncio.wait([self._task])  # rows that are being collected and written are not cut off
        if not self._is_closed:
            await self._write(self._store.close)
            self._is_closed = True

    async def _flush_for_ever(self) -> None:
        while not self._is_closing:
            self._wake.clear()
            await self._write(self._store.flush)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self._flush_s)

    async def _write(self, work: Callable[[], object]) -> None:
        steps = (self._collect, partial(asyncio.to_thread, work))
        failed = [error for step in steps if step is not None and (error := await _error_of(step)) is not None]
        trouble = [
            f"{type(error).__name__} {getattr(error, 'errno', '')}" for error in failed
        ]  # messages would differ in file names
        if trouble != self._trouble:
            for error in failed:
                unforeseen = None if isinstance(error, OSError) else error
                log.error("rows of %s stay in their spool for now: %s", self._table, error, exc_info=unforeseen)
        self._trouble = trouble


async def _error_of(step: Callable[[], Awaitable[object]]) -> Exception | None:
    try:
        await step()
    except Exception as error:
        return error
    return None


class EventWriter:
    """One actor's rows of one table, under ``<storage>/metrics``; ``owner`` is the actor's name.

    ``add`` may be called from any thread, also before ``start``. Rows that a killed process added are written into the
    table by the next process. ``start`` and ``close`` are for the event loop.
    """

    def __init__(
        self,
        storage: Path,
        table: str,
        owner: str,
        *,
        flush_ms: int,
        now_ms: Callable[[], int],
        collect: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """``collect``: as for :class:`Flushing`."""
        self._store = EventStore(storage / "metrics", table, owner, now_ms=now_ms)
        self._flushing = Flushing(table, self._store, flush_ms=flush_ms, collect=collect)
        self._unflushed = 0
        self._is_closed = False
        self.start = self._flushing.start

    def add(self, *rows: Mapping[str, Any]) -> None:
        """Keep rows, with one write to the page cache. Those that cannot be kept are logged."""
        self._keep(*rows)
        self._unflushed += len(rows)
        if self._unflushed >= _FLUSH_ROWS:
            self._unflushed = 0
            self._flushing.soon()

    def add_all(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Keep many rows, flushing in between. Blocks, so do not call it from the event loop's thread."""
        for number, row in enumerate(rows, start=1):
            self._keep(row)
            if number % _FLUSH_ROWS == 0:
                with suppress(OSError):  # logged by the next flush
                    self._store.flush()

    async def close(self) -> None:
        """Write everything into the table. Rows added later are dropped. May be called again."""
        await self._flushing.close()
        self._is_closed = True

    def _keep(self, *rows: Mapping[str, Any]) -> None:
        if self._is_closed:
            return
        try:
            self._store.add(*rows)
        except Exception:
            log.exception("rows are lost: %r", rows)
