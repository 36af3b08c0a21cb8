"""Reads the records of a response from the segment files of this node, at the places that actors of it have named.

A large response is read in its turn, and while others wait for theirs, it is shorter than it could be: a response to a
Fetch may always have less than there is, if it has a batch (KIP-74).
"""

from __future__ import annotations

import asyncio
import errno
import os
import struct
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from muster.actors.log.format.batch import HEADER_BYTES, LENGTH_OVERHEAD, find_damage
from muster.actors.wire.internal.fetch import Place
from muster.actors.wire.kafka.codec import ErrorCode
from muster.actors.wire.kafka.framing import Buffer
from muster.gateway.apis.data.fetching.plan import Wanted
from muster.gateway.listener.file_records import FileRecords

SMALL_BYTES = 64 << 10
"""A response of at most so many bytes stays in memory until it is sent, and needs no turn."""
_SHARE_BYTES = 1 << 20
"""The most that is read at a time while others wait; one batch, if it is larger."""
MAX_NOW_BYTES = 4 << 20
"""More than that is read in a thread, even from the page cache: to copy and check it takes milliseconds."""
_RECENT_BYTES = 8 << 20
"""Batches kept for the next reader, in bytes: groups that read one topic read the same place within milliseconds."""
_READ_S = 10.0
_LENGTH, _LENGTH_AT = struct.Struct(">i"), 8
_THREADS = ThreadPoolExecutor(4, thread_name_prefix="places")


class NotThere(Exception):
    """The file does not hold those batches (any more)."""


class PageCache:
    """Reads what needs no disk, on the event loop."""

    def __init__(self) -> None:
        self._always_wait: set[str] = set()
        """Folders of logs on a file system that cannot read without waiting, such as NFS. A node has one or two."""
        self._recent: dict[Place, Buffer] = {}
        self._recent_bytes = 0

    def read(self, of_partitions: Sequence[Sequence[Place]]) -> list[list[Buffer]] | None:
        """Return the batches of each partition, if all of them are in the page cache and they are not many.

        Raises NotThere.
        """
        if self._always_wait and self._waits(of_partitions):
            return None
        size_bytes = 0
        for places in of_partitions:
            for place in places:
                size_bytes += place.size_bytes
        if size_bytes > MAX_NOW_BYTES:
            return None
        found: list[list[Buffer]] = []
        for places in of_partitions:
            batches: list[Buffer] = []
            for place in places:
                content = self._recent.get(place) or self._read_now(place)
                if content is None:
                    return None
                batches.append(content)
            found.append(batches)
        return found

    def _read_now(self, place: Place) -> Buffer | None:
        """None if that has to wait for the disk. Raises NotThere."""
        try:
            content = _read_now(place)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise NotThere(f"{place.path}: {error}") from error
            self._always_wait.add(_folder_of_logs(place))
            return None
        if len(content) < place.size_bytes:  # the rest may be on its way from the disk
            return None
        self._keep(place, _checked(place, content))
        return content

    def _keep(self, place: Place, content: Buffer) -> None:
        self._recent[place] = content
        self._recent_bytes += len(content)
        while self._recent_bytes > _RECENT_BYTES:
            oldest = next(iter(self._recent))
            self._recent_bytes -= len(self._recent.pop(oldest))

    def _waits(self, of_partitions: Iterable[Sequence[Place]]) -> bool:
        return any(_folder_of_logs(place) in self._always_wait for places in of_partitions for place in places)


PAGE_CACHE = PageCache()


async def read_places(of_partitions: Sequence[Sequence[Place]]) -> list[list[Buffer] | None]:
    """Return the batches of each partition, by a thread; None if a file does not hold them. Raises TimeoutError."""
    async with asyncio.timeout(_READ_S):
        return await asyncio.get_running_loop().run_in_executor(_THREADS, _read_all, of_partitions)


async def first_of(of_partitions: Sequence[Sequence[Place]], limit_bytes: int) -> list[Sequence[Place]]:
    """Return the first batches of all, about that many bytes together, but one batch at least. Raises TimeoutError."""
    async with asyncio.timeout(_READ_S):
        return await asyncio.get_running_loop().run_in_executor(_THREADS, _first_of, of_partitions, limit_bytes)


def first_of_now(of_partitions: Sequence[Sequence[Place]], limit_bytes: int) -> list[Sequence[Place]] | None:
    """Return :meth:`first_of` without waiting; None if that has to wait for the disk."""
    try:
        return _first_of(of_partitions, limit_bytes, _read_now)
    except OSError:
        return None


def _first_of(
    of_partitions: Iterable[Sequence[Place]], limit_bytes: int, read_place: Callable[[Place], Buffer] | None = None
) -> list[Sequence[Place]]:
    """Return the first batches. Raises the OSError of ``read_place``, if that is given."""
    found: list[Sequence[Place]] = []
    left, is_full = limit_bytes, False
    for places in of_partitions:
        kept: list[Place] = []
        for place in places if not is_full else ():
            if place.size_bytes > left:
                is_full = True
                size_bytes = _first_batches_bytes(place, left, read_place or _read_or_nothing)
                if size_bytes and (size_bytes <= left or left == limit_bytes):
                    kept.append(place._replace(size_bytes=size_bytes))
                break
            kept.append(place)
            left -= place.size_bytes
        found.append(kept)
    return found


def _first_batches_bytes(place: Place, limit_bytes: int, read_place: Callable[[Place], Buffer]) -> int:
    """Return the size of the place's whole batches in its first bytes; that of its first batch, if it is larger.

    Where no batches begin, return the size of the place: to read it shows what is wrong.
    """
    content = read_place(place._replace(size_bytes=min(max(limit_bytes, HEADER_BYTES), place.size_bytes)))
    at = 0
    while at + HEADER_BYTES <= len(content):
        (length,) = _LENGTH.unpack_from(content, at + _LENGTH_AT)
        end = at + LENGTH_OVERHEAD + length
        if length < 0 or end > place.size_bytes:
            return at or place.size_bytes
        if end > limit_bytes:
            return at or end
        at = end
    return at or place.size_bytes


def _read_or_nothing(place: Place) -> Buffer:
    try:
        return _read_place(place)
    except OSError:
        return b""


def _read_all(of_partitions: Iterable[Sequence[Place]]) -> list[list[Buffer] | None]:
    found: list[list[Buffer] | None] = []
    for places in of_partitions:
        try:
            found.append([_checked(place, _read_place(place)) for place in places])
        except (OSError, NotThere):
            found.append(None)
    return found


def _folder_of_logs(place: Place) -> str:
    """Without the folder of the partition."""
    return place.path.rsplit("/", 2)[0]


def _read_now(place: Place) -> Buffer:
    """Return as much as is in the page cache. Raises BlockingIOError if that is nothing, OSError."""
    fd = os.open(place.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = bytearray(place.size_bytes)
        return memoryview(content)[: os.preadv(fd, [content], place.position, os.RWF_NOWAIT)]
    finally:
        os.close(fd)


def _read_place(place: Place) -> Buffer:
    """Return as much as there is. Raises OSError."""
    fd = os.open(place.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(fd, place.size_bytes, place.position)
    finally:
        os.close(fd)


def _checked(place: Place, content: Buffer) -> Buffer:
    """Whole batches of the place's offsets, or NotThere."""
    if len(content) < place.size_bytes or find_damage(content, place.base_offset, place.next_offset) is not None:
        raise NotThere(f"{place.path}: no whole batches at byte {place.position}")
    return content


class Unread(NamedTuple):
    """Partitions whose records are in places that have not been read."""

    items: Sequence[Wanted]
    size_bytes: int

    @classmethod
    def of(cls, items: Iterable[Wanted]) -> Unread:
        """Return those of these partitions."""
        unread: list[Wanted] = []
        size_bytes = 0
        for item in items:
            found = item.found
            if found is not None and found.places and not item.records:
                unread.append(item)
                for place in found.places:
                    size_bytes += place.size_bytes
        return cls(unread, size_bytes)


def shorten_now(items: Sequence[Wanted], whole: asyncio.Lock, *, is_alone: bool) -> None:
    """Leave out what is more than may be read at a time. ``is_alone``: whether no other waits for its turn."""
    limit_bytes = MAX_NOW_BYTES if is_alone else _SHARE_BYTES
    if Unread.of(items).size_bytes > limit_bytes and (whole.locked() or not is_alone):
        found = first_of_now([item.places for item in items], limit_bytes)
        if found is not None:
            _shorten(items, found)


def read_now(unread: Unread) -> bool:
    """Read the records if they are in the page cache. Returns whether they are."""
    try:
        found = PAGE_CACHE.read([item.places for item in unread.items])
    except NotThere:
        return False
    if found is None:
        return False
    for item, records in zip(unread.items, found, strict=True):
        _has_read(item, records, in_memory=unread.size_bytes <= SMALL_BYTES)
    return True


async def read(
    items: Sequence[Wanted], read_from_actor: Callable[[Wanted], Awaitable[None]], whole: asyncio.Lock
) -> None:
    """Read the records. The actor is requested those that a file does not hold (any more).

    ``whole``: held while one response is read as a whole, however large it is; others are shortened.
    """
    unread = Unread.of(items)
    if not unread.items:
        return
    if unread.size_bytes <= _SHARE_BYTES:
        await _read(unread, read_from_actor)
    elif whole.locked():
        try:
            found = await first_of([item.places for item in unread.items], _SHARE_BYTES)
        except TimeoutError:
            _fail(unread.items)
            return
        _shorten(unread.items, found)
        await _read(Unread.of(unread.items), read_from_actor)
    else:
        async with whole:
            await _read(unread, read_from_actor)


async def _read(unread: Unread, read_from_actor: Callable[[Wanted], Awaitable[None]]) -> None:
    try:
        found = await read_places([item.places for item in unread.items])
    except TimeoutError:
        _fail(unread.items)
        return
    for item, records in zip(unread.items, found, strict=True):
        if records is not None:
            _has_read(item, records, in_memory=unread.size_bytes <= SMALL_BYTES)
        else:
            await read_from_actor(item)


def _has_read(item: Wanted, records: Sequence[Buffer], *, in_memory: bool) -> None:
    if not in_memory:
        there = zip(item.places, records, strict=True)
        item.files = [FileRecords(place.path, place.position, content) for place, content in there]
    item.records = records


def _fail(items: Sequence[Wanted]) -> None:
    for item in items:
        item.fail(ErrorCode.kafka_storage_error)


def _shorten(items: Sequence[Wanted], kept: Sequence[Sequence[Place]]) -> None:
    for item, there in zip(items, kept, strict=True):
        if not there and item.places:
            item.drop()
        elif item.places:
            item.shorten(there)
