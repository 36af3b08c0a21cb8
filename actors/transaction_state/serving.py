"""A partition of ``__transaction_state`` that is served: its log, its coordinator, its listener."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Collection, Mapping

from muster.actors.config import MusterConfig, in_force, transaction_config, transactions_log_config
from muster.actors.coordinator.opening import CoordinatorOpener
from muster.actors.log.config import LogConfig
from muster.actors.log.partition import PartitionLog
from muster.actors.runtime.channels import own_channels
from muster.actors.runtime.follow import CurrentController
from muster.actors.runtime.settings import ClusterSettings
from muster.actors.transaction_state.partition import TransactionsPartition
from muster.actors.transactions.config import TransactionConfig
from muster.actors.wire.internal.listener import Server
from muster.placement.view import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, ClusterView


def transactions_configs(config: MusterConfig, view: ClusterView) -> tuple[TransactionConfig, LogConfig, int]:
    """Return the configurations of a coordinator and its log, by that view, in a cluster started with ``config``.

    The last one is how long an append may take, in ms.
    """
    held = in_force(config, view.configs)
    offsets_partitions = view.topics[OFFSETS_TOPIC].partitions
    own = dataclasses.replace(transaction_config(held), offsets_topic_num_partitions=offsets_partitions)
    return own, transactions_log_config(held, view.topics[TRANSACTIONS_TOPIC].config), held.offsets_commit_timeout_ms


class RayController:
    """The controller over Ray; a :class:`muster.actors.transaction_state.partition.Controller`."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._controller = CurrentController(settings)

    def producer_ids(self) -> Awaitable[range]:
        return self._controller.producer_ids.remote()

    def partition_counts(self, names: Collection[str]) -> Awaitable[Mapping[str, int]]:
        return self._controller.partition_counts.remote(names)


class ServedTransactions:
    """The role ``transactions-<p>`` under one leader epoch: a :class:`muster.actors.serving.host.Served`."""

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
        self._config = settings.config
        self._channels = own_channels(settings, view)
        config, _, timeout_ms = transactions_configs(settings.config, view)
        self.core = TransactionsPartition(
            partition=partition,
            epoch=epoch,
            config=config,
            timeout_ms=timeout_ms,
            partition_log=partition_log,
            channels=self._channels,
            controller=RayController(settings),
            topic_id=view.topics[TRANSACTIONS_TOPIC].topic_id,
            fail=failed,
        )
        self.server = Server(self.core, secret)

    def activate(self) -> None:
        """Serve requests from now on. Call it once the log is replayed."""
        self.core.activate()

    def follow(self, view: ClusterView) -> None:
        self.core.configure(*transactions_configs(self._config, view))
        self.core.follow(view)

    def begin(self) -> None:
        """There is nothing to begin."""

    async def resign(self) -> None:
        """Stop serving: waiting requests get NOT_COORDINATOR."""
        await self.core.stop()
        self._channels.close()

    async def finish(self) -> None:
        """There is nothing left to do."""


class TransactionsOpener(CoordinatorOpener[ServedTransactions]):
    """Opens roles ``transactions-<p>``."""

    topic = TRANSACTIONS_TOPIC

    def _log_config(self, view: ClusterView) -> LogConfig:
        return transactions_configs(self._settings.config, view)[1]

    def _served(
        self, partition: int, epoch: int, view: ClusterView, partition_log: PartitionLog, failed: Callable[[], None]
    ) -> ServedTransactions:
        return ServedTransactions(self._settings, self._secret, partition, epoch, view, partition_log, failed)
