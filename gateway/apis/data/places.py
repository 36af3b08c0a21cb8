"""Reads record batches from segment files, at the places that an actor of this node has named."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Sequence

from muster.actors.log.format.batch import find_damage
from muster.actors.wire.fetching import Place
from muster.actors.wire.framing import Buffer

_MAX_NOW_BYTES = 4 << 20
"""More than that is read in a thread, even from the page cache: the copy takes a millisecond."""
_NOT_NOW = frozenset((errno.EAGAIN, errno.EOPNOTSUPP))


class Unread(Exception):
    """The file does not hold those batches (any more)."""


def read_now(places: Sequence[Place]) -> list[Buffer] | None:
    """The batches, if they are in the page cache; None if the disk has to be waited for. Unread."""
    if sum(place.size_bytes for place in places) > _MAX_NOW_BYTES:
        return None
    found: list[Buffer] = []
    for place in places:
        content = _read(place, os.RWF_NOWAIT)
        if content is None:
            return None
        found.append(content)
    return found


async def read(places: Sequence[Place]) -> list[Buffer]:
    """The batches. Unread."""

    def read_all() -> list[Buffer]:
        return [content for place in places if (content := _read(place, 0)) is not None]

    return await asyncio.to_thread(read_all)


def _read(place: Place, flags: int) -> bytearray | None:
    """Whole and checked; None if the flags do not allow to read it now."""
    content = bytearray(place.size_bytes)
    try:
        fd = os.open(place.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size_bytes = os.preadv(fd, [content], place.position, flags)
        finally:
            os.close(fd)
    except OSError as error:
        if flags and error.errno in _NOT_NOW:
            return None
        raise Unread(f"{place.path}: {error}") from error
    if size_bytes < place.size_bytes and flags:
        return None
    if size_bytes < place.size_bytes or find_damage(content, place.base_offset, place.next_offset) is not None:
        raise Unread(f"{place.path}: no whole batches at byte {place.position}")
    return content
