"""The write-ahead log on a real service, and the faults of the way to it.

The simulation (``tests/simulation/wal``) has the rare orders of events; here are the requests as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from uuid import UUID

import pytest

from muster.actors.log.errors import FencedEpoch, NotLeader, StorageError
from muster.actors.log.wal.objects import Entry, name_of
from muster.actors.log.wal.opening import Recovered, open_wal
from muster.actors.log.wal.writer import MAX_OBJECT_BYTES, Wal
from muster.actors.object_storage.store import ObjectStore
from tests.object_storage.conftest import Connect, connect, proxy, service, uri
from tests.object_storage.faulty import Fault, Proxy

pytestmark = [pytest.mark.ring(name="object-storage"), pytest.mark.timeout(120)]

__all__ = ["connect", "proxy", "service", "uri"]

ROLE, TOPIC = "log-0", UUID(int=1)
_WITHIN_S = 60.0


def entry(text: str, partition: int = 0) -> Entry:
    return Entry(TOPIC, partition, 1, None, text.encode())


def texts(recovered: Recovered, partition: int = 0) -> list[str]:
    return [bytes(each.batch).decode() for each in recovered.get((TOPIC, partition), ())]


async def written(wal: Wal, *lines: str) -> list[int]:
    """Append each as one, all at once; return the numbers of their objects."""
    return await soon(asyncio.gather(*(wal.append([entry(line)]) for line in lines)))


async def soon(awaitable: Awaitable[list[int]]) -> list[int]:
    return await asyncio.wait_for(awaitable, _WITHIN_S)


def test_the_next_owner_finds_everything(connect: Connect) -> None:
    async def run() -> None:
        store = ObjectStore(connect())
        first, recovered = await open_wal(store, ROLE, 1)
        assert texts(recovered) == []
        assert await written(first, "a") == [1]
        assert await written(first, "b", "c") == [2, 2]
        second, recovered = await open_wal(store, ROLE, 2)
        assert texts(recovered) == ["a", "b", "c"]
        with pytest.raises(FencedEpoch):
            await written(first, "d")
        with pytest.raises(FencedEpoch):
            await written(first, "e")
        assert await written(second, "f") == [4]
        await second.close()
        with pytest.raises(NotLeader):
            await written(second, "g")
        _, recovered = await open_wal(store, ROLE, 3)
        assert texts(recovered) == ["a", "b", "c", "f"]

    asyncio.run(run())


def test_an_epoch_is_taken_once(connect: Connect) -> None:
    async def run() -> None:
        store = ObjectStore(connect())
        await open_wal(store, ROLE, 5)
        for epoch in (5, 4):
            with pytest.raises(FencedEpoch):
                await open_wal(store, ROLE, epoch)
        wal, _ = await open_wal(store, "log-1", 4)
        assert wal.next_number == 1

    asyncio.run(run())


def test_what_waits_goes_into_one_object(connect: Connect, proxy: Proxy) -> None:
    async def run() -> None:
        wal, _ = await open_wal(ObjectStore(connect(through_proxy=True)), ROLE, 1)
        before = len(proxy.seen)
        numbers = await written(wal, *(str(number) for number in range(100)))
        assert numbers == [1] * 100
        assert len(proxy.seen) == before + 1

    asyncio.run(run())


def test_large_appends(connect: Connect) -> None:
    async def run() -> None:
        store = ObjectStore(connect())
        wal, _ = await open_wal(store, ROLE, 1)
        large = "x" * (MAX_OBJECT_BYTES + 1)
        half = "y" * (MAX_OBJECT_BYTES // 2)
        assert await written(wal, large, "a", half, half) == [1, 2, 2, 3]
        _, recovered = await open_wal(store, ROLE, 2)
        assert texts(recovered) == [large, "a", half, half]

    asyncio.run(run())


@pytest.mark.parametrize(
    "fault", [Fault.LOST_RESPONSE, Fault.LOST_REQUEST, Fault.SLOW_DOWN, Fault.SERVER_ERROR, Fault.CONFLICT]
)
def test_an_append_outlives_faults(connect: Connect, proxy: Proxy, fault: Fault) -> None:
    async def run() -> None:
        wal, _ = await open_wal(ObjectStore(connect(through_proxy=True)), ROLE, 1)
        proxy.plan(fault, fault, part="/wal/")
        assert await written(wal, "a") == [1]
        assert await written(wal, "b") == [2]
        assert proxy.met == [fault, fault]
        _, recovered = await open_wal(ObjectStore(connect()), ROLE, 2)
        assert texts(recovered) == ["a", "b"]

    asyncio.run(run())


def test_a_put_that_arrives_after_the_fence(connect: Connect, proxy: Proxy) -> None:
    async def run() -> None:
        late = ObjectStore(connect(through_proxy=True, request_timeout_s=2.0))
        wal, _ = await open_wal(late, ROLE, 1)
        await written(wal, "a")
        proxy.plan(Fault.HELD, part="/wal/")
        append = wal.append([entry("late")])
        await asyncio.to_thread(proxy.await_fault)
        successor, recovered = await open_wal(ObjectStore(connect()), ROLE, 2)
        assert texts(recovered) == ["a"]
        await asyncio.to_thread(proxy.let_go)
        with pytest.raises(FencedEpoch):
            await asyncio.wait_for(append, _WITHIN_S)
        await written(successor, "b")
        _, recovered = await open_wal(ObjectStore(connect()), ROLE, 3)
        assert texts(recovered) == ["a", "b"]

    asyncio.run(run())


def test_opening_outlives_faults(connect: Connect, proxy: Proxy) -> None:
    async def run() -> None:
        wal, _ = await open_wal(ObjectStore(connect()), ROLE, 1)
        await written(wal, "a")
        proxy.plan(Fault.LOST_RESPONSE, Fault.SLOW_DOWN, part="/wal/")
        proxy.plan(Fault.CUT, Fault.SERVER_ERROR, method="GET", part="/wal/")
        _, recovered = await asyncio.wait_for(open_wal(ObjectStore(connect(through_proxy=True)), ROLE, 2), _WITHIN_S)
        assert texts(recovered) == ["a"]
        assert len(proxy.met) == 4

    asyncio.run(run())


def test_collecting(connect: Connect) -> None:
    async def run() -> None:
        bucket = connect()
        store = ObjectStore(bucket)
        first, _ = await open_wal(store, ROLE, 1)
        for line in "abcd":
            await written(first, line)
        second, _ = await open_wal(store, ROLE, 2)
        await written(second, "e")
        await second.collect(4)
        names = [listed.name async for listed in bucket.list(f"wal/{ROLE}/")]
        assert names == [name_of(ROLE, number) for number in (0, 4, 5, 6)], "the fences 0 and 5 stay"
        await second.collect(1_000)
        names = [listed.name async for listed in bucket.list(f"wal/{ROLE}/")]
        assert names == [name_of(ROLE, number) for number in (0, 5, 6)], "so does the newest"
        third, recovered = await open_wal(store, ROLE, 3)
        assert texts(recovered) == ["e"]
        with pytest.raises(FencedEpoch):
            await written(second, "f")
        await third.collect(6)

    asyncio.run(run())


def test_an_object_that_is_missing_or_damaged(connect: Connect) -> None:
    async def run() -> None:
        bucket = connect()
        wal, _ = await open_wal(ObjectStore(bucket), ROLE, 1)
        await written(wal, "a")
        await written(wal, "b")
        content = await bucket.read(name_of(ROLE, 1))
        await bucket.delete([name_of(ROLE, 1)])
        with pytest.raises(StorageError, match="00000000000000000001"):
            await open_wal(ObjectStore(bucket), ROLE, 2)
        await bucket.create(name_of(ROLE, 1), content.content[:-1])
        with pytest.raises(StorageError, match="00000000000000000001 is damaged"):
            await open_wal(ObjectStore(bucket), ROLE, 3)

    asyncio.run(run())


def test_closing_takes_nothing_more(connect: Connect) -> None:
    async def run() -> None:
        wal, _ = await open_wal(ObjectStore(connect()), ROLE, 1)

        async def produce() -> int:
            acknowledged = 0
            while True:
                try:
                    await wal.append([entry("a")])
                except NotLeader:
                    return acknowledged
                assert wal.over is None, "acknowledged after it was closed"
                acknowledged += 1

        producing = asyncio.ensure_future(produce())
        await written(wal, "b")
        await asyncio.wait_for(wal.close(), _WITHIN_S)
        assert await producing > 0

    asyncio.run(run())


@pytest.mark.parametrize("interval_ms", [0, 60_000])
def test_whatever_ends_it_ends_the_log(connect: Connect, interval_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No future stays open, and no number is used again."""

    async def run() -> None:
        store = ObjectStore(connect())
        wal, _ = await open_wal(store, ROLE, 1, flush_interval_ms=interval_ms)
        await written(wal, "a")
        if interval_ms:  # it waits for its turn
            waiting = wal.append([entry("b")])
            await asyncio.sleep(0)
            assert wal._task is not None
            wal._task.cancel()
            with pytest.raises(NotLeader):
                await asyncio.wait_for(waiting, _WITHIN_S)
        else:

            async def fails(*_: object) -> str:
                raise RuntimeError("cannot schedule new futures after shutdown")

            monkeypatch.setattr(store, "create", fails)
            with pytest.raises(StorageError, match="cannot schedule"):
                await written(wal, "b")
            monkeypatch.undo()
        with pytest.raises((NotLeader, StorageError)):
            await written(wal, "c")

    asyncio.run(run())


def test_closing_while_the_service_is_away(connect: Connect, proxy: Proxy) -> None:
    async def run() -> None:
        wal, _ = await open_wal(ObjectStore(connect(through_proxy=True)), ROLE, 1)
        proxy.plan(*[Fault.SLOW_DOWN] * 1000, part="/wal/")
        append = wal.append([entry("a")])
        await asyncio.to_thread(proxy.await_fault)
        closing = asyncio.ensure_future(wal.close())
        wal.abandon()
        await asyncio.wait_for(closing, _WITHIN_S)
        with pytest.raises(NotLeader):
            await append

    asyncio.run(run())
