"""Calls that overlap, in a bucket in memory that can be held up."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from uuid import UUID

import pytest

from muster.actors.log.errors import FencedEpoch, NotLeader
from muster.actors.log.wal.objects import Entry, Kind, WalObject, boundary_of, name_of
from muster.actors.log.wal.opening import open_wal
from muster.actors.log.wal.writer import Wal
from muster.actors.object_storage.store import ObjectStore, Refused
from tests.object_storage.memory import MemoryBackend, MemoryBucket

ROLE = "log-0"


class Held(MemoryBackend):
    """Holds up what is written to one name."""

    def __init__(self, bucket: MemoryBucket) -> None:
        super().__init__(bucket)
        self.name = ""
        self.arrived, self.go = asyncio.Event(), asyncio.Event()

    async def create(self, name: str, content: bytes) -> str:
        if name == self.name:
            self.arrived.set()
            await self.go.wait()
        return await super().create(name, content)


def entry(text: str) -> Entry:
    return Entry(UUID(int=1), 0, 1, None, text.encode())


def test_what_is_written_while_a_collection_waits_is_not_collected() -> None:
    async def run() -> None:
        backend = Held(MemoryBucket())
        wal, _ = await open_wal(ObjectStore(backend), ROLE, 1)
        for text in "ab":
            await wal.append([entry(text)])
        backend.name = boundary_of(ROLE)
        first = asyncio.ensure_future(wal.collect(1))
        await backend.arrived.wait()
        second = asyncio.ensure_future(wal.collect(wal.next_number))
        await asyncio.sleep(0)
        await wal.append([entry("c")])
        backend.go.set()
        await asyncio.gather(first, second)
        assert name_of(ROLE, 2) in backend.bucket.objects
        _, recovered = await open_wal(ObjectStore(backend), ROLE, 2)
        assert [bytes(each.batch) for found in recovered.values() for each in found] == [b"b", b"c"]

    asyncio.run(run())


def test_a_writer_that_ends_before_it_began() -> None:
    async def run() -> None:
        wal, _ = await open_wal(ObjectStore(MemoryBackend(MemoryBucket())), ROLE, 1)
        append = wal.append([entry("a")])
        wal.abandon()
        await asyncio.wait_for(wal.close(), 30)
        with pytest.raises(NotLeader):
            await append
        with pytest.raises(NotLeader):
            await wal.append([entry("b")])

    asyncio.run(run())


def test_a_writer_that_is_always_ahead_makes_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """It hears nothing of its successor, and each of its requests is faster."""
    monkeypatch.setattr("muster.actors.log.wal.writer.LOOK_S", 0.0)
    bucket = MemoryBucket()

    class Slower(MemoryBackend):
        async def create(self, name: str, content: bytes) -> str:
            with suppress(FencedEpoch):
                await busy.append([entry("more")])
            return await super().create(name, content)

    async def run() -> None:
        nonlocal busy
        busy, _ = await open_wal(ObjectStore(MemoryBackend(bucket)), ROLE, 1)
        async with asyncio.timeout(30):
            wal, recovered = await open_wal(ObjectStore(Slower(bucket)), ROLE, 2)
            assert isinstance(busy.over, FencedEpoch)
            assert len(next(iter(recovered.values()))) == wal.next_number - 2

    busy: Wal
    asyncio.run(run())


def test_an_opener_gives_up_behind_a_newer_one() -> None:
    """It would go on behind the newer one, which would go on behind it."""

    class Overtaken(MemoryBackend):
        async def create(self, name: str, content: bytes) -> str:
            etag = await super().create(name, content)
            if name == name_of(ROLE, 0):
                newer = WalObject(kind=Kind.FENCE, epoch=9, writer=bytes(16), number=1)
                self.bucket.create(name_of(ROLE, 1), newer.encode())
            return etag

    async def run() -> None:
        bucket = MemoryBucket()
        with pytest.raises(FencedEpoch):
            await open_wal(ObjectStore(Overtaken(bucket)), ROLE, 2)
        assert sorted(bucket.objects) == ["openings/log-0", name_of(ROLE, 0), name_of(ROLE, 1)]

    asyncio.run(run())


def test_objects_that_cannot_be_deleted_stay() -> None:
    class NoDelete(MemoryBackend):
        async def delete(self, names: object) -> None:
            raise Refused("AccessDenied: no")

    async def run() -> None:
        backend = NoDelete(MemoryBucket())
        wal, _ = await open_wal(ObjectStore(backend), ROLE, 1)
        for text in "ab":
            await wal.append([entry(text)])
        await wal.collect(2)
        assert name_of(ROLE, 1) in backend.bucket.objects
        _, recovered = await open_wal(ObjectStore(backend), ROLE, 2)
        assert [bytes(each.batch) for found in recovered.values() for each in found] == [b"b"]

    asyncio.run(run())
