"""Tables in a bucket, and processes that die between two requests."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Collection
from pathlib import Path

from muster.actors.object_storage.store import Backend, Listed, Stored
from muster.actors.tables.reading import read
from muster.actors.tables.schemas.cluster import LIFECYCLE
from tests.tables.events import HOUR_MS, NOON_MS, event, open_store


def epochs(uri: str) -> list[int]:
    """Return the epochs of all rows of the table ``lifecycle``."""
    return sorted(read(uri, LIFECYCLE, columns=["epoch"])["epoch"].to_pylist())


def flushed(metrics: Path, *numbers: int, owner: str = "controller", hours_apart: int = 1) -> None:
    """Write a file for each hour with rows of these epochs, which have one row each."""
    store = open_store(metrics, owner)
    for number in numbers:
        store.add(event(number, ts_ms=NOON_MS + hours_apart * number * HOUR_MS))
    store.close()


class DyingBackend(Backend):
    """Makes the moments before and after each request that changes something steps of ``kill_at``."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._marker = Path(tempfile.mkdtemp())

    def _step(self) -> None:
        self._marker.mkdir(exist_ok=True)

    async def create(self, name: str, content: bytes) -> str:
        self._step()
        etag = await self._backend.create(name, content)
        self._step()
        return etag

    async def replace(self, name: str, content: bytes, etag: str) -> str:
        self._step()
        etag = await self._backend.replace(name, content, etag)
        self._step()
        return etag

    async def read(self, name: str) -> Stored:
        return await self._backend.read(name)

    async def read_range(self, name: str, start: int, size_bytes: int) -> bytes:
        return await self._backend.read_range(name, start, size_bytes)

    def list(self, prefix: str, after: str = "") -> AsyncIterator[Listed]:
        return self._backend.list(prefix, after)

    async def delete(self, names: Collection[str]) -> None:
        """Delete one after the other, as a service may do it."""
        for name in names:
            self._step()
            await self._backend.delete([name])
        self._step()
