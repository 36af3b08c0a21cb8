"""The bucket of a cluster: opening the logs of a role, and which partitions there are."""

from __future__ import annotations

from pathlib import Path

from muster.actors.log.bucket.copies import COPY_DISK
from muster.actors.log.bucket.manifest import FOLDER, partition_of
from muster.actors.log.bucket.role import RoleLogs
from muster.actors.log.files.disk import Disk
from muster.actors.log.wal.patience import patiently
from muster.actors.object_storage.location import Location
from muster.actors.object_storage.store import ObjectStore


async def open_role(
    location: Location | None,
    role: str,
    epoch: int,
    storage: Path,
    *,
    flush_interval_ms: int,
    disk: Disk = COPY_DISK,
    is_of_one: bool = False,
) -> RoleLogs | None:
    """Call :meth:`RoleLogs.open`; return None in a cluster that is not on a bucket. ``storage``: the node's own."""
    if location is None:
        return None
    return await RoleLogs.open(
        _store(location),
        role,
        epoch,
        storage / "logs",
        flush_interval_ms=flush_interval_ms,
        disk=disk,
        is_of_one=is_of_one,
    )


async def partitions_in(location: Location, topic: str) -> set[int]:
    """Return the partitions of a topic that were ever opened. Waits while the bucket is away."""
    store = _store(location)

    async def names() -> list[str]:
        return [listed.name async for listed in store.list(FOLDER)]

    found = (partition_of(name) for name in await patiently(FOLDER, names))
    return {partition for name, partition in found if name == topic}


def _store(location: Location) -> ObjectStore:
    from muster.actors.object_storage.bucket import Bucket  # its import takes 0.1 s, and it must not see a fork

    return ObjectStore(Bucket(location))
