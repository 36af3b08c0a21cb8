"""The intervals of an actor's upkeep can be changed at runtime."""

from __future__ import annotations

import asyncio

from muster.actors.log.partition import PartitionLog
from muster.actors.log.upkeep.schedule import Upkeep
from tests.log.support import run

NEVER_MS = 10**9


def test_whoever_waits_goes_by_the_new_interval() -> None:
    async def main() -> None:
        looked = asyncio.Event()

        async def logs() -> list[PartitionLog]:
            looked.set()
            return []

        upkeep = Upkeep(logs, retention_interval_ms=NEVER_MS, cleaner_interval_ms=NEVER_MS)
        upkeep.start()
        for intervals in ({"retention_interval_ms": 1}, {"cleaner_interval_ms": 1}):
            upkeep.configure(**{"retention_interval_ms": NEVER_MS, "cleaner_interval_ms": NEVER_MS} | intervals)
            async with asyncio.timeout(10):
                await looked.wait()
            upkeep.configure(retention_interval_ms=NEVER_MS, cleaner_interval_ms=NEVER_MS)
            await asyncio.sleep(0)
            looked.clear()
        await upkeep.stop()

    run(main())


def test_the_same_intervals_let_nobody_begin_anew() -> None:
    """They come with every view: in a busy cluster there would be no retention."""

    async def main() -> None:
        looked = asyncio.Event()

        async def logs() -> list[PartitionLog]:
            looked.set()
            return []

        intervals = {"retention_interval_ms": 200, "cleaner_interval_ms": NEVER_MS}
        upkeep = Upkeep(logs, **intervals)
        upkeep.start()
        async with asyncio.timeout(10):
            while not looked.is_set():
                upkeep.configure(**intervals)
                await asyncio.sleep(0)
        await upkeep.stop()

    run(main())
