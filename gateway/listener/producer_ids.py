"""The producer ids that one gateway assigns: one block of the controller's at a time, the next one requested early."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

_FEW = 100


class ProducerIds:
    """While ids are left, new idempotent producers need neither the controller nor ZooKeeper."""

    def __init__(self, next_block: Callable[[], Awaitable[range]]) -> None:
        """``next_block`` returns unused ids. If it raises and no id is left, :meth:`next` raises the same."""
        self._next_block = next_block
        self._ids: deque[int] = deque()
        self._filling: asyncio.Task[None] | None = None

    def prepare(self) -> None:
        """Request a block before it is needed; does not wait."""
        self._fill()

    def stop(self) -> None:
        """Send no more requests; a block in flight is lost, as blocks may be."""
        if self._filling is not None:
            self._filling.cancel()

    async def next(self) -> int:
        """An id that no other producer of this cluster has or had."""
        while True:
            filling = self._fill() if len(self._ids) <= _FEW else None
            if self._ids:
                return self._ids.popleft()
            assert filling is not None
            await asyncio.shield(filling)

    def _fill(self) -> asyncio.Task[None]:
        if self._filling is None:
            self._filling = asyncio.get_running_loop().create_task(self._fetch_block())
            self._filling.add_done_callback(self._filled)
        return self._filling

    async def _fetch_block(self) -> None:
        self._ids.extend(await self._next_block())

    def _filled(self, filling: asyncio.Task[None]) -> None:
        self._filling = None
        if not filling.cancelled():
            filling.exception()  # the callers that wait get it; asyncio need not report it
