"""Reads the records of a response from the files of this node.

A large response is read in its turn, and while others wait for theirs, it is shorter than it could be: a response to a
Fetch may always have less than there is, if it has a batch (KIP-74).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from muster.actors.wire.internal.fetch import Place
from muster.actors.wire.kafka.codec import ErrorCode
from muster.actors.wire.kafka.framing import Buffer
from muster.gateway.apis.data import places
from muster.gateway.apis.data.fetching.wanted import Wanted
from muster.gateway.listener.file_records import FileRecords

SMALL_BYTES = 64 << 10
"""A response of at most so many bytes stays in memory until it is sent, and needs no turn."""
_SHARE_BYTES = 1 << 20
"""The most that is read at a time while others wait; one batch, if it is larger."""


def is_small(items: Sequence[Wanted]) -> bool:
    """Whether it is read in no time."""
    return _unread_bytes(items) <= SMALL_BYTES


def shorten_now(items: Sequence[Wanted], whole: asyncio.Lock, *, is_alone: bool) -> None:
    """Leave out what is more than may be read at a time. ``is_alone``: whether no other waits for its turn."""
    limit_bytes = places.MAX_NOW_BYTES if is_alone else _SHARE_BYTES
    if _unread_bytes(items) > limit_bytes and (whole.locked() or not is_alone):
        found = places.first_of_now([item.places for item in items], limit_bytes)
        if found is not None:
            _shorten(items, found)


def read_now(items: Sequence[Wanted]) -> bool:
    """Read the records if they are in the page cache. Returns whether they are."""
    unread = [item for item in items if item.places]
    if not unread:
        return True
    try:
        found = places.PAGE_CACHE.read([item.places for item in unread])
    except places.Unread:
        return False
    if found is None:
        return False
    in_memory = is_small(unread)
    for item, records in zip(unread, found, strict=True):
        _has_read(item, records, in_memory=in_memory)
    return True


async def read(
    items: Sequence[Wanted], read_from_actor: Callable[[Wanted], Awaitable[None]], whole: asyncio.Lock
) -> None:
    """Read the records. The actor is requested those that a file does not hold (any more).

    ``whole``: held while one response is read as a whole, however large it is; others are shortened.
    """
    unread = [item for item in items if item.places]
    if not unread:
        return
    if _unread_bytes(unread) <= _SHARE_BYTES:
        await _read(unread, read_from_actor)
    elif whole.locked():
        try:
            found = await places.first_of([item.places for item in unread], _SHARE_BYTES)
        except TimeoutError:
            _fail(unread)
            return
        _shorten(unread, found)
        await _read([item for item in unread if item.places], read_from_actor)
    else:
        async with whole:
            await _read(unread, read_from_actor)


async def _read(unread: Sequence[Wanted], read_from_actor: Callable[[Wanted], Awaitable[None]]) -> None:
    try:
        found = await places.read([item.places for item in unread])
    except TimeoutError:
        _fail(unread)
        return
    in_memory = is_small(unread)
    for item, records in zip(unread, found, strict=True):
        if records is not None:
            _has_read(item, records, in_memory=in_memory)
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


def _unread_bytes(items: Sequence[Wanted]) -> int:
    return sum(place.size_bytes for item in items for place in item.places)
