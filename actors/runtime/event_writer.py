"""Rows of a table, written beside what an actor serves: nobody waits for them, and no trouble with them gets out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from muster.actors.tables.events import EventStore
from muster.actors.tables.store import SpooledStore

log = logging.getLogger(__name__)

Add = Callable[[Mapping[str, Any]], None]
"""Takes a row: its columns by name, times in ms since the Unix epoch. Returns at once and never raises."""

_FLUSH_ROWS = 20_000
"""How many rows of many are held before they are written."""


class Flushing:
    """Flushes a store from ``start`` to ``close``, in threads. For the event loop, but for ``soon``.

    What goes wrong is logged when it is news; the next flush tries again.
    """

    def __init__(
        self,
        table: str,
        store: SpooledStore[Any],
        *,
        flush_ms: int,
        collect: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """``collect`` is awaited before each flush, the last one too: it adds what is kept back until then."""
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
        """Flush from now on; first what a dead predecessor left. May be called again."""
        if self._task is None:
            self._loop = asyncio.get_running_loop()
            self._task = self._loop.create_task(self._flush_for_ever())

    def soon(self) -> None:
        """Flush now instead of at the end of the interval. From any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._wake.set)

    async def close(self) -> None:
        """Bring everything into the table, and close the store. May be called again."""
        self._is_closing = True
        self._wake.set()
        if self._task is not None:
            await asyncio.wait([self._task])  # what is being collected and written is not cut off
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
        ]  # texts name other files
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

    ``add`` may be called from any thread, also before ``start``: what a killed process added is brought into the table
    by the next one. ``start`` and ``close`` are for the event loop.
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

    def add(self, row: Mapping[str, Any]) -> None:
        """Keep a row, with one write to the page cache. What cannot be kept is said in the log."""
        self._keep(row)
        self._unflushed += 1
        if self._unflushed >= _FLUSH_ROWS:
            self._unflushed = 0
            self._flushing.soon()

    def add_all(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Keep many rows, writing them in between. Blocks: for other threads than the event loop's."""
        for number, row in enumerate(rows, start=1):
            self._keep(row)
            if number % _FLUSH_ROWS == 0:
                with suppress(OSError):  # told by the next flush
                    self._store.flush()

    async def close(self) -> None:
        """Bring everything into the table. What is added later is dropped. May be called again."""
        await self._flushing.close()
        self._is_closed = True

    def _keep(self, row: Mapping[str, Any]) -> None:
        if self._is_closed:
            return
        try:
            self._store.add(row)
        except Exception:
            log.exception("a row is lost: %r", row)
