"""A log in a directory, or in a bucket in memory: what the tests that use ``either_storage`` open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from muster.actors.log.bucket import copies
from muster.actors.log.bucket.role import RoleLogs
from muster.actors.log.bucket.storage import BucketStorage
from muster.actors.log.config import LogConfig
from muster.actors.log.files.disk import Disk
from muster.actors.log.files.segment import Segment
from muster.actors.log.partition import PartitionLog
from muster.actors.object_storage.store import ObjectStore
from tests.object_storage.memory import MemoryBackend, MemoryBucket

ROLE = "log-0"
T = TypeVar("T")
_THREADS = ThreadPoolExecutor(thread_name_prefix="elsewhere")


class LaterRoleLogs(RoleLogs):
    """A role whose log begins to upload in the event loop that uses it, which is not the one that opens it."""

    def _begin(self, storage: BucketStorage, recovered: Sequence[Segment]) -> None:
        self.begin = lambda: storage.recovered(recovered)


class Buckets:
    """A bucket for each directory, which becomes the copy of the node."""

    def __init__(self) -> None:
        self.of: dict[Path, MemoryBucket] = {}
        self.roles: list[RoleLogs] = []
        """One for each opening."""
        self.opened: list[PartitionLog] = []

    def open_log(
        self,
        directory: Path,
        *,
        topic_id: UUID,
        epoch: int,
        config: LogConfig,
        now_ms: Callable[[], int],
        disk: Disk,
    ) -> PartitionLog:
        """Open the role with a new epoch, and the partition with that one."""
        # As this node's: without the file, or with that of an earlier boot, what else lies there would be in the way.
        directory.parent.mkdir(parents=True, exist_ok=True)
        (directory.parent / copies.BOOT_ID).write_text(copies.boot_id())
        store = ObjectStore(MemoryBackend(self.of.setdefault(directory, MemoryBucket())))

        async def open_all() -> tuple[LaterRoleLogs, PartitionLog]:
            role = await LaterRoleLogs.open(store, ROLE, len(self.roles) + 1, directory.parent, disk=disk)
            assert isinstance(role, LaterRoleLogs)
            topic, _, partition = directory.name.rpartition("-")
            named = (topic, int(partition)) if topic and partition.isdigit() else (directory.name, 0)
            opened = await role.open_log(*named, topic_id=topic_id, epoch=epoch, config=config, now_ms=now_ms)
            return role, opened

        role, opened = elsewhere(open_all())
        self.roles.append(role)
        self.opened.append(opened)
        try:
            asyncio.get_running_loop()
        except RuntimeError:  # it is only read
            return opened
        role.begin()
        return opened

    def release(self) -> None:
        """Close what is still open: the test has not closed each log."""
        for log in self.opened:
            for segment in log._writer.segments:
                segment.close()


def elsewhere(main: Coroutine[Any, Any, T]) -> T:
    """Run it in an event loop of another thread: an opening blocks in a directory, too."""
    return _THREADS.submit(asyncio.run, main).result(60)


BUCKETS: list[Buckets] = []
"""One, if the logs of the test that runs are in buckets."""


def open_log(directory: Path, **arguments: Any) -> PartitionLog:
    """``PartitionLog.open``, or the same from the bucket of that directory."""
    return BUCKETS[-1].open_log(directory, **arguments) if BUCKETS else PartitionLog.open(directory, **arguments)
