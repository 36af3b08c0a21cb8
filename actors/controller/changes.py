"""How state in ZooKeeper is changed: one change at a time, in threads; what an outage left unknown is read after it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from muster.placement.zookeeper.client import ZooKeeperUnreachable

T = TypeVar("T")

UNKNOWN = "ZooKeeper is unavailable; whether this was done is not known."
NOT_BEGUN = "ZooKeeper is unavailable; this was not begun."
_PATIENCE_S = 20.0
"""How long a change waits for earlier ones; after that it is not begun. Gateways wait 30 s for its response."""
_RELOAD_S = 0.5


class Changes:
    """For one event loop."""

    def __init__(
        self, of: str, read: Callable[[], Awaitable[None]], changed: Callable[[], None], *, threads: int = 1
    ) -> None:
        """``of``: the plural of what changes. ``read`` reads all of it again, then ``changed`` is called.

        The threads are a separate pool: what waits for ZooKeeper must not delay other work of the process in threads.
        """
        self.busy = f"Other changes of {of} take too long; this was not begun."
        """Message for a change that had no turn."""
        self._read = read
        self._changed = changed
        self._one_change = asyncio.Lock()
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=of)
        self._reloading: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[bool]:
        """Wait for earlier changes. False if they take too long: then nothing may be changed."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._one_change.acquire()
        except TimeoutError:
            yield False
            return
        try:
            yield True
        finally:
            self._one_change.release()

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run blocking work in a thread; return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def reload(self, *, is_away: bool) -> None:
        """Publish what ZooKeeper has; if ZooKeeper is unavailable (``is_away``), as soon as it is available again."""
        if not is_away:
            with contextlib.suppress(ZooKeeperUnreachable):
                await self._reload()
                return
        self.reload_soon()

    def reload_soon(self) -> None:
        """Read ZooKeeper again once it is available: the outcome of a change during an outage is known only then."""
        if self._reloading is None or self._reloading.done():
            self._reloading = asyncio.get_running_loop().create_task(self._reload_later())

    async def _reload_later(self) -> None:
        while True:
            await asyncio.sleep(_RELOAD_S)
            async with self._one_change:
                with contextlib.suppress(ZooKeeperUnreachable):
                    await self._reload()
                    return

    async def _reload(self) -> None:
        await self._read()
        self._changed()
