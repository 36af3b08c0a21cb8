"""Log actors and coordinators without Ray: the real ones, behind real internal sockets, in one event loop."""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from muster.actors.audit.commits import CommitSteps
from muster.actors.audit.members import MemberPeriods
from muster.actors.config import MusterConfig, in_force, log_config
from muster.actors.log.listener import LogServer
from muster.actors.log.open_logs import SharedDirectory
from muster.actors.log.partition import PartitionLog
from muster.actors.log.partitions import Partitions
from muster.actors.offsets.history.group_history import GroupHistory
from muster.actors.offsets.history.rebalances import RebalanceHistory
from muster.actors.offsets.partition import OffsetsPartition, UpdateSink
from muster.actors.offsets.serving import offsets_configs
from muster.actors.runtime.channels import ActorChannels
from muster.actors.runtime.process import now_ms
from muster.actors.tables.rebalances import RebalanceStore
from muster.actors.transaction_state.partition import TransactionsPartition
from muster.actors.transaction_state.serving import transactions_configs
from muster.actors.wire.internal.listener import Server
from muster.placement.epochs import next_epoch
from muster.placement.mapping.registration import Change, Registration
from muster.placement.view import (
    OFFSETS,
    OFFSETS_TOPIC,
    TRANSACTIONS,
    TRANSACTIONS_TOPIC,
    ClusterView,
    Endpoint,
)
from muster.placement.zookeeper.client import ZooKeeperClient

log = logging.getLogger(__name__)
SECRET = b"the secret of the test cluster"


class Changes:
    """In place of ZooKeeper's mapping: records all changes."""

    def __init__(self) -> None:
        self.said: list[Change] = []

    def put(self, updates: tuple[Change, ...]) -> None:
        self.said += updates

    def of_group(self, group: str) -> list[Registration]:
        """Return the group's registrations, in the order of the changes."""
        return [one for one in self.said if isinstance(one, Registration) and one.group == group]


class Actors:
    """Two log actors; offsets partitions start on demand. All methods are for the gateway's loop."""

    def __init__(
        self,
        zk: ZooKeeperClient,
        storage: Path,
        config: MusterConfig,
        controller: Any,
        view: Callable[[], ClusterView],
    ) -> None:
        self._zk = zk
        self.storage = storage
        self._config = config
        self._controller = controller
        self._view = view
        self._sockets = Path(tempfile.mkdtemp(prefix="muster-"))  # paths of Unix sockets must be short
        self._servers: list[Server] = []
        self.logs: dict[int, Partitions] = {}
        self.log_servers: dict[int, LogServer] = {}
        self.offsets: dict[int, OffsetsPartition] = {}
        self.changes = Changes()
        self.sink: UpdateSink = self.changes
        """For offsets partitions that start from now on."""
        self.steps: dict[int, CommitSteps] = {}
        """Commit steps that the offsets partitions collect for the audit."""
        self.members: dict[int, MemberPeriods] = {}
        self.histories: dict[int, RebalanceHistory] = {}
        self.group_histories: dict[int, GroupHistory] = {}
        self._all_histories: list[RebalanceHistory | GroupHistory] = []
        """Including those of partitions that a test has restarted: their tasks must end."""
        self._following: set[asyncio.Task[None]] = set()
        self.transactions: dict[int, TransactionsPartition] = {}
        self._channels = ActorChannels(lambda: "n1", view(), controller.activate)
        """Channels to all actors, as they are in one process."""
        controller.start_coordinator = {OFFSETS: self.start_offsets, TRANSACTIONS: self.start_transactions}
        controller.publish = partial(self._publish, controller.publish)

    async def start(self) -> None:
        for index in self._controller.logs:
            self.logs[index] = Partitions(
                storage=SharedDirectory(self.storage / "logs"),
                config=log_config(in_force(self._config, self._view().configs)),
                topics=self._view,
                index=index,
                next_epoch=self._next_epoch,
                verifier=self._channels,
            )
            self.logs[index].start_upkeep()
            self.log_servers[index] = LogServer(self.logs[index])
            self._controller.logs[index] = await self._serve(self.log_servers[index], f"log-{index}")

    async def start_offsets(self, partition: int) -> Endpoint:
        topic = self._view().topics[OFFSETS_TOPIC]
        epoch = await self._next_epoch(OFFSETS_TOPIC, partition)
        partition_log = await asyncio.to_thread(
            PartitionLog.open,
            self.storage / "logs" / f"{OFFSETS_TOPIC}-{partition}",
            topic_id=topic.topic_id,
            epoch=epoch,
            config=offsets_configs(self._config, self._view())[1],
            now_ms=now_ms,
        )
        core = self.offsets[partition] = OffsetsPartition(
            partition=partition,
            epoch=epoch,
            config=offsets_configs(self._config, self._view())[0],
            partition_log=partition_log,
            sink=self.sink,
            topic_id=topic.topic_id,
            fail=partial(self._failed, partition),
            verifier=self._channels,
        )
        steps = self.steps[partition] = CommitSteps(f"offsets-{partition}/{epoch}", core.topic_id_of)
        members = self.members[partition] = MemberPeriods(core.has_members, now_ms())
        core.observers.add(steps.observe, steps.kinds)
        core.observers.add(members.observe, members.kinds)
        history = self.histories[partition] = RebalanceHistory(
            core,
            RebalanceStore(self.storage / "metrics", partition, now_ms=now_ms),
            flush_ms=self._config.metrics_rebalances_flush_ms,
            now_ms=now_ms,
        )
        if (events_topic := self._config.rebalance_events_topic) is not None:
            channels = ActorChannels(lambda: "n1", self._view(), self._controller.activate)
            history.publish(events_topic, channels, self.storage / "metrics")
        count = self._view().topics[OFFSETS_TOPIC].partitions
        groups = self.group_histories[partition] = GroupHistory(
            core, self.storage, self._config, offsets_partitions=count, now_ms=now_ms
        )
        await asyncio.to_thread(core.load)
        core.follow(self._view())
        core.activate()
        for each in (history, groups):
            self._all_histories.append(each)
            each.start()
        return await self._serve(core, f"offsets-{partition}")

    async def start_transactions(self, partition: int) -> Endpoint:
        view = self._view()
        topic = view.topics[TRANSACTIONS_TOPIC]
        epoch = await self._next_epoch(TRANSACTIONS_TOPIC, partition)
        config, log_config, timeout_ms = transactions_configs(self._config, view)
        partition_log = await asyncio.to_thread(
            PartitionLog.open,
            self.storage / "logs" / f"{TRANSACTIONS_TOPIC}-{partition}",
            topic_id=topic.topic_id,
            epoch=epoch,
            config=log_config,
            now_ms=now_ms,
        )
        core = self.transactions[partition] = TransactionsPartition(
            partition=partition,
            epoch=epoch,
            config=config,
            timeout_ms=timeout_ms,
            partition_log=partition_log,
            channels=self._channels,
            controller=self._controller,
            topic_id=topic.topic_id,
            fail=partial(self._failed, partition, TRANSACTIONS),
        )
        await asyncio.to_thread(core.load)
        core.activate()
        return await self._serve(core, f"transactions-{partition}")

    def _failed(self, partition: int, kind: str = OFFSETS) -> None:
        """Refuse: an actor would end its process here, and in tests that is the test process."""
        log.error("%s-%d has failed, and would have ended", kind, partition)

    def _publish(self, to_gateway: Callable[[ClusterView], None], view: ClusterView) -> None:
        to_gateway(view)
        for core in self.offsets.values():
            core.configure(*offsets_configs(self._config, view))
            core.follow(view)
        for history in self.histories.values():
            history.follow(view)
        for transactions in self.transactions.values():
            transactions.configure(*transactions_configs(self._config, view))
        self._channels.follow(view)
        for service in self.logs.values():
            service.configure(log_config(in_force(self._config, view.configs)))
            following = asyncio.get_running_loop().create_task(service.view_changed(view))
            self._following.add(following)
            following.add_done_callback(self._following.discard)

    async def _next_epoch(self, topic: str, partition: int) -> int:
        return await asyncio.to_thread(next_epoch, self._zk, topic, partition, "test")

    async def _serve(self, handler: Any, name: str) -> Endpoint:
        server = Server(handler, SECRET)
        self._servers.append(server)
        return await server.start(node_id="n1", host="127.0.0.1", path=self._sockets / name)

    async def stop(self) -> None:
        while self.transactions:
            await self.transactions.popitem()[1].stop()
        self._channels.close()
        while self.offsets:  # a coordinator that a client requested may still be starting
            await self.offsets.popitem()[1].stop()
        for history in self._all_histories:
            await history.close()
        for server in self._servers:
            await server.stop()
        for service in self.logs.values():
            await service.close()
        shutil.rmtree(self._sockets)
