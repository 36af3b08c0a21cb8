"""The operations on a place in object storage, and what a lost response means.

A name is what follows the location's prefix, with slashes. Contents are whole objects, or a part of one.

**Outcome unknown.** A request that got no response may have taken effect, or may still do so. A conditional one that is
then repeated finds its own object there and is refused. Therefore a refused content is compared with what is there:
what is equal was written by an earlier attempt. So two writers that compete for a name must not write equal contents;
a nonce in each sees to that.

**A conflict that left nothing.** S3 responds 409 to a conditional write that met another on its way, and obstore
reports both as "exists". Nothing may be there then, and the attempt counts as one without outcome. (AWS: "On a 409
failure, retry the upload"; apache/arrow-rs-object-store#852.)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass


class ObjectStorageError(Exception):
    """A request failed. The text is fit for users: it has no credentials."""


class Unavailable(ObjectStorageError):
    """The outcome is unknown: no response, a server's error, or too many requests. It may be tried again."""


class Refused(ObjectStorageError):
    """The service does not let this process do that: credentials, rights, no such bucket."""


class NoSuchObject(ObjectStorageError):
    """There is no object of that name."""


class Taken(ObjectStorageError):
    """Another object, or another version of it, is there."""

    def __init__(self, name: str, found: Stored | None) -> None:
        super().__init__(f"{name} is another object than was expected")
        self.found = found
        """None: there is none."""


class Condition(ObjectStorageError):
    """The condition of a write does not hold, as far as the service says: :class:`ObjectStore` finds out more."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An object's content and version."""

    content: bytes
    etag: str
    """Only for :meth:`Backend.replace`; what is in it differs by service."""


@dataclass(frozen=True, slots=True)
class Listed:
    name: str
    size_bytes: int


class Backend(ABC):
    """One attempt for each call. All raise Unavailable and Refused."""

    @abstractmethod
    async def create(self, name: str, content: bytes) -> str:
        """Write an object that must not exist; return its ETag. Raises Condition."""

    @abstractmethod
    async def replace(self, name: str, content: bytes, etag: str) -> str:
        """Write an object whose ETag is that one; return the new one. Raises Condition."""

    @abstractmethod
    async def read(self, name: str) -> Stored:
        """Raise NoSuchObject."""

    @abstractmethod
    async def read_range(self, name: str, start: int, size_bytes: int) -> bytes:
        """Return the part of an object; less at its end. Raises NoSuchObject."""

    @abstractmethod
    def list(self, prefix: str, after: str = "") -> AsyncIterator[Listed]:
        """Yield the objects whose names begin with ``prefix`` and come after ``after``, in the order of their names.

        ``prefix`` ends with a slash.
        """

    @abstractmethod
    async def delete(self, names: Collection[str]) -> None:
        """Delete objects, those that exist. Raises nothing if one does not."""


class ObjectStore:
    """A backend whose conditional writes mean what they say. One attempt for each call, too."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.read = backend.read
        self.read_range = backend.read_range
        self.list = backend.list
        self.delete = backend.delete

    async def create(self, name: str, content: bytes) -> str:
        """Write an object that must not exist, or be this one; return its ETag.

        Raises Taken if another one is there; Unavailable or Refused.
        """
        try:
            return await self._backend.create(name, content)
        except Condition as condition:
            try:
                found = await self._backend.read(name)
            except NoSuchObject:
                raise Unavailable(f"{name} neither could be created nor exists") from condition
            return _own(name, content, found)

    async def replace(self, name: str, content: bytes, etag: str) -> str:
        """Write an object whose ETag is that one, or is this one; return the new one.

        Raises Taken if another version is there, or none; Unavailable or Refused.
        """
        try:
            return await self._backend.replace(name, content, etag)
        except Condition as condition:
            try:
                found = await self._backend.read(name)
            except NoSuchObject:
                raise Taken(name, None) from condition
            if found.etag == etag:
                raise Unavailable(f"{name} could not be replaced, and is unchanged") from condition
            return _own(name, content, found)


def _own(name: str, content: bytes, found: Stored) -> str:
    if found.content != content:
        raise Taken(name, found)
    return found.etag
