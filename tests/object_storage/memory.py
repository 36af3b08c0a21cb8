"""A bucket in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection

from muster.actors.object_storage.store import Backend, Condition, Listed, NoSuchObject, Stored


class MemoryBucket:
    """A bucket that keeps its promises: each operation takes effect at one moment."""

    def __init__(self, page: int = 1000) -> None:
        """``page``: the number of objects in a response to a listing."""
        self.objects: dict[str, Stored] = {}
        self._page = page
        self._versions = 0

    def create(self, name: str, content: bytes) -> str:
        if name in self.objects:
            raise Condition(f"{name} exists")
        return self.put(name, content)

    def replace(self, name: str, content: bytes, etag: str) -> str:
        if name not in self.objects or self.objects[name].etag != etag:
            raise Condition(f"{name} has changed")
        return self.put(name, content)

    def read(self, name: str) -> Stored:
        if name not in self.objects:
            raise NoSuchObject(f"{name} does not exist")
        return self.objects[name]

    def page(self, prefix: str, after: str) -> list[Listed]:
        names = sorted(name for name in self.objects if name.startswith(prefix) and name > after)
        return [Listed(name, len(self.objects[name].content)) for name in names[: self._page]]

    def delete(self, names: Collection[str]) -> None:
        for name in names:
            self.objects.pop(name, None)

    def put(self, name: str, content: bytes) -> str:
        """Write an object, whatever is there."""
        self._versions += 1
        self.objects[name] = Stored(content, f'"{self._versions}"')
        return self.objects[name].etag


class MemoryBackend(Backend):
    """Without any delay."""

    def __init__(self, bucket: MemoryBucket) -> None:
        self.bucket = bucket

    async def create(self, name: str, content: bytes) -> str:
        return self.bucket.create(name, content)

    async def replace(self, name: str, content: bytes, etag: str) -> str:
        return self.bucket.replace(name, content, etag)

    async def read(self, name: str) -> Stored:
        return self.bucket.read(name)

    async def read_range(self, name: str, start: int, size_bytes: int) -> bytes:
        return self.bucket.read(name).content[start : start + size_bytes]

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Listed]:
        while page := self.bucket.page(prefix, after):
            for listed in page:
                yield listed
            after = page[-1].name

    async def delete(self, names: Collection[str]) -> None:
        self.bucket.delete(names)
