"""The announcement of an opener, which a writer that is busy reads now and then: it makes way for a newer epoch.

``openings/<role>``, text: the newest epoch that was announced. It decides nothing: the fence does.
"""

from __future__ import annotations

from functools import partial

from muster.actors.log.errors import FencedEpoch, StorageError
from muster.actors.log.wal.patience import patiently
from muster.actors.object_storage.store import NoSuchObject, ObjectStore, Taken


async def announce(store: ObjectStore, role: str, epoch: int) -> None:
    """Announce that this epoch opens the log. Waits while the bucket is away.

    Raises FencedEpoch if a newer one was announced; StorageError if the announcement is not readable.
    """
    name = _name_of(role)
    content = str(epoch).encode()
    while True:
        try:
            before = await patiently(name, partial(store.read, name))
        except NoSuchObject:
            write = partial(store.create, name, content)
        else:
            if (newest := _epoch_in(name, before.content)) >= epoch:
                if newest > epoch:
                    raise FencedEpoch(f"{role}: epoch {epoch} comes after {newest}, which was announced")
                return
            write = partial(store.replace, name, content, before.etag)
        try:
            await patiently(name, write)
        except Taken:
            continue
        return


async def newest_announced(store: ObjectStore, role: str) -> int:
    """Return the epoch that was announced, -1 without one. Raises ObjectStorageError or StorageError."""
    name = _name_of(role)
    try:
        return _epoch_in(name, (await store.read(name)).content)
    except NoSuchObject:
        return -1


def _name_of(role: str) -> str:
    return f"openings/{role}"


def _epoch_in(name: str, content: bytes) -> int:
    try:
        return int(content)
    except ValueError as error:
        raise StorageError(f"{name} is not readable: {content[:40]!r}") from error
