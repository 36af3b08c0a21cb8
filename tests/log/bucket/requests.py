"""A bucket in memory whose requests are counted, and what is known of a log in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from muster.actors.log.bucket.copies import COPY_DISK
from muster.actors.log.bucket.role import RoleLogs
from muster.actors.log.config import LogConfig
from muster.actors.log.errors import LogError
from muster.actors.log.files.disk import Disk
from muster.actors.log.partition import PartitionLog
from muster.actors.object_storage.store import Listed, ObjectStore, Stored
from tests.log.support import NOW_MS, TOPIC_ID
from tests.object_storage.memory import MemoryBackend, MemoryBucket

ROLE = "log-0"
OTHER_ID = UUID(int=2)
Step = Callable[[int, str, str], Awaitable[None]]
"""Called with the number of the request, its kind and its name."""


async def _nothing(number: int, kind: str, name: str) -> None:
    pass


class CountedBackend(MemoryBackend):
    """Awaits ``before`` before a request takes effect, and ``after`` before its response."""

    def __init__(self, bucket: MemoryBucket, before: Step = _nothing, after: Step = _nothing) -> None:
        super().__init__(bucket)
        self.requests: list[tuple[str, str]] = []
        self._before = before
        self._after = after

    async def create(self, name: str, content: bytes) -> str:
        number = await self._begin("create", name)
        etag = self.bucket.create(name, content)
        await self._after(number, "create", name)
        return etag

    async def replace(self, name: str, content: bytes, etag: str) -> str:
        number = await self._begin("replace", name)
        new = self.bucket.replace(name, content, etag)
        await self._after(number, "replace", name)
        return new

    async def read(self, name: str) -> Stored:
        await self._begin("read", name)
        return self.bucket.read(name)

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Listed]:
        await self._begin("list", prefix)
        async for listed in super().list(prefix, after):
            yield listed

    async def delete(self, names: Collection[str]) -> None:
        number = await self._begin("delete", " ".join(names))
        self.bucket.delete(names)
        await self._after(number, "delete", " ".join(names))

    async def _begin(self, kind: str, name: str) -> int:
        self.requests.append((kind, name))
        number = len(self.requests) - 1
        await self._before(number, kind, name)
        return number


@dataclass(slots=True)
class Known:
    """Knowledge that a client has of a partition, whoever led it."""

    acknowledged: dict[int, bytes] = field(default_factory=dict)
    """Values by offset."""
    sent: dict[int, set[bytes]] = field(default_factory=dict)
    """Every value that may be at an offset."""
    start: int = 0
    """Log start of the last DeleteRecords that was acknowledged."""
    removed_before: int = 0
    """Offset up to which anybody wanted to remove anything."""

    async def append(self, log: PartitionLog, *pairs: tuple[bytes, bytes]) -> None:
        first = log.log_end_offset
        for offset, (_, value) in enumerate(pairs, first):
            self.sent.setdefault(offset, set()).add(value)
        try:
            first = await log.append_records(pairs, NOW_MS)
        except LogError:
            return
        self.acknowledged |= {offset: value for offset, (_, value) in enumerate(pairs, first)}

    async def delete_records(self, log: PartitionLog, before: int) -> None:
        self.removed_before = max(self.removed_before, before)
        try:
            self.start = max(self.start, await log.delete_records(before))
        except LogError:
            return

    def compare(self, log: PartitionLog, *, compacted: bool = False) -> None:
        """Compare it with the content of the log."""
        records = [*log.replay()]
        found = {record.offset: record.value for record in records}
        assert len(found) == len(records)
        assert self.start <= log.log_start_offset <= max(self.removed_before, self.start)
        assert all(value in self.sent[offset] for offset, value in found.items())
        expected = {offset: value for offset, value in self.acknowledged.items() if offset >= log.log_start_offset}
        missing = {offset for offset in expected if offset not in found}
        if compacted:
            newest = {value.partition(b" ")[0]: offset for offset, value in sorted(expected.items())}
            missing &= {*newest.values()}
        assert not missing, f"acknowledged, and missing: {sorted(missing)}"
        assert all(found[offset] == value for offset, value in expected.items() if offset in found)
        if not compacted:
            assert [*found] == [*range(log.log_start_offset, log.high_watermark)]


class Node:
    """A process that serves the role, on a node of its own."""

    def __init__(self, backend: MemoryBackend, folder: Path, epoch: int, config: LogConfig) -> None:
        self.backend = backend
        self.folder = folder
        self.epoch = epoch
        self.config = config
        self.role: RoleLogs | None = None
        NODES.append(self)

    async def start(self, *, disk: Disk = COPY_DISK) -> None:
        store = ObjectStore(self.backend)
        self.role = await RoleLogs.open(store, ROLE, self.epoch, self.folder, disk=disk, max_wal_bytes=1_500)

    async def open_log(self, topic: str = "t", topic_id: UUID = TOPIC_ID) -> PartitionLog:
        assert self.role is not None
        return await self.role.open_log(
            topic, 0, topic_id=topic_id, epoch=self.epoch, config=self.config, now_ms=lambda: NOW_MS
        )

    def release(self) -> None:
        """Close the files of a process that was killed."""
        for log, _ in self.role._open.values() if self.role is not None else ():
            for segment in log._writer.segments:
                segment.close()
            log._writer.append_times._close_file()

    async def stop(self, *logs: PartitionLog) -> None:
        for log in logs:
            await log.close()
        assert self.role is not None
        await self.role.close()


NODES: list[Node] = []
"""All that were started."""


def release_all() -> None:
    """Close what nodes have left open."""
    for node in NODES:
        node.release()
    NODES.clear()


async def settled(role: RoleLogs) -> None:
    """Wait until nothing is being uploaded, published or collected."""
    while True:
        await asyncio.gather(*(storage.settled() for _, storage in role._open.values()))
        await asyncio.gather(*(log._replacer.settled() for log, _ in role._open.values()))
        if role._shortening is not None:
            await asyncio.wait([role._shortening])
        elif not any(storage._uploads or log._replacer._turn.locked() for log, storage in role._open.values()):
            return
