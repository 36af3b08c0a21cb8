"""Reads the records of a response from the files of this node."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from muster.actors.wire.codec import ErrorCode
from muster.gateway.apis.data import places
from muster.gateway.apis.data.fetching.wanted import Wanted


def read_now(items: Iterable[Wanted]) -> bool:
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
    for item, records in zip(unread, found, strict=True):
        item.records = records
    return True


async def read(items: Iterable[Wanted], read_from_actor: Callable[[Wanted], Awaitable[None]]) -> None:
    """Read the records. The actor is requested those that a file does not hold (any more)."""
    unread = [item for item in items if item.places]
    if not unread:
        return
    try:
        found = await places.read([item.places for item in unread])
    except TimeoutError:
        for item in unread:
            item.fail(ErrorCode.kafka_storage_error)
        return
    for item, records in zip(unread, found, strict=True):
        if records is not None:
            item.records = records
        else:
            await read_from_actor(item)
