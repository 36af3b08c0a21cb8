"""What an actor does with its logs now and then: remove what is too old, compact what can be compacted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from actors.log.errors import LogError, NotLeader
from actors.log.partition import PartitionLog

log = logging.getLogger(__name__)

Logs = Callable[[], Awaitable[Iterable[PartitionLog]]]


class Upkeep:
    """Of all logs of one actor, one after the other. For one event loop."""

    def __init__(self, logs: Logs, *, retention_interval_ms: int, cleaner_interval_ms: int) -> None:
        """``logs`` tells which there are; it is asked each time. It may open some, and must not raise."""
        self._logs = logs
        self._intervals = (
            (retention_interval_ms / 1000, PartitionLog.apply_retention),
            (cleaner_interval_ms / 1000, PartitionLog.clean),
        )
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin, after the first interval."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._run(interval_s, work)) for interval_s, work in self._intervals]

    async def stop(self) -> None:
        """Begin nothing any more. What is under way at a log ends with it: see ``PartitionLog.close``."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, interval_s: float, work: Callable[[PartitionLog], Awaitable[object]]) -> None:
        while True:
            await asyncio.sleep(interval_s)
            for partition_log in await self._logs():
                await _do(work, partition_log)


async def _do(work: Callable[[PartitionLog], Awaitable[object]], partition_log: PartitionLog) -> None:
    try:
        await work(partition_log)
    except NotLeader as error:
        log.debug("%s", error)
    except LogError as error:
        log.warning("%s; it is tried again", error)
    except Exception:
        log.exception("%s: upkeep failed", partition_log.directory)
