"""The partitions of ``__consumer_offsets`` that one process serves: their logs, their groups, their listeners.

``offsets-<p>`` serves one, a standby any number. To take over a partition, the successor gets a leader epoch, requests
the predecessor to resign, opens the log with the epoch, replays it, and listens. The request is optional and keeps the
gap short: the epoch fences a predecessor that was not reached or does not resign.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ray.exceptions import RayError

from muster.actors.audit.commits import CommitKey, CommitSteps, Step
from muster.actors.audit.outbox import Batch
from muster.actors.config import MusterConfig, group_config, in_force, offsets_log_config
from muster.actors.group.config import GroupConfig
from muster.actors.log.config import LogConfig
from muster.actors.log.partition import PartitionLog
from muster.actors.offsets.history.group_history import GroupHistory
from muster.actors.offsets.history.rebalances import RebalanceHistory
from muster.actors.offsets.mapping_writer import MappingWriter
from muster.actors.offsets.partition import OffsetsPartition
from muster.actors.runtime.process import now_ms
from muster.actors.runtime.settings import ClusterSettings
from muster.actors.runtime.started import Started
from muster.actors.tables.rebalances import RebalanceStore
from muster.actors.wire.server import Server
from muster.placement.mapping.registration import Registration
from muster.placement.view import OFFSETS_TOPIC, ClusterView, Topic

log = logging.getLogger(__name__)

_HAND_OVER_S = 5.0
"""How long a predecessor may take to resign. It waits that long for its own disk, too."""
_FLUSH_S = 2.0

Listen = Callable[[Server, str, int], Awaitable[Started]]
"""Makes a server listen for gateways, for a leader epoch, under a name that no other listener of the process has."""


@dataclass(slots=True)
class _Served:
    core: OffsetsPartition
    history: RebalanceHistory
    groups: GroupHistory
    writer: MappingWriter
    server: Server
    steps: CommitSteps
    started: Started | None = None

    async def close(self) -> None:
        """The work that remains after the core has stopped. No client waits for it."""
        await self.history.close()
        await self.groups.close()
        await asyncio.to_thread(self.writer.close, _FLUSH_S)


def offsets_configs(config: MusterConfig, view: ClusterView) -> tuple[GroupConfig, LogConfig]:
    """The configurations of a coordinator and its log, by that view, in a cluster that was started with ``config``."""
    held = in_force(config, view.configs)
    return group_config(held), offsets_log_config(held, view.topics[OFFSETS_TOPIC].config)


class PartitionHost:
    """Serves partitions until they are handed over or their log fails. For one event loop."""

    def __init__(
        self, settings: ClusterSettings, secret: bytes, listen: Listen, fail: Callable[[], None] | None = None
    ) -> None:
        """``fail`` is called when the log of a partition fails; without it, only that partition ends."""
        self._settings = settings
        self._secret = secret
        self._listen = listen
        self._fail = fail
        self._view: ClusterView | None = None
        self._served: dict[int, _Served] = {}
        self._changing: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._ended = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def started(self) -> dict[int, Started]:
        """The partitions that are served now."""
        return {partition: served.started for partition, served in self._served.items() if served.started}

    def registrations(self) -> dict[int, tuple[Registration, ...]]:
        """Which client consumes for which group, by partition."""
        return {partition: self._served[partition].core.registrations() for partition in self.started}

    def audit_steps(self, partition: int, session: str, received: int) -> Batch[CommitKey, Step]:
        """The audit steps that a partition served here has collected."""
        return self._served[partition].steps.take(session, received)

    def follow(self, view: ClusterView) -> None:
        self._view = view
        for served in self._served.values():
            served.core.configure(*self._configs())
            served.core.follow(view)

    async def serve(self, partition: int, epoch: int, view: ClusterView, predecessor: Any = None) -> Started:
        """Take over the partition with its own leader epoch. An instance already served here is stopped first.

        ``predecessor`` is the Ray handle of an actor that has ``hand_over``. LogError if the log cannot be opened,
        FencedEpoch if a higher epoch was there.
        """
        async with self._changing[partition]:
            await self._let_go(partition)
            if predecessor is not None:
                await _request_handover(predecessor, partition)
            if self._view is None or self._view.order < view.order:
                self._view = view
            topic = view.topics[OFFSETS_TOPIC]
            partition_log = await asyncio.to_thread(self._open, topic, partition, epoch)
            served = self._served[partition] = self._make(topic, partition, epoch, partition_log)
            try:
                records = await asyncio.to_thread(served.core.load)
                served.core.configure(*self._configs())  # they may have changed meanwhile
                served.core.activate()
                served.history.start()
                served.groups.start()
                served.core.follow(view)
                served.writer.put(served.core.registrations())
                served.started = await self._listen(served.server, f"offsets-{partition}-{epoch}", epoch)
            except BaseException:
                await self._let_go(partition)
                raise
        log.info("offsets-%d: epoch %d serves, %d records replayed", partition, epoch, records)
        return served.started

    def _open(self, topic: Topic, partition: int, epoch: int) -> PartitionLog:
        folder = Path(self._settings.storage) / "logs" / f"{OFFSETS_TOPIC}-{partition}"
        _, config = self._configs()
        return PartitionLog.open(folder, topic_id=topic.topic_id, epoch=epoch, config=config, now_ms=now_ms)

    def _configs(self) -> tuple[GroupConfig, LogConfig]:
        """The current configurations of a coordinator and its log."""
        assert self._view is not None
        return offsets_configs(self._settings.config, self._view)

    def _make(self, topic: Topic, partition: int, epoch: int, partition_log: PartitionLog) -> _Served:
        config = self._settings.config
        writer = MappingWriter(self._settings.zookeeper)
        core = OffsetsPartition(
            partition=partition,
            epoch=epoch,
            config=self._configs()[0],
            partition_log=partition_log,
            sink=writer,
            topic_id=topic.topic_id,
            fail=self._fail or (lambda: self._failed(partition, core)),
        )
        steps = CommitSteps(f"offsets-{partition}/{epoch}")
        if config.audit_interval_ms:
            core.observe.append(steps.observe)
        history = RebalanceHistory(
            core,
            RebalanceStore(Path(self._settings.storage) / "metrics", partition, now_ms=now_ms),
            flush_ms=config.metrics_rebalances_flush_ms,
            now_ms=now_ms,
        )
        groups = GroupHistory(core, Path(self._settings.storage), config, now_ms=now_ms)
        return _Served(core, history, groups, writer, Server(core, self._secret), steps)

    def _failed(self, partition: int, core: OffsetsPartition) -> None:
        """Stop serving the partition whose log failed, most likely because a newer epoch owns it."""

        async def end() -> None:
            async with self._changing[partition]:
                served = self._served.get(partition)
                if served is not None and served.core is core:
                    await self._let_go(partition)

        self._spawn(end())

    async def hand_over(self, partition: int, epoch: int | None = None) -> None:
        """Stop serving: answer waiting requests with NOT_COORDINATOR, write what is pending, close the log.

        With an epoch, only if the partition is served under that one. Does nothing if it is not served here.
        """
        async with self._changing[partition]:
            served = self._served.get(partition)
            if served is not None and epoch in (None, served.core.epoch):
                await self._let_go(partition)

    async def _let_go(self, partition: int) -> None:
        served = self._served.pop(partition, None)
        if served is None:
            return
        async with self._ended:
            self._ended.notify_all()
        try:
            await served.core.stop()
        finally:
            await served.server.stop()
            self._spawn(served.close())
        log.info("offsets-%d: epoch %d is served here no more", partition, served.core.epoch)

    async def until_over(self, partition: int, epoch: int) -> None:
        """Return when the partition is not served here under that epoch."""

        def over() -> bool:
            served = self._served.get(partition)
            return served is None or served.core.epoch != epoch

        async with self._ended:
            await self._ended.wait_for(over)

    async def stop(self) -> None:
        """Stop serving all partitions, without a successor."""
        await asyncio.gather(*(self.hand_over(partition) for partition in list(self._served)))
        while self._tasks:
            await asyncio.wait(list(self._tasks))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _request_handover(predecessor: Any, partition: int) -> None:
    try:
        async with asyncio.timeout(_HAND_OVER_S):
            await predecessor.hand_over.remote(partition)
    except (RayError, TimeoutError) as error:
        log.warning("offsets-%d is not handed over, it is taken: %r", partition, error)
