"""A coordinator that works until it is killed: ``python -m tests.recording.coordinator STORAGE``.

Two members form a group; then offsets are committed endlessly. Prints each acknowledged offset, with its time.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from pathlib import Path

from muster.actors.config import MusterConfig
from muster.actors.offsets.history.group_history import GroupHistory
from muster.actors.runtime.process import now_ms
from muster.actors.wire.kafka.codec import ErrorCode
from tests.offsets.shell import Shell, commit
from tests.offsets.test_offsets_shell import join_with

PROPERTIES = {"metrics.commits.flush.ms": "300", "metrics.events.flush.ms": "3600000"}


class Recorded(Shell):
    """A coordinator with its tables."""

    def __init__(self, storage: Path, epoch: int, properties: dict[str, str]) -> None:
        super().__init__(storage / "log", epoch)
        config = MusterConfig.from_properties(properties)
        self.history = GroupHistory(self.partition, storage, config, offsets_partitions=50, now_ms=now_ms)
        self.history.start()

    async def stop(self) -> None:
        await self.partition.stop()
        await self.history.close()
        await self.server.stop()


async def main(storage: Path) -> None:
    shell = Recorded(storage, 1, PROPERTIES)
    channel = await shell.serve(storage / "a.sock")
    joined = await join_with(channel, b"")
    assert joined.error_code is ErrorCode.none
    for offset in itertools.count(1):
        assert await commit(channel, offset) == {ErrorCode.none}
        os.write(1, b"%d %d\n" % (offset, now_ms()))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
