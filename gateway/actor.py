"""The Ray actor ``gateway-<id>``: one Kafka broker to its clients, and /metrics beside it."""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import ray
from ray.exceptions import RayError

import muster.gateway.apis  # noqa: F401 - registers the handlers
from muster.actors.audit.outbox import Batch
from muster.actors.audit.report import Report
from muster.actors.audit.sends import Run, SendKey, Sends
from muster.actors.config import Node
from muster.actors.config.altering import Alteration
from muster.actors.controller.admin import NewTopic, TopicOutcome
from muster.actors.controller.lifecycle import ControllerSeen, Lifecycle
from muster.actors.faults.registry import Book
from muster.actors.runtime.actor import Actor, node_labels
from muster.actors.runtime.errors import last_line
from muster.actors.runtime.event_writer import EventWriter
from muster.actors.runtime.follow import CurrentController, ViewFollower
from muster.actors.runtime.memory import keep_freed_blocks
from muster.actors.runtime.process import holder_paths, now_ms, wall_ms
from muster.actors.runtime.settings import ClusterSettings
from muster.actors.runtime.started import Started
from muster.actors.tables.reading import TableDamaged
from muster.actors.tables.schemas.cluster import LIFECYCLE
from muster.actors.tables.spool import SampleStore
from muster.actors.wire.held_sockets import HeldSockets
from muster.actors.wire.limited_log import LimitedLog
from muster.gateway.attribution.account import End
from muster.gateway.faults.controller import RayFaults
from muster.gateway.faults.injection import GatewayFaults
from muster.gateway.http.server import gateway_app, start_http
from muster.gateway.listener.complaints import Cause, Complaint
from muster.gateway.listener.controller import ControllerUnavailable
from muster.gateway.listener.lost_hosts import LostHosts
from muster.gateway.listener.resume import ends
from muster.gateway.listener.server import GatewayServer
from muster.gateway.listener.upkeep import Upkeep, account_of
from muster.gateway.metrics.gateway import GatewayMetrics
from muster.placement.host_port import host_port
from muster.placement.layout import BrokerEndpoint, BrokerNode, broker_path
from muster.placement.view import Broker, BrokerAddress, ClusterView
from muster.placement.zookeeper.ephemeral import EphemeralNode

log = logging.getLogger(__name__)

_CONTROLLER_S = 30.0
_SETTLE_S = 1.0
_VIEW_S = 3.0
T = TypeVar("T")

__all__ = ["GatewayActor"]


class RayController:
    """The controller over Ray; a :class:`muster.gateway.listener.controller.Controller`."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._limited_log = LimitedLog(log)

    async def _in_time(self, call: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(_CONTROLLER_S):
                return await call
        except (RayError, TimeoutError) as error:
            text = last_line(error)
            self._limited_log.warning(type(error).__name__, "clients", "the controller could not do it: %s", text)
            raise ControllerUnavailable(text) from error

    async def create_topics(self, topics: Sequence[NewTopic], validate_only: bool) -> list[TopicOutcome]:
        return await self._in_time(self._handle.create_topics.remote(topics, validate_only))

    async def delete_topics(self, names: Sequence[str]) -> list[TopicOutcome]:
        return await self._in_time(self._handle.delete_topics.remote(names))

    async def add_partitions(self, totals: dict[str, int], validate_only: bool) -> list[TopicOutcome]:
        return await self._in_time(self._handle.add_partitions.remote(totals, validate_only))

    async def alter_configs(self, alterations: Sequence[Alteration], validate_only: bool) -> list[TopicOutcome]:
        return await self._in_time(self._handle.alter_configs.remote(alterations, validate_only))

    async def until_followed(self, timeout_s: float) -> bool:
        return await self._in_time(self._handle.until_followed.remote(timeout_s))

    async def producer_ids(self) -> range:
        return await self._in_time(self._handle.producer_ids.remote())

    async def activate(self, offsets_partition: int) -> None:
        await self._in_time(self._handle.activate.remote(offsets_partition))


class GatewayActor(Actor):
    """Starts with OSError if a port is taken."""

    def __init__(
        self, settings: ClusterSettings, secret: bytes, gateway_id: int, ports: tuple[int, ...], metrics_port: int
    ) -> None:
        """``ports``: of each listener, in their order."""
        super().__init__(settings, secret, f"gateway-{gateway_id}")
        self._id = gateway_id
        self._ports = ports
        self._metrics_port = metrics_port
        self._loops: list[asyncio.Task[None]] = []
        self._faults: GatewayFaults | None = None
        self._sends = Sends(f"{self.name}/{uuid.uuid4().hex}")

    async def _start(self) -> Started:
        keep_freed_blocks()
        node_id, _ = self._node_and_address()
        holders = partial(holder_paths, self.settings.cluster_id, node_id)
        self._sockets = HeldSockets(holders, self.secret, self.name)
        await self._sockets.fetch()
        try:
            started = await self._serve()
        except BaseException:
            self._sockets.abandon()
            raise
        self._sockets.hold()
        return started

    async def _serve(self) -> Started:
        settings, config = self.settings, self.settings.config
        node_id, address = self._node_and_address()
        self._lifecycle = EventWriter(
            Path(settings.storage),
            LIFECYCLE,
            self.name,
            flush_ms=config.metrics_events_flush_ms,
            now_ms=wall_ms,
        )
        self._lifecycle.start()
        lifecycle = Lifecycle(self._lifecycle.add, wall_ms, seen_by=self.name)
        self._follower = ViewFollower(settings, self.name, ControllerSeen(lifecycle))
        view = await self._follower.first()
        self._store = await asyncio.to_thread(self._open_store)
        account = account_of(config, self._store)
        account.resumes(await asyncio.to_thread(self._ends), now_ms())
        kop_cluster = view.cluster_id if config.metrics_kop_compatible else None
        metrics = GatewayMetrics(self._id, account, kop_cluster=kop_cluster)
        self._gateway = GatewayServer(
            gateway_id=self._id,
            node_id=node_id,
            config=config,
            controller=RayController(CurrentController(settings)),
            account=account,
            metrics=metrics,
            view=view,
        )
        self._upkeep = Upkeep(account)
        if config.fault_injection_enable:
            faults = RayFaults(CurrentController(settings))
            self._faults = GatewayFaults(self._gateway, faults)
            self._faults.take(await faults.book())
            self._gateway.faults = self._faults
        self._lost_hosts = LostHosts(_alive_nodes, self._gateway.end_connections)
        self._follower.follow(self._on_view)
        labels = await asyncio.to_thread(node_labels)
        rack = Node(gateway_id=self._id, address=address, labels=labels).rack(config.broker_rack)
        endpoints = await self._listen_to_clients(address, labels)
        first = config.all_listeners[0]
        self._http, metrics_port = await start_http(
            gateway_app(self._gateway, self._reconciler_status),
            first.host or settings.host or "0.0.0.0",
            self._metrics_port,
            partial(self._sockets.listen, "http"),
        )
        self._loops = [
            self._every(config.metrics_samples_flush_ms / 1000, lambda: asyncio.to_thread(self._store.flush)),
            self._every(_SETTLE_S, self._settle),
        ]
        node = partial(BrokerNode, endpoints=endpoints, node_id=node_id, rack=rack)
        self._node = EphemeralNode(
            settings.zookeeper, broker_path(self._id), lambda: node(timestamp_ms=now_ms()).encode()
        )
        served = (f"{each.listener}://{host_port(each.host, each.port)}" for each in endpoints)
        log.info("gateway %d serves %s", self._id, ", ".join(served))
        return Started(
            pid=os.getpid(),
            node_id=node_id,
            broker=self._broker(endpoints, node_id, rack),
            metrics_url=f"http://{host_port(first.own_address(settings.host or address), metrics_port)}/metrics",
        )

    def _broker(self, endpoints: Sequence[BrokerEndpoint], node_id: str, rack: str | None) -> Broker:
        first, *further = (BrokerAddress(each.listener, each.host, each.port) for each in endpoints)
        _, host, port = first
        return Broker(id=self._id, host=host, port=port, node_id=node_id, further=tuple(further), rack=rack)

    async def _listen_to_clients(self, node_address: str, labels: Mapping[str, str]) -> tuple[BrokerEndpoint, ...]:
        """Listen at every listener. Returns what is advertised. OSError; BadPlaceholder before anything is bound."""
        default, listeners = self.settings.host, self.settings.config.all_listeners
        nodes = [
            Node(gateway_id=self._id, address=each.own_address(default or node_address), labels=labels)
            for each in listeners
        ]
        for listener, node in zip(listeners, nodes, strict=True):
            listener.address(node, 1)
        endpoints = []
        for listener, node, port in zip(listeners, nodes, self._ports, strict=True):
            listening = partial(self._sockets.listen, f"kafka {listener.name}")
            at = listener.host or default or "0.0.0.0"
            bound = await self._gateway.listen(at, port, listening, listener)
            endpoints.append(BrokerEndpoint(listener.name, listener.protocol, *listener.address(node, bound)))
        return tuple(endpoints)

    def _on_view(self, view: ClusterView) -> None:
        before = self._gateway.view
        self._gateway.follow(view)
        self._lost_hosts.follow(before, self._gateway.view)

    def _ends(self) -> list[End]:
        """Where this gateway's streams ended when it last served; empty if that cannot be read."""
        flush_ms = self.settings.config.metrics_samples_flush_ms
        try:
            return ends(Path(self.settings.storage), self._id, now_ms=now_ms(), flush_ms=flush_ms)
        except TableDamaged as error:
            log.warning("where clients left off is not known: %s", error)
            return []

    def _open_store(self) -> SampleStore:
        folder = Path(self.settings.storage) / "metrics"
        flush_ms = self.settings.config.metrics_samples_flush_ms
        observe = self._sends.add if self.settings.config.audit_interval_ms else None
        return SampleStore(folder, self._id, flush_ms=flush_ms, now_ms=now_ms, observe=observe)

    def _every(self, period_s: float, work: Callable[[], Awaitable[Any]]) -> asyncio.Task[None]:
        async def run() -> None:
            while True:
                await asyncio.sleep(period_s)
                try:
                    await work()
                except OSError as error:
                    log.error("samples cannot be written: %s", error)
                except Exception:
                    log.exception("what is done every %g s failed; it is tried again", period_s)

        return asyncio.get_running_loop().create_task(run())

    async def _reconciler_status(self) -> dict[str, Any]:
        reconciler = await asyncio.to_thread(ray.get_actor, "reconciler", self.settings.namespace)
        status: dict[str, Any] = await reconciler.status.remote()
        return status

    async def _settle(self) -> None:
        self._upkeep.settle(now_ms())

    async def view(self) -> ClusterView | None:
        """The newest view known here; None while this process starts."""
        is_up = self._started is not None and self._started.done() and not self._started.exception()
        return self._gateway.view if is_up else None

    async def identity(self) -> tuple[str, str]:
        """The cluster id and storage path of this gateway's cluster; also returned while it starts."""
        return self.settings.cluster_id, self.settings.storage

    async def take_faults(self, book: Book) -> None:
        """Inject these from now on. A gateway that is still starting fetches them later."""
        if self._faults is not None:
            self._faults.take(book)

    async def report_faults(self) -> None:
        """Returns when the controller has received what was injected here."""
        if self._faults is not None:
            await self._faults.reported()

    async def audit_runs(self, session: str, received: int) -> Batch[SendKey, Run]:
        """What was sent, to which group, with what is settled now: see :meth:`Outbox.take`."""
        await self.flush()
        return self._sends.take(session, received)

    async def take_audit(self, report: Report) -> None:
        """Set the report of the last round of the audit."""
        await self.start()
        self._gateway.audit_report = report

    async def flush(self) -> int:
        """Write the samples so far as Parquet. Returns the number of rows."""
        await self.start()
        return await asyncio.to_thread(self._store.flush)

    async def leave(self) -> None:
        """Close the clients' connections between two requests, and serve who connects again.

        They request the metadata, in which other gateways lead. This one is still named there: librdkafka can take a
        second to go to the new leader of a partition if the old leader disappears from the metadata at the same time.
        """
        if self._started is None or not self._started.done() or self._started.exception():
            return
        others_lead = lambda view: all(broker.leaves or broker.id != self._id for broker in view.brokers)  # noqa: E731
        await self._gateway.until_view(others_lead, _VIEW_S)
        await self._gateway.end_connections(Complaint(Cause.GATEWAY_STOPS, "the gateway is about to stop"))

    async def stop(self) -> None:
        """Close the clients' connections, and write what was counted."""
        if self._started is None:
            return
        self._follower.stop()
        self._lost_hosts.stop()
        for loop in self._loops:
            loop.cancel()
        await self._gateway.stop()
        await self._http.cleanup()
        await self._sockets.release()
        self._gateway.account.close()
        await asyncio.to_thread(self._store.close)
        await self._lifecycle.close()
        await asyncio.to_thread(self._node.close)


async def _alive_nodes() -> set[str]:
    nodes: list[dict[str, Any]] = await asyncio.to_thread(ray.nodes)
    return {node["NodeID"] for node in nodes if node["Alive"]}
