"""The operations on a real service, and the faults of the way to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from muster.actors.object_storage.bucket import Bucket
from muster.actors.object_storage.location import Location
from muster.actors.object_storage.store import (
    Listed,
    NoSuchObject,
    ObjectStorageError,
    ObjectStore,
    Refused,
    Taken,
    Unavailable,
)
from tests.object_storage.conftest import Connect
from tests.object_storage.faulty import Fault, Proxy

pytestmark = [pytest.mark.ring(name="object-storage"), pytest.mark.timeout(300)]


async def refused(operation: Awaitable[Any]) -> type[ObjectStorageError]:
    with pytest.raises(ObjectStorageError) as caught:
        await operation
    return type(caught.value)


async def names(bucket: Bucket, prefix: str, after: str = "") -> list[str]:
    return [listed.name async for listed in bucket.list(prefix, after)]


def test_conditions(connect: Connect) -> None:
    async def run() -> None:
        store = ObjectStore(connect())
        first = await store.create("a/1", b"one")
        assert await store.create("a/1", b"one") == first
        assert await refused(store.create("a/1", b"two")) is Taken
        second = await store.replace("a/1", b"two", first)
        assert second != first
        assert await store.replace("a/1", b"two", first) == second
        assert await refused(store.replace("a/1", b"three", first)) is Taken
        assert await refused(store.replace("a/2", b"three", first)) is Taken
        assert (await store.read("a/1")).content == b"two"
        await store.delete(["a/1", "a/never"])
        assert await refused(store.read("a/1")) is NoSuchObject
        assert await refused(store.read_range("a/1", 0, 1)) is NoSuchObject

    asyncio.run(run())


def test_one_of_many_writers_wins(connect: Connect) -> None:
    async def run() -> None:
        store = ObjectStore(connect())

        async def wins(writer: int) -> bool:
            try:
                await store.create("name", b"%d" % writer)
            except Taken:
                return False
            return True

        won = await asyncio.gather(*(wins(writer) for writer in range(16)))
        assert sum(won) == 1
        assert (await store.read("name")).content == b"%d" % won.index(True)

    asyncio.run(run())


def test_listing_more_than_a_page(connect: Connect) -> None:
    async def run() -> None:
        bucket = connect()
        await asyncio.gather(*(bucket.create(f"wal/a/{number:04d}", b"12345") for number in range(1100)))
        await bucket.create("wal/ab/0000", b"")
        expected = [f"wal/a/{number:04d}" for number in range(1100)]
        assert await names(bucket, "wal/a/") == expected
        assert await names(bucket, "wal/a/", "wal/a/1097") == expected[-2:]
        assert await names(bucket, "nothing/") == []
        first = await anext(aiter(bucket.list("wal/a/")))
        assert isinstance(first, Listed)
        assert first.size_bytes == 5
        await bucket.delete(expected)
        assert await names(bucket, "wal/") == ["wal/ab/0000"]

    asyncio.run(run())


def test_parts_of_an_object(connect: Connect) -> None:
    async def run() -> None:
        bucket = connect()
        content = bytes(range(256)) * 40_000
        await bucket.create("large", content)
        assert await bucket.read_range("large", 1_000, 10) == content[1_000:1_010]
        assert await bucket.read_range("large", len(content) - 5, 100) == content[-5:]
        assert (await bucket.read("large")).content == content

    asyncio.run(run())


@pytest.mark.parametrize("fault", [Fault.SLOW_DOWN, Fault.SERVER_ERROR, Fault.LOST_REQUEST])
def test_nothing_took_effect(connect: Connect, proxy: Proxy, fault: Fault) -> None:
    async def run() -> None:
        store = ObjectStore(connect(through_proxy=True))
        proxy.plan(fault)
        assert await refused(store.create("name", b"content")) is Unavailable
        assert await refused(store.read("name")) is NoSuchObject
        assert proxy.met == [fault]

    asyncio.run(run())


def test_each_call_is_one_request(connect: Connect, proxy: Proxy) -> None:
    """The library's own repetitions would hide whose object it is that exists."""

    async def run() -> None:
        store = ObjectStore(connect(through_proxy=True))
        proxy.plan(Fault.SLOW_DOWN)
        assert await refused(store.create("name", b"content")) is Unavailable
        assert len(proxy.seen) == 1

    asyncio.run(run())


def test_a_lost_response_to_a_write_that_took_effect(connect: Connect, proxy: Proxy) -> None:
    async def run() -> None:
        store = ObjectStore(connect(through_proxy=True))
        proxy.plan(Fault.LOST_RESPONSE)
        assert await refused(store.create("name", b"mine")) is Unavailable
        etag = await store.create("name", b"mine")
        proxy.plan(Fault.LOST_RESPONSE)
        assert await refused(store.replace("name", b"later", etag)) is Unavailable
        assert await store.replace("name", b"later", etag) != etag
        assert (await store.read("name")).content == b"later"
        assert proxy.met == [Fault.LOST_RESPONSE, Fault.LOST_RESPONSE]

    asyncio.run(run())


def test_a_conflict_that_left_nothing_is_not_taken(connect: Connect, proxy: Proxy) -> None:
    """The library reports a 409 as "already exists" (apache/arrow-rs-object-store#852)."""

    async def run() -> None:
        store = ObjectStore(connect(through_proxy=True))
        proxy.plan(Fault.CONFLICT)
        assert await refused(store.create("name", b"mine")) is Unavailable
        etag = await store.create("name", b"mine")
        proxy.plan(Fault.CONFLICT)
        assert await refused(store.replace("name", b"later", etag)) is Unavailable
        assert await store.replace("name", b"later", etag) != etag

    asyncio.run(run())


def test_a_request_that_arrives_late(connect: Connect, proxy: Proxy) -> None:
    async def run() -> None:
        late, direct = connect(through_proxy=True, request_timeout_s=1.0), connect()
        proxy.plan(Fault.HELD)
        assert await refused(ObjectStore(late).create("name", b"late")) is Unavailable
        await direct.create("name", b"other")
        await asyncio.to_thread(proxy.let_go)
        assert (await direct.read("name")).content == b"other"
        assert await refused(ObjectStore(late).create("name", b"late")) is Taken

    asyncio.run(run())


def test_a_response_that_breaks_off(connect: Connect, proxy: Proxy) -> None:
    async def run() -> None:
        bucket = connect(through_proxy=True)
        await bucket.create("name", bytes(1 << 20))
        proxy.plan(Fault.CUT, Fault.CUT, method="GET")
        assert await refused(bucket.read("name")) is Unavailable
        assert await refused(bucket.read_range("name", 10, 100_000)) is Unavailable
        assert (await bucket.read("name")).content == bytes(1 << 20)

    asyncio.run(run())


def test_credentials_that_are_not_accepted(connect: Connect, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connect()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")

    async def run() -> None:
        with pytest.raises(Refused) as caught:
            await Bucket(Location.parse(uri)).read("name")
        assert "SignatureDoesNotMatch" in str(caught.value)
        assert "another" not in str(caught.value)

    asyncio.run(run())


def test_nobody_is_there(connect: Connect, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connect()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert asyncio.run(refused(Bucket(Location.parse(uri)).read("name"))) is Unavailable
