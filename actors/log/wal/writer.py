"""Writes the write-ahead log of a role: :mod:`muster.actors.log.wal`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from muster.actors.log.errors import FencedEpoch, LogError, NotLeader, StorageError
from muster.actors.log.wal.announcement import newest_announced
from muster.actors.log.wal.boundary import Boundary
from muster.actors.log.wal.objects import FENCE_BYTES, Entry, Kind, WalObject, folder_of, name_of, number_in
from muster.actors.log.wal.patience import patiently
from muster.actors.object_storage.store import ObjectStorageError, ObjectStore, Taken

log = logging.getLogger(__name__)

MAX_OBJECT_BYTES = 4 << 20
"""A larger one is written only for a single append that is larger itself."""

LOOK_S = 5.0
"""How often a busy writer looks for a successor that was announced."""


class _Append(NamedTuple):
    entries: Sequence[Entry]
    size_bytes: int
    done: asyncio.Future[int]


class Wal:
    """The writer of one epoch. For the event loop's thread. Open it with ``opening.open_wal``."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        role: str,
        epoch: int,
        writer: bytes,
        number: int,
        boundary: Boundary,
        flush_interval_ms: int,
    ) -> None:
        """Use ``opening.open_wal``. ``number`` is that of the next object."""
        self.over: LogError | None = None
        """Why nothing more can be written: fenced or closed."""
        self.queued_bytes = 0
        """Size of what waits for an object of its own."""
        self.ended = asyncio.Event()
        """Set when it is over."""
        self._store = store
        self._role = role
        self._epoch = epoch
        self.writer = writer
        """See ``opening.open_wal``."""
        self._number = number
        self._boundary = boundary
        self._interval_s = flush_interval_ms / 1000
        self._began_s = 0.0
        """When the last object was sent."""
        self._queue: list[_Append] = []
        self._sent: Sequence[_Append] = ()
        """The appends in the object that was sent last."""
        self._is_sending = False
        self._looking: asyncio.Task[None] | None = None
        self._looked_s = 0.0
        self._closing: LogError | None = None
        """Why no more is taken: it is being closed."""
        self._collecting = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    @property
    def next_number(self) -> int:
        """The number that the next object gets, unless a late fence has it.

        Not everybody may have been told of the one before: keep what is appended from the call of ``append`` on.
        """
        return self._number

    @property
    def waiting_s(self) -> float:
        """How long the object that is on its way has been on its way, in seconds; 0 without one."""
        return asyncio.get_running_loop().time() - self._began_s if self._is_sending else 0.0

    @property
    def first_needed(self) -> int:
        """Number below which nothing is needed any more."""
        return self._boundary.first

    @property
    def _newest(self) -> int:
        """Number of the newest object. It is never deleted: an opener finds out by it that a number was freed."""
        return self._number - 1

    def append(self, entries: Sequence[Entry]) -> asyncio.Future[int]:
        """Queue batches of one partition, or several, that belong into one object; at least one.

        The future gets the object's number once they are durable, in the order of the calls. It fails with FencedEpoch,
        NotLeader or StorageError once the log is over, and then they may be durable or not.
        """
        loop = asyncio.get_running_loop()
        append = _Append(entries, sum(entry.size_bytes for entry in entries), loop.create_future())
        if (over := self.over or self._closing) is not None:
            _fail([append], over)
            return append.done
        self._queue.append(append)
        self.queued_bytes += append.size_bytes
        if self._task is None:
            self._start()
        return append.done

    async def collect(self, first: int) -> None:
        """Delete what is below that number, for good: it is in segments. Raises FencedEpoch, NotLeader or StorageError.

        A failure to delete is left for the next time. One call after the other.
        """
        first = min(first, self._newest)  # of now: what is written while it waits is in no segment
        async with self._collecting:
            if (over := self.over or self._closing) is not None:
                raise over.again()
            if first <= self._boundary.first:
                return
            try:
                await self._boundary.move(first, self._epoch, self.writer)
            except LogError as error:
                self._end(error)
                raise
            try:
                await self._store.delete(await self._below(first))
            except ObjectStorageError as error:
                log.warning("wal of %s: what is below %d is still there: %s", self._role, first, error)

    async def _below(self, first: int) -> list[str]:
        """Return the names of the objects below that number that are not fences."""
        names = []
        async for listed in self._store.list(folder_of(self._role)):
            if number_in(listed.name) >= first:
                break
            if listed.size_bytes != FENCE_BYTES:
                names.append(listed.name)
        return names

    async def close(self) -> None:
        """Refuse everything else, and write what is queued. Waits while the bucket cannot be reached, and its turn."""
        self._closing = NotLeader(f"{self._role} is closed")
        while self._task is not None:
            await asyncio.wait([self._task])
        self._end(self._closing)
        if self._looking is not None:
            self._looking.cancel()

    def abandon(self) -> None:
        """End without waiting: what is queued fails, and may be durable or not."""
        self._end(NotLeader(f"{self._role} is closed"))
        if self._task is not None:
            self._task.cancel()

    def _start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """End the log unless its task has written everything: it may have used a number without knowing it."""
        self._task = None
        if task.cancelled():
            self._end(NotLeader(f"{self._role} is closed"))
        elif (error := task.exception()) is not None:
            if not isinstance(error, LogError):
                log.error("wal of %s: it cannot be written", self._role, exc_info=error)
                error = StorageError(f"wal of {self._role}: {error!r}")
            self._end(error)
        elif self._queue and self.over is None:
            self._start()
        if self.over is not None:
            _fail(self._sent, self.over)

    async def _run(self) -> None:
        while self._queue and self.over is None:
            await self._await_turn()
            if self.over is not None:
                return
            self._sent, self._is_sending = self._take(), True
            number = await self._put([entry for append in self._sent for entry in append.entries])
            self._is_sending = False
            for append in self._sent:
                if not append.done.done():
                    append.done.set_result(number)
            self._look_for_successor()

    def _look_for_successor(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if self._looking is None and now_s - self._looked_s > LOOK_S:
            self._looked_s = now_s
            self._looking = asyncio.get_running_loop().create_task(self._make_way())
            self._looking.add_done_callback(self._has_looked)

    async def _make_way(self) -> None:
        """End if a newer epoch was announced. What is on its way may still be acknowledged: it has no fence before."""
        with suppress(ObjectStorageError):
            newest = await newest_announced(self._store, self._role)
            if newest > self._epoch:
                self._end(FencedEpoch(f"{self._role}: epoch {self._epoch} makes way for epoch {newest}"))

    def _has_looked(self, task: asyncio.Task[None]) -> None:
        self._looking = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("wal of %s: whether it has a successor is not known", self._role, exc_info=error)

    async def _await_turn(self) -> None:
        loop = asyncio.get_running_loop()
        wait_s = self._began_s + self._interval_s - loop.time()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        self._began_s = loop.time()

    def _take(self) -> list[_Append]:
        size, count = 0, 0
        for append in self._queue:
            size += append.size_bytes
            if count and size > MAX_OBJECT_BYTES:
                break
            count += 1
        taken, self._queue = self._queue[:count], self._queue[count:]
        self.queued_bytes -= sum(append.size_bytes for append in taken)
        return taken

    async def _put(self, entries: Sequence[Entry]) -> int:
        """Write one object; return its number. Raises FencedEpoch or StorageError."""
        while True:
            number, name = self._number, name_of(self._role, self._number)
            content = WalObject(
                kind=Kind.DATA, epoch=self._epoch, writer=self.writer, number=number, entries=entries
            ).encode()
            try:
                await patiently(name, partial(self._store.create, name, content))
            except Taken as taken:
                refuse_newer(self._role, self._epoch, taken)
                log.warning("wal of %s: number %d is taken by an older epoch", self._role, number)
                self._number += 1
                continue
            self._number += 1
            return number

    def _end(self, error: LogError) -> None:
        self.over = self.over or error
        self.ended.set()
        failed, self._queue, self.queued_bytes = self._queue, [], 0
        _fail(failed, self.over)


def _fail(appends: Sequence[_Append], error: LogError) -> None:
    """Fail those that are not done."""
    for append in appends:
        if not append.done.done():
            append.done.set_exception(error.again())
            append.done.exception()  # a caller that was cancelled does not read it


def refuse_newer(role: str, epoch: int, taken: Taken) -> None:
    """Raise FencedEpoch unless the object that has the number is of an older epoch; StorageError if it is none."""
    assert taken.found is not None, "a name that is taken has an object"
    found = WalObject.decode(str(taken), taken.found.content)
    if found.epoch >= epoch:
        raise FencedEpoch(f"{role}: epoch {epoch} was fenced by epoch {found.epoch} at number {found.number}")
