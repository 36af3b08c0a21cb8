"""The periodic work of an actor on its logs: retention and compaction."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from muster.actors.log.errors import LogError, NotLeader
from muster.actors.log.partition import PartitionLog

log = logging.getLogger(__name__)

Logs = Callable[[], Awaitable[Iterable[PartitionLog]]]
Work = Callable[[PartitionLog], Awaitable[object]]


class Upkeep:
    """The work on all logs of one actor, one log after the other. For one event loop."""

    def __init__(self, logs: Logs, *, retention_interval_ms: int, cleaner_interval_ms: int) -> None:
        """Call ``logs`` each time for the logs that exist. It may open some, and must not raise."""
        self._logs = logs
        self._intervals_s: dict[Work, float] = {}
        self._reconfigured = asyncio.Event()
        self.configure(retention_interval_ms=retention_interval_ms, cleaner_interval_ms=cleaner_interval_ms)
        self._tasks: list[asyncio.Task[None]] = []

    def configure(self, *, retention_interval_ms: int, cleaner_interval_ms: int) -> None:
        """Apply these intervals from now on. Waiting tasks start a new wait."""
        intervals_s: dict[Work, float] = {
            PartitionLog.apply_retention: retention_interval_ms / 1000,
            PartitionLog.clean: cleaner_interval_ms / 1000,
        }
        if intervals_s != self._intervals_s:
            self._intervals_s = intervals_s
            reconfigured, self._reconfigured = self._reconfigured, asyncio.Event()
            reconfigured.set()

    def start(self) -> None:
        """Start, with a wait of one interval first."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._run(work)) for work in self._intervals_s]

    async def stop(self) -> None:
        """Start no more work. Work in progress ends when its log is closed: see ``PartitionLog.close``."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, work: Work) -> None:
        while True:
            await self._wait(work)
            for partition_log in await self._logs():
                await _do(work, partition_log)

    async def _wait(self, work: Work) -> None:
        while True:
            try:
                async with asyncio.timeout(self._intervals_s[work]):
                    await self._reconfigured.wait()
            except TimeoutError:
                return


async def _do(work: Work, partition_log: PartitionLog) -> None:
    try:
        await work(partition_log)
    except NotLeader as error:
        log.debug("%s", error)
    except LogError as error:
        log.warning("%s; it is tried again", error)
    except Exception:
        log.exception("%s: upkeep failed", partition_log.directory)
