"""A process that continuously appends, compacts and removes, and prints what was acknowledged, until it is killed.

python -m tests.log.upkeep.kept_up DIRECTORY EPOCH FIRST
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from muster.actors.log.config import LogConfig
from muster.actors.log.partition import PartitionLog
from tests.log.support import TOPIC_ID

KEYS = 20


def config(epoch: int) -> LogConfig:
    """Every second process also removes everything beyond 1,500 bytes."""
    return LogConfig(
        segment_bytes=2_000,
        cleanup_policy="compact,delete",
        retention_ms=-1,
        retention_bytes=1_500 if epoch % 4 == 3 else -1,
        min_cleanable_dirty_ratio=0.01,
    )


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def main(directory: Path, epoch: int, number: int) -> None:
    log = PartitionLog.open(directory, topic_id=TOPIC_ID, epoch=epoch, config=config(epoch), now_ms=now_ms)

    async def again(work: object) -> None:
        while True:
            await work()  # type: ignore[operator]
            await asyncio.sleep(0)

    upkeep = [asyncio.ensure_future(again(work)) for work in (log.clean, log.apply_retention)]
    while not any(task.done() for task in upkeep):
        pairs = [(b"%d" % (at % KEYS), b"%d" % at) for at in (number, number + 1)]
        await log.append_records(pairs, now_ms())
        number += 2
        print(number, flush=True)
    await asyncio.gather(*upkeep)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
