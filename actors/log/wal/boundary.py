"""The boundary of a write-ahead log: nothing below it is needed.

Text: the first number that is needed, the epoch and the writer that moved it.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from muster.actors.log.errors import FencedEpoch, StorageError
from muster.actors.log.wal.objects import boundary_of
from muster.actors.log.wal.patience import patiently
from muster.actors.object_storage.store import NoSuchObject, ObjectStore, Stored, Taken


class Boundary:
    """The boundary as this process read or wrote it last. One move at a time."""

    def __init__(self, store: ObjectStore, role: str) -> None:
        """Use :meth:`read`."""
        self.first = 0
        self._store = store
        self._name = boundary_of(role)
        self._epoch = -1
        self._writer = ""
        self._etag: str | None = None

    @classmethod
    async def read(cls, store: ObjectStore, role: str) -> Boundary:
        """Read it; without one, it is 0. Raises StorageError if it is malformed."""
        boundary = cls(store, role)
        with suppress(NoSuchObject):
            boundary._follow(await patiently(boundary._name, partial(store.read, boundary._name)))
        return boundary

    def refuse_newer(self, epoch: int, writer: bytes) -> None:
        """Raise FencedEpoch if a newer epoch moved it, or another writer of this one."""
        if self._epoch > epoch or (self._epoch == epoch and self._writer != writer.hex()):
            raise FencedEpoch(f"{self._name}: epoch {epoch} comes after epoch {self._epoch}")

    async def move(self, first: int, epoch: int, writer: bytes) -> None:
        """Move it forward, durably. Raises FencedEpoch if a newer epoch moved it; StorageError if it is malformed.

        A writer before may still have moved it after it was read: what that one stored, its successor has read.
        """
        while self.first < first:
            content = f"{first} {epoch} {writer.hex()}".encode()
            try:
                etag = await patiently(self._name, partial(self._write, content, self._etag))
            except Taken as taken:
                if taken.found is None:
                    raise StorageError(f"{self._name} was deleted") from taken
                self._follow(taken.found)
                self.refuse_newer(epoch, writer)
            else:
                self._follow(Stored(content, etag))

    async def _write(self, content: bytes, etag: str | None) -> str:
        if etag is None:
            return await self._store.create(self._name, content)
        return await self._store.replace(self._name, content, etag)

    def _follow(self, found: Stored) -> None:
        try:
            first, epoch, self._writer = found.content.decode("ascii").split()
            self.first, self._epoch, self._etag = int(first), int(epoch), found.etag
        except ValueError as error:
            raise StorageError(f"{self._name} is not readable: {found.content[:40]!r}") from error
