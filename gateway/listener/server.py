"""The gateway: what its API handlers work with, and its listener. No Ray in here."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from actors.audit.report import Report
from actors.config import MusterConfig, group_config, in_force
from actors.config.altering import Alteration
from actors.controller.admin import NewTopic, TopicOutcome
from actors.runtime.limited_log import LimitedLog
from actors.runtime.process import now_ms
from actors.wire.channel import ChannelLost
from gateway.attribution.account import Account
from gateway.attribution.table import HEAR_MS
from gateway.listener.connection import Cause, Complaint, Connection
from gateway.listener.forward import Forwarder
from gateway.listener.producer_ids import ProducerIds
from gateway.metrics.gateway import GatewayMetrics
from gateway.security.session import Sasl
from placement.hashing import partition_for
from placement.mapping.registration import Registration, Statement
from placement.view import OFFSETS_TOPIC, ClusterView, Topic

if TYPE_CHECKING:
    from gateway.faults.injection import GatewayFaults
    from gateway.kop.shadow import KopShadow

log = logging.getLogger(__name__)

_IDLE_SWEEP_S, _LEAST_SWEEP_S = 10.0, 0.05
_HEAR_AGAIN_S = 0.05


class Controller(Protocol):
    """What a gateway asks of the controller. Each raises ControllerUnavailable when nobody answers in time.

    A change is in the view with the order that comes back, or a later one.
    """

    async def create_topics(self, topics: Sequence[NewTopic], validate_only: bool) -> list[TopicOutcome]: ...
    async def delete_topics(self, names: Sequence[str]) -> list[TopicOutcome]: ...
    async def add_partitions(self, totals: dict[str, int], validate_only: bool) -> list[TopicOutcome]: ...
    async def alter_configs(self, alterations: Sequence[Alteration], validate_only: bool) -> list[TopicOutcome]: ...
    async def until_followed(self, timeout_s: float) -> bool: ...
    async def producer_ids(self) -> range: ...
    async def activate(self, offsets_partition: int) -> None: ...


class ControllerUnavailable(ConnectionError):
    """The controller is down or restarting; the request can be tried again."""


class Gateway:
    """One Kafka broker, as its clients see it."""

    def __init__(
        self,
        *,
        gateway_id: int,
        node_id: str,
        config: MusterConfig,
        controller: Controller,
        account: Account[Any],
        metrics: GatewayMetrics,
        view: ClusterView,
    ) -> None:
        self.id = gateway_id
        self.started_with = config
        self.config = in_force(config, view.configs, gateway_id)
        """What holds now; what was altered is in the view."""
        self.group_config = group_config(self.config)
        self.controller = controller
        self.account = account
        self.metrics = metrics
        self.view = view
        self.sasl = Sasl.of(config)
        self.forwarder = Forwarder(node_id, self._heard)
        self.connections: dict[str, Connection] = {}
        self.audit_report = Report()
        """The last that the audit told."""
        self.complaints = LimitedLog(logging.getLogger("gateway.listener.connection"))
        """Of connections; what a client sends must not flood the log."""
        self.faults: GatewayFaults | None = None
        """Set before the gateway listens where fault injection is enabled."""
        self.shadow: KopShadow | None = None
        """The account's sink, where KoP's rule runs beside ours."""
        self._accepted = 0
        self._producer_ids = ProducerIds(controller.producer_ids)
        self.limited_log = LimitedLog(log)
        """What else clients can cause."""
        self._activating: dict[int, asyncio.Task[None]] = {}
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._view_changed = asyncio.Event()
        self._hearing: asyncio.Task[None] | None = None
        self._hears_again = False
        account.on_begun = self._hear
        self.forwarder.follow(view)

    async def listen(self, host: str, port: int) -> int:
        """Accept clients; the port that is really bound. OSError when it is taken."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, host, port, backlog=1024)
        self._sweeper = loop.create_task(self._close_idle())
        self._producer_ids.prepare()
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def serving(self) -> bool:
        """Whether clients can connect."""
        return self._server is not None and self._server.is_serving()

    now_ms = staticmethod(now_ms)
    """The gateway's clock, ms since the Unix epoch; never goes back."""

    def _accept(self) -> Connection:
        self._accepted += 1
        return Connection(self, self._accepted)

    def opened(self, connection: Connection) -> None:
        self.connections[connection.id] = connection
        self.metrics.connection_opened()
        if len(self.connections) > self.config.max_connections:
            problem = f"max.connections={self.config.max_connections} is reached"
            connection.close(Complaint(Cause.MAX_CONNECTIONS, problem))

    def closed(self, connection: Connection) -> None:
        if self.connections.pop(connection.id, None):
            self.metrics.connection_closed()
            if self.shadow is not None:
                self.shadow.closed(connection.id)
            self.account.closed(connection.attribution)

    async def _close_idle(self) -> None:
        while True:
            max_idle_ms = self.config.connections_max_idle_ms
            pause_s = _IDLE_SWEEP_S if max_idle_ms < 0 else max(max_idle_ms / 4000, _LEAST_SWEEP_S)
            await asyncio.sleep(min(_IDLE_SWEEP_S, pause_s))
            if max_idle_ms < 0:
                continue
            limit_s = time.monotonic() - max_idle_ms / 1000
            for connection in list(self.connections.values()):
                if connection.last_active_s < limit_s and not connection.waiting:
                    connection.close()

    def follow(self, view: ClusterView) -> None:
        """Take a newer view; an older one is ignored."""
        if view.order <= self.view.order:
            return
        self.view = view
        self._configure(view)
        self.forwarder.follow(view)
        self.metrics.view(view.order)
        if self.faults is not None:
            self.faults.followed(view)
        changed, self._view_changed = self._view_changed, asyncio.Event()
        changed.set()

    def _configure(self, view: ClusterView) -> None:
        config = in_force(self.started_with, view.configs, self.id)
        if config is not self.config:
            self.config = config
            self.group_config = group_config(config)

    async def until_view(self, ready: Any, timeout_s: float) -> bool:
        """Wait until ``ready(view)`` holds; False after the timeout."""
        try:
            async with asyncio.timeout(timeout_s):
                while not ready(self.view):
                    await self._view_changed.wait()
        except TimeoutError:
            return False
        return True

    def _heard(self, partition: int, epoch: int, statements: tuple[Statement, ...], snapshot: bool) -> None:
        if snapshot:
            registrations = (item for item in statements if isinstance(item, Registration))
            self.account.replace(partition, epoch, registrations, now_ms())
        else:
            self.account.statements(statements, now_ms())

    def _hear(self) -> None:
        """Tell the books up to when they know all that coordinators said. What asks meanwhile comes next."""
        if self._hearing is not None and not self._hearing.done():
            self._hears_again = True
        else:
            self._hearing = asyncio.get_running_loop().create_task(self._ask_coordinators())

    async def _ask_coordinators(self) -> None:
        """A coordinator tells what it decides before it answers anything later: so an answer says that all came."""
        self._hears_again = True
        while self._hears_again:
            self._hears_again, asked_ms = False, now_ms()
            try:
                async with asyncio.timeout(HEAR_MS / 1000):
                    await asyncio.gather(*(channel.ask({"ask": "heard"}) for channel in self.forwarder.coordinators()))
            except (ChannelLost, TimeoutError) as error:
                log.debug("not all coordinators can be heard: %s", error)
            else:
                self.account.heard(asked_ms)
            await asyncio.sleep(_HEAR_AGAIN_S)

    def topic(self, name: str | None, topic_id: UUID | None) -> Topic | None:
        """The topic by name or, where the request has none, by id."""
        if name:
            return self.view.topics.get(name)
        return self.view.topic_by_id(topic_id) if topic_id else None

    def partition_of(self, group_id: str) -> int:
        """The offsets partition of a group."""
        topic = self.view.topics.get(OFFSETS_TOPIC)
        return partition_for(group_id, topic.partitions if topic else self.config.offsets_topic_num_partitions)

    def activate(self, partition: int) -> asyncio.Task[None]:
        """Have the partition's actor started; asks the controller once, however many wait."""
        task = self._activating.get(partition)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._activate(partition))
            self._activating[partition] = task
            task.add_done_callback(lambda _: self._activating.pop(partition, None))
        return task

    async def _activate(self, partition: int) -> None:
        try:
            await self.controller.activate(partition)
        except ControllerUnavailable as error:
            actor = f"offsets-{partition}"
            self.limited_log.warning("start", actor, "%s cannot be started now: %s", actor, error)

    async def coordinator_ready(self, partition: int, timeout_s: float) -> bool:
        """Whether the partition's actor is there, started if it was not; waits for it."""
        if self.forwarder.offsets(partition) is not None:
            return True
        if self.view.offsets.get(partition) is None:
            self.activate(partition)
        return await self.forwarder.until(lambda: self.forwarder.offsets(partition) is not None, timeout_s)

    async def next_producer_id(self) -> int:
        """An id that no other producer of this cluster has or had. ControllerUnavailable."""
        return await self._producer_ids.next()

    async def stop(self) -> None:
        """Take no more connections, close those that are there."""
        if self._server is not None:
            self._server.close()
        for task in (self._sweeper, self._hearing):
            if task is not None:
                task.cancel()
        self._producer_ids.stop()
        for activating in list(self._activating.values()):
            activating.cancel()
        for connection in list(self.connections.values()):
            connection.close()
        self.complaints.flush()
        self.limited_log.flush()
        if self.sasl is not None:
            self.sasl.close()
        self.forwarder.close()
        if self.shadow is not None:
            await self.shadow.stop()
