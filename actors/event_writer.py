"""Rows of a table, written beside what an actor serves: nobody waits for them, and no trouble with them gets out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from actors.tables.events import EventStore

log = logging.getLogger(__name__)

Add = Callable[[Mapping[str, Any]], None]
"""Takes a row: its columns by name, times in ms since the Unix epoch. Returns at once and never raises."""

_FLUSH_ROWS = 20_000
"""How many rows of many are held before some are written."""


class EventWriter:
    """One actor's rows of one table, under ``<storage>/metrics``; ``owner`` is the actor's name.

    ``add`` may be called from any thread, also before ``start``: what a killed process added is brought into the table
    by the next one. The other methods are for the event loop.
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
        """``collect`` is awaited before each flush, the last one too: it adds what is kept back until then."""
        self._store = EventStore(storage / "metrics", table, owner, now_ms=now_ms)
        self._flush_s = flush_ms / 1000
        self._collect = collect
        self._flushing: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._table = table
        self._trouble: str | None = None
        self._is_closed = False

    def add(self, row: Mapping[str, Any]) -> None:
        """Keep a row, with one write to the page cache. What cannot be kept is said in the log."""
        if self._is_closed:
            return
        try:
            self._store.add(row)
        except Exception:
            log.exception("a row is lost: %r", row)

    def add_all(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Keep many rows, writing them in between. Blocks: for other threads than the event loop's."""
        for number, row in enumerate(rows, start=1):
            self.add(row)
            if number % _FLUSH_ROWS == 0:
                with suppress(OSError):  # told by the next flush
                    self._store.flush()

    def start(self) -> None:
        """Flush from now on; first what a dead predecessor left. May be called again."""
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().create_task(self._flush_for_ever())

    async def close(self) -> None:
        """Bring everything into the table. What is added later is dropped. May be called again."""
        if self._flushing is not None:
            self._closing.set()  # what is being collected and written is not cut off
            await asyncio.wait([self._flushing])
        if self._is_closed:
            return
        await self._write(self._store.close)
        self._is_closed = True

    async def _flush_for_ever(self) -> None:
        while not self._closing.is_set():
            await self._write(self._store.flush)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), self._flush_s)

    async def _write(self, work: Callable[[], object]) -> None:
        try:
            if self._collect is not None:
                await self._collect()
            await asyncio.to_thread(work)
        except Exception as error:
            trouble = f"{type(error).__name__} {getattr(error, 'errno', '')}"  # the text names another file each time
            if trouble != self._trouble:
                unforeseen = None if isinstance(error, OSError) else error
                log.error("rows of %s stay in their spool for now: %s", self._table, error, exc_info=unforeseen)
            self._trouble = trouble
        else:
            self._trouble = None
