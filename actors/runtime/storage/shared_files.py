"""Small files that all nodes of a cluster on a bucket have alike: copies of objects, which are created once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from muster.actors.object_storage.blocking import wait_for
from muster.actors.object_storage.location import Location
from muster.actors.object_storage.store import NoSuchObject, ObjectStorageError, ObjectStore, Taken, Unavailable
from muster.actors.runtime.files import write_atomically

log = logging.getLogger(__name__)


def share(location: Location, storage: Path, name: str, made: Callable[[], bytes]) -> None:
    """Copy the object of that name to the node's directory. Without one, it is created from the node's file, else made.

    While the bucket is away, an earlier copy remains; raises OSError if there is none. Blocks.
    """
    path = storage / name
    before = path.read_bytes() if path.exists() else None
    try:
        content = wait_for(_object(location, name, before or made()))
    except ObjectStorageError as error:
        if before is None:
            raise OSError(f"{name} of {location} cannot be read: {error}") from error
        log.warning("%s of %s cannot be read, so the copy on this node is used: %s", name, location, error)
        return
    if content != before:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)


async def _object(location: Location, name: str, content: bytes) -> bytes:
    """Return the object's content; with this one if there was no object."""
    from muster.actors.object_storage.bucket import Bucket  # with obstore, which only clusters on a bucket need

    store = ObjectStore(Bucket(location))
    try:
        return (await store.read(name)).content
    except NoSuchObject:
        pass
    try:
        await store.create(name, content)
    except Taken as taken:  # another node was first
        if taken.found is None:
            raise Unavailable(str(taken)) from taken
        return taken.found.content
    return content
