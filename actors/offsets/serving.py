"""A partition of ``__consumer_offsets`` that is served: its log, its groups, its listener, its histories."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from muster.actors.audit.commits import CommitSteps
from muster.actors.audit.members import MemberPeriods
from muster.actors.config import MusterConfig, group_config, in_force, offsets_log_config
from muster.actors.coordinator.opening import CoordinatorOpener
from muster.actors.group.config import GroupConfig
from muster.actors.log.config import LogConfig
from muster.actors.log.partition import PartitionLog
from muster.actors.offsets.history.group_history import GroupHistory
from muster.actors.offsets.history.publishing import progress_file
from muster.actors.offsets.history.rebalances import RebalanceHistory
from muster.actors.offsets.mapping_writer import MappingWriter
from muster.actors.offsets.partition import OffsetsPartition
from muster.actors.runtime.channels import own_channels
from muster.actors.runtime.process import now_ms
from muster.actors.runtime.settings import ClusterSettings
from muster.actors.tables.rebalances import RebalanceStore
from muster.actors.wire.internal.listener import Server
from muster.placement.view import OFFSETS_TOPIC, ClusterView

_FLUSH_S = 2.0


def offsets_configs(config: MusterConfig, view: ClusterView) -> tuple[GroupConfig, LogConfig]:
    """Return the configurations of a coordinator and its log, by that view, in a cluster started with ``config``."""
    held = in_force(config, view.configs)
    return group_config(held, view.configs.groups), offsets_log_config(held, view.topics[OFFSETS_TOPIC].config)


class ServedPartition:
    """The role ``offsets-<p>`` under one leader epoch: a :class:`muster.actors.serving.host.Served`."""

    def __init__(
        self,
        settings: ClusterSettings,
        secret: bytes,
        partition: int,
        epoch: int,
        view: ClusterView,
        partition_log: PartitionLog,
        failed: Callable[[], None],
    ) -> None:
        self._config = config = settings.config
        storage = Path(settings.storage)
        self._writer = MappingWriter(settings.zookeeper, settings.zookeeper_access)
        self._channels = own_channels(settings, view)
        self.core = OffsetsPartition(
            partition=partition,
            epoch=epoch,
            config=offsets_configs(config, view)[0],
            partition_log=partition_log,
            sink=self._writer,
            topic_id=view.topics[OFFSETS_TOPIC].topic_id,
            fail=failed,
            verifier=self._channels,
        )
        self.steps = CommitSteps(f"offsets-{partition}/{epoch}", self.core.topic_id_of)
        """The commits that the audit has not received yet."""
        self.members = MemberPeriods(self.core.has_members, now_ms())
        if config.audit_interval_ms:
            self.core.observers.add(self.steps.observe, self.steps.kinds)
            self.core.observers.add(self.members.observe, self.members.kinds)
        self._history = RebalanceHistory(
            self.core,
            RebalanceStore(storage / "metrics", partition, now_ms=now_ms, bucket=settings.location),
            flush_ms=config.metrics_rebalances_flush_ms,
            now_ms=now_ms,
        )
        if (topic := config.rebalance_events_topic) is None:
            with suppress(OSError):
                progress_file(storage / "metrics", partition).unlink()
        else:
            self._history.publish(topic, own_channels(settings, view), storage / "metrics", settings.location)
        self._groups = GroupHistory(
            self.core,
            storage,
            config,
            offsets_partitions=view.topics[OFFSETS_TOPIC].partitions,
            now_ms=now_ms,
        )
        self.server = Server(self.core, secret)

    def activate(self) -> None:
        """Serve requests from now on. Call it once the log is replayed."""
        self.core.activate()
        self._history.start()
        self._groups.start()

    def follow(self, view: ClusterView) -> None:
        self.core.configure(*offsets_configs(self._config, view))
        self.core.follow(view)
        self._channels.follow(view)
        self._history.follow(view)

    def begin(self) -> None:
        self._writer.put(self.core.registrations())

    async def resign(self) -> None:
        """Stop serving: waiting requests get NOT_COORDINATOR."""
        await self.core.stop()
        self._channels.close()

    async def finish(self) -> None:
        await self._history.close()
        await self._groups.close()
        await asyncio.to_thread(self._writer.close, _FLUSH_S)


class OffsetsOpener(CoordinatorOpener[ServedPartition]):
    """Opens roles ``offsets-<p>``."""

    topic = OFFSETS_TOPIC

    def _log_config(self, view: ClusterView) -> LogConfig:
        return offsets_configs(self._settings.config, view)[1]

    def _served(
        self, partition: int, epoch: int, view: ClusterView, partition_log: PartitionLog, failed: Callable[[], None]
    ) -> ServedPartition:
        served = ServedPartition(self._settings, self._secret, partition, epoch, view, partition_log, failed)
        served.follow(view)  # loading a consumer group needs the names of topics
        return served
