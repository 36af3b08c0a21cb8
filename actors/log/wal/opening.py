"""Opening a write-ahead log: the fence, and what the writers before have left.

:mod:`muster.actors.log.wal` explains why it is safe.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import defaultdict
from contextlib import suppress
from functools import partial
from uuid import UUID

from muster.actors.log.errors import FencedEpoch, StorageError
from muster.actors.log.wal.announcement import announce
from muster.actors.log.wal.boundary import Boundary
from muster.actors.log.wal.objects import Entry, Kind, WalObject, folder_of, name_of, number_in
from muster.actors.log.wal.patience import patiently
from muster.actors.log.wal.writer import Wal, refuse_newer
from muster.actors.object_storage.store import NoSuchObject, ObjectStore, Taken

log = logging.getLogger(__name__)

_READS = 16
"""Objects that are read at the same time."""

Partition = tuple[UUID, int]
"""Topic id and partition."""
Recovered = dict[Partition, list[Entry]]
"""Content of the log above its boundary, in the order in which it was written."""


async def open_wal(store: ObjectStore, role: str, epoch: int, *, flush_interval_ms: int = 0) -> tuple[Wal, Recovered]:
    """Take over the log of the role, with an epoch that no call had before. Waits while the bucket cannot be reached.

    Raises FencedEpoch if this or a newer epoch has it; StorageError if an object is missing or damaged.
    """
    writer = secrets.token_bytes(16)
    await announce(store, role, epoch)
    number = await _fence(store, role, epoch, writer)
    boundary, recovered = await _read(store, role, epoch, writer, number)
    wal = Wal(
        store,
        role=role,
        epoch=epoch,
        writer=writer,
        number=number + 1,
        boundary=boundary,
        flush_interval_ms=flush_interval_ms,
    )
    return wal, recovered


async def _fence(store: ObjectStore, role: str, epoch: int, writer: bytes) -> int:
    """Create the fence at the end of the log; return its number. Raises FencedEpoch or StorageError."""
    last = await _last(store, role, -1)
    while True:
        number = last + 1
        fence = WalObject(kind=Kind.FENCE, epoch=epoch, writer=writer, number=number)
        name = name_of(role, number)
        try:
            await patiently(name, partial(store.create, name, fence.encode()))
        except Taken as taken:
            refuse_newer(role, epoch, taken)
            # Its writer may be alive: from number to number, this one would stay behind it.
            last = await _last(store, role, number)
            continue
        last = await _last(store, role, number)
        if last == number:
            return number
        await _refuse_newest(store, role, epoch, writer, last)
        log.warning("wal of %s: the fence at %d is not at the end, which is %d", role, number, last)


async def _refuse_newest(store: ObjectStore, role: str, epoch: int, writer: bytes, number: int) -> None:
    """Raise FencedEpoch if the newest object is of a newer epoch: two openers would go on behind each other."""
    name = name_of(role, number)
    with suppress(NoSuchObject):
        found = await patiently(name, partial(store.read, name))
        _refuse_late(role, epoch, writer, WalObject.decode(name, found.content))


async def _last(store: ObjectStore, role: str, at_least: int) -> int:
    """Return the highest number that is there, or the given one."""
    after = name_of(role, at_least) if at_least >= 0 else ""
    names = await patiently(folder_of(role), partial(_names, store, role, after))
    return max(map(number_in, names), default=at_least)


async def _names(store: ObjectStore, role: str, after: str) -> list[str]:
    return [listed.name async for listed in store.list(folder_of(role), after)]


async def _read(store: ObjectStore, role: str, epoch: int, writer: bytes, until: int) -> tuple[Boundary, Recovered]:
    """Read the objects from the boundary up to the fence."""
    while True:
        boundary = await Boundary.read(store, role)
        boundary.refuse_newer(epoch, writer)  # the objects that would show it may be gone
        if boundary.first > until:
            raise StorageError(f"wal of {role}: its boundary {boundary.first} is behind the fence {until}")
        recovered: Recovered = defaultdict(list)
        try:
            for first in range(boundary.first, until, _READS):
                for found in await _objects(store, role, first, min(first + _READS, until)):
                    _refuse_late(role, epoch, writer, found)
                    for entry in found.entries:
                        recovered[entry.topic_id, entry.partition].append(entry)
            return boundary, recovered
        except NoSuchObject as error:
            # The writer before may still collect; what it deletes is below the boundary that it moved before.
            if (await Boundary.read(store, role)).first == boundary.first:
                raise StorageError(f"wal of {role}: {error}") from error


def _refuse_late(role: str, epoch: int, writer: bytes, found: WalObject) -> None:
    """Raise FencedEpoch if another writer of this epoch or a newer one was there before."""
    if found.epoch > epoch or (found.epoch == epoch and found.writer != writer):
        raise FencedEpoch(f"{role}: epoch {epoch} comes after epoch {found.epoch}")


async def _objects(store: ObjectStore, role: str, first: int, until: int) -> list[WalObject]:
    """Read the objects. Raises NoSuchObject or StorageError."""

    async def read(number: int) -> WalObject:
        name = name_of(role, number)
        found = await patiently(name, partial(store.read, name))
        return WalObject.decode(name, found.content)

    reads = [asyncio.ensure_future(read(number)) for number in range(first, until)]
    try:
        return await asyncio.gather(*reads)
    finally:
        for each in reads:
            each.cancel()
