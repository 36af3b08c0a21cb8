"""The trials of object storage find a service that keeps its promises only in part."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection

import pytest

from muster.actors.object_storage.store import Condition, Listed, NoSuchObject, Refused, Stored
from muster.actors.runtime.storage.buckets import ObjectPromise, check_bucket
from tests.object_storage.memory import MemoryBackend, MemoryBucket


class NoneMatchIgnored(MemoryBackend):
    async def create(self, name: str, content: bytes) -> str:
        return self.bucket.put(name, content)


class NoneMatchRaced(MemoryBackend):
    """Looks first and writes later."""

    async def create(self, name: str, content: bytes) -> str:
        if name in self.bucket.objects:
            raise Condition(name)
        await asyncio.sleep(0)
        return self.bucket.put(name, content)


class MatchIgnored(MemoryBackend):
    async def replace(self, name: str, content: bytes, etag: str) -> str:
        return self.bucket.put(name, content)


class MatchRaced(MemoryBackend):
    async def replace(self, name: str, content: bytes, etag: str) -> str:
        if self.bucket.read(name).etag != etag:
            raise Condition(name)
        await asyncio.sleep(0)
        return self.bucket.put(name, content)


class ReadFromACache(MemoryBackend):
    def __init__(self, bucket: MemoryBucket) -> None:
        super().__init__(bucket)
        self._cached: dict[str, Stored] = {}

    async def read(self, name: str) -> Stored:
        return self._cached.setdefault(name, self.bucket.read(name))


class ListedLater(MemoryBackend):
    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Listed]:
        for listed in self.bucket.page(prefix, after)[:-1]:
            yield listed


class ListedAll(MemoryBackend):
    """Ignores where the listing is to begin."""

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Listed]:
        for listed in self.bucket.page(prefix, ""):
            yield listed


class NothingDeleted(MemoryBackend):
    async def delete(self, names: Collection[str]) -> None:
        pass


class ReadOnly(MemoryBackend):
    async def create(self, name: str, content: bytes) -> str:
        raise Refused("AccessDenied: no")


@pytest.mark.parametrize("thorough", [False, True])
def test_what_keeps_all_of_them(thorough: bool) -> None:
    bucket = MemoryBucket(page=7)
    found = asyncio.run(check_bucket(MemoryBackend(bucket), thorough=thorough))
    assert [(finding.promise, finding.problem) for finding in found] == [(promise, None) for promise in ObjectPromise]
    assert bucket.objects == {}
    assert ("PUT of 4 KiB" in (found[0].detail or "")) == thorough


@pytest.mark.parametrize(
    ("backend", "promise", "problem"),
    [
        (NoneMatchIgnored, ObjectPromise.CREATE, "of 16 writers that created one object at once, 16 succeeded"),
        (NoneMatchRaced, ObjectPromise.CREATE, "of 16 writers that created one object at once, 16 succeeded"),
        (MatchIgnored, ObjectPromise.REPLACE, "of 16 writers that replaced one version at once, 16 succeeded"),
        (MatchRaced, ObjectPromise.REPLACE, "of 16 writers that replaced one version at once, 16 succeeded"),
        (ReadFromACache, ObjectPromise.READ, "an object that was just replaced is read with its content from before"),
        (ListedLater, ObjectPromise.LIST, "after object 0 was created, a listing behind the one before has []"),
        (ListedAll, ObjectPromise.LIST, "after object 1 was created, a listing behind the one before has "),
        (NothingDeleted, ObjectPromise.DELETE, "an object that was deleted can be read"),
    ],
)
def test_a_broken_promise(backend: type[MemoryBackend], promise: ObjectPromise, problem: str) -> None:
    found = asyncio.run(check_bucket(backend(MemoryBucket())))
    (broken,) = [finding for finding in found if finding.problem]
    assert broken.promise is promise
    assert (broken.problem or "").startswith(problem)


def test_a_service_that_cannot_be_used() -> None:
    with pytest.raises(Refused, match="AccessDenied"):
        asyncio.run(check_bucket(ReadOnly(MemoryBucket())))


def test_objects_of_others_stay() -> None:
    bucket = MemoryBucket()
    bucket.put("wal/log-0/00000000000000000000", b"theirs")
    asyncio.run(check_bucket(MemoryBackend(bucket)))
    assert [*bucket.objects] == ["wal/log-0/00000000000000000000"]
    with pytest.raises(NoSuchObject):
        bucket.read("other")
