"""One Kafka broker that serves: its clients, /metrics beside it, what it counts. In its own process, or a standby's."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import ray
from aiohttp import web
from ray.exceptions import RayError, RayTaskError

import muster.gateway.apis  # noqa: F401 - registers the handlers
from muster.actors.audit.sends import Sends
from muster.actors.config.altering import Alteration
from muster.actors.controller.admin import AclOutcome, EntityOutcome, NewTopic, TopicOutcome
from muster.actors.controller.nodes import NodeError
from muster.actors.runtime.errors import last_line
from muster.actors.runtime.event_writer import EventWriter
from muster.actors.runtime.follow import CurrentController
from muster.actors.runtime.process import now_ms, wall_ms
from muster.actors.runtime.settings import ClusterSettings
from muster.actors.tables.reading import TableDamaged
from muster.actors.tables.schemas.administration import ADMINISTRATION
from muster.actors.tables.spool import SampleStore
from muster.actors.wire.limited_log import LimitedLog
from muster.gateway.administration.trail import Trail
from muster.gateway.analytics.actor import RayAnalytics
from muster.gateway.attribution.account import End
from muster.gateway.faults.controller import RayFaults
from muster.gateway.faults.injection import GatewayFaults
from muster.gateway.http.server import gateway_app, start_http
from muster.gateway.listener.complaints import Cause, Complaint
from muster.gateway.listener.controller import ControllerUnavailable, NodeRefused
from muster.gateway.listener.limiting.turns import in_background
from muster.gateway.listener.lost_hosts import LostHosts
from muster.gateway.listener.resume import ends
from muster.gateway.listener.server import GatewayServer
from muster.gateway.listener.upkeep import Upkeep, account_of
from muster.gateway.metrics.gateway import GatewayMetrics
from muster.gateway.metrics.names import share_key
from muster.placement.security.acls import Acl, AclFilter
from muster.placement.security.entities import EntityAlteration
from muster.placement.view import OFFSETS, ClusterView

log = logging.getLogger(__name__)

_CONTROLLER_S = 30.0
_STATUS_S = 4.0
"""A controller that is back by then serves it; ``muster status`` waits a little longer."""
_SETTLE_S = 1.0
T = TypeVar("T")

ListenFor = Callable[[str, str, int], list[socket.socket]]
"""Function like :meth:`muster.actors.wire.sockets.held.HeldSockets.listen`: sockets for a use, a host and a port."""


class RayController:
    """The controller over Ray; a :class:`muster.gateway.listener.controller.Controller`."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._limited_log = LimitedLog(log)

    async def _in_time(self, call: Awaitable[T], timeout_s: float = _CONTROLLER_S) -> T:
        try:
            async with asyncio.timeout(timeout_s):
                return await call
        except NodeError as error:  # Ray's error is both
            raise NodeRefused(str(error.cause if isinstance(error, RayTaskError) else error)) from error
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

    async def set_replication_factors(self, factors: dict[str, int]) -> list[TopicOutcome]:
        return await self._in_time(self._handle.set_replication_factors.remote(factors))

    async def alter_configs(self, alterations: Sequence[Alteration], validate_only: bool) -> list[TopicOutcome]:
        return await self._in_time(self._handle.alter_configs.remote(alterations, validate_only))

    async def alter_entities(self, alterations: Sequence[EntityAlteration]) -> list[EntityOutcome]:
        return await self._in_time(self._handle.alter_entities.remote(alterations))

    async def create_acls(self, acls: Sequence[Acl]) -> list[AclOutcome]:
        return await self._in_time(self._handle.create_acls.remote(acls))

    async def delete_acls(self, filters: Sequence[AclFilter]) -> list[list[AclOutcome]]:
        return await self._in_time(self._handle.delete_acls.remote(filters))

    async def until_followed(self, timeout_s: float) -> bool:
        return await self._in_time(self._handle.until_followed.remote(timeout_s))

    async def producer_ids(self) -> range:
        return await self._in_time(self._handle.producer_ids.remote())

    async def status(self) -> dict[str, Any]:
        return await self._in_time(self._handle.status.remote(), _STATUS_S)

    async def activate(self, partition: int, kind: str = OFFSETS) -> None:
        await self._in_time(self._handle.activate.remote(partition, kind))

    async def drain(self, node_id: str) -> None:
        await self._in_time(self._handle.drain.remote(node_id))

    async def undrain(self, node_id: str) -> None:
        await self._in_time(self._handle.undrain.remote(node_id))


class ServedGateway:
    """A gateway under its id, in this process. :meth:`open`, then :meth:`listen`; :meth:`stop` at any time."""

    faults: GatewayFaults | None = None
    """None until it is open, or if fault injection is disabled."""

    def __init__(self, settings: ClusterSettings, gateway_id: int, sends: Sends | None = None) -> None:
        """Take the settings; ``sends`` collects sends for the audit."""
        self._settings = settings
        self._id = gateway_id
        self._sends = sends
        self._store: SampleStore | None = None
        self._trail: EventWriter | None = None
        self._server: GatewayServer | None = None
        self._lost_hosts: LostHosts | None = None
        self._http: web.AppRunner | None = None
        self._loops: list[asyncio.Task[None]] = []
        self._is_settled = asyncio.Event()

    @property
    def server(self) -> GatewayServer:
        """Server of the clients, once it is open."""
        assert self._server is not None
        return self._server

    async def open(self, view: ClusterView, node_id: str, faults_s: float) -> None:
        """Read what the last process of this gateway left, and connect to the actors in the view. Raises OSError.

        ``node_id`` is that of this process. ``faults_s``: how long to wait for the controller's faults; they come later
        if it is unavailable.
        """
        config = self._settings.config
        if (bucket := self._settings.location) is not None and config.metrics_hash_names:
            await asyncio.to_thread(share_key, bucket, Path(self._settings.storage))
        self._store = store = await asyncio.to_thread(self._open_store)
        account = account_of(config, store)
        account.resumes(await asyncio.to_thread(self._ends), now_ms())
        kop_cluster = view.cluster_id if config.metrics_kop_compatible else None
        self._server = server = GatewayServer(
            gateway_id=self._id,
            node_id=node_id,
            config=config,
            controller=RayController(CurrentController(self._settings)),
            account=account,
            metrics=GatewayMetrics(self._id, account, kop_cluster=kop_cluster),
            view=view,
            storage=Path(self._settings.storage),
        )
        self._audit_topics()
        self._upkeep = Upkeep(account)
        self._trail = EventWriter(
            Path(self._settings.storage),
            ADMINISTRATION,
            f"gateway-{self._id}",
            flush_ms=config.metrics_events_flush_ms,
            now_ms=wall_ms,
        )
        self._trail.start()
        server.trail = Trail(self._trail.add, wall_ms, self._id)
        self._lost_hosts = LostHosts(_alive_nodes, server.have_metadata_requested)
        if config.fault_injection_enable:
            faults = RayFaults(CurrentController(self._settings))
            self.faults = GatewayFaults(server, faults)
            await self.faults.fetch(faults_s)
            server.faults = self.faults

    def _audit_topics(self) -> None:
        if self._sends is not None:
            self._sends.follow(self.server.view.topics, now_ms())

    def _open_store(self) -> SampleStore:
        folder = Path(self._settings.storage) / "metrics"
        flush_ms = self._settings.config.metrics_samples_flush_ms
        observe = self._sends.add if self._sends is not None and self._settings.config.audit_interval_ms else None
        return SampleStore(folder, self._id, flush_ms=flush_ms, now_ms=now_ms, observe=observe)

    def _ends(self) -> list[End]:
        """Where this gateway's streams ended when it last served; empty if that cannot be read."""
        flush_ms = self._settings.config.metrics_samples_flush_ms
        try:
            storage, bucket = Path(self._settings.storage), self._settings.location
            return ends(storage, self._id, now_ms=now_ms(), flush_ms=flush_ms, bucket=bucket)
        except (TableDamaged, OSError) as error:
            log.warning("where clients left off is not known: %s", error)
            return []

    async def listen(self, listen: ListenFor, ports: Sequence[int], metrics_port: int) -> tuple[tuple[int, ...], int]:
        """Accept clients at every listener, and requests for metrics; returns the ports.

        Raises OSError if one is taken. ``ports``: of each listener, in their order.
        """
        default, config = self._settings.host, self._settings.config
        bound = []
        for listener, port in zip(config.all_listeners, ports, strict=True):
            at = listener.host or default or "0.0.0.0"  # noqa: S104 - bind rules apply
            sockets = partial(listen, f"kafka {listener.name}")
            bound.append(await self.server.listen(at, port, sockets, listener))
        app = gateway_app(self.server, self._reconciler_status, RayAnalytics(self._settings))
        at = config.all_listeners[0].host or default or "0.0.0.0"  # noqa: S104 - bind rules apply
        self._http, metrics_port = await start_http(
            app,
            at,
            metrics_port,
            partial(listen, "http"),
            self.server.tls.http_context,
            max_connections=config.metrics_max_connections,
        )
        self._loops = [
            self._every(config.metrics_samples_flush_ms / 1000, self.flush),
            self._every(_SETTLE_S, self._settle),
        ]
        return tuple(bound), metrics_port

    def follow(self, view: ClusterView) -> None:
        """Apply a newer view."""
        before = self.server.view
        self.server.follow(view)
        self._audit_topics()
        if self._lost_hosts is not None:
            self._lost_hosts.follow(before, self.server.view)

    async def flush(self) -> int:
        """Write the samples so far as Parquet. Returns the number of rows. Raises OSError."""
        return await asyncio.to_thread(self._store.flush) if self._store is not None else 0

    async def close_listeners(self) -> None:
        """Accept no more clients, and no more requests for metrics."""
        if self._server is not None:
            self._server.close_listeners()
        if self._http is not None:
            for site in list(self._http.sites):
                await site.stop()

    async def until_settled(self) -> None:
        """Return when every byte that was sent until now has its final attribution: attribution.pending.ms at most."""
        self._is_settled.clear()  # what it says may be a second old
        await self._is_settled.wait()

    async def end_connections(self) -> None:
        """Close the connections of now between two requests: this process is about to stop serving."""
        await self.server.end_connections(Complaint(Cause.GATEWAY_STOPS, "the gateway is about to stop"))

    def _every(self, period_s: float, work: Callable[[], Awaitable[Any]]) -> asyncio.Task[None]:
        async def run() -> None:
            failing: int | None = None
            while True:
                await asyncio.sleep(period_s)
                try:
                    await work()
                    failing = None
                except OSError as error:
                    if error.errno != failing:
                        failing = error.errno
                        log.error("samples cannot be written for now: %s", error)
                except Exception:
                    log.exception("what is done every %g s failed; it is tried again", period_s)

        return asyncio.get_running_loop().create_task(run())

    async def _settle(self) -> None:
        await in_background(self._upkeep.settle(now_ms()))
        self.server.forget_silent_clients()
        if self.server.trail is not None:
            self.server.trail.settle()
        if self.server.account.is_pending:
            self._is_settled.clear()
        else:
            self._is_settled.set()

    async def _reconciler_status(self) -> dict[str, Any]:
        reconciler = await asyncio.to_thread(ray.get_actor, "reconciler", self._settings.namespace)
        status: dict[str, Any] = await reconciler.status.remote()
        return status

    async def stop(self) -> None:
        """Accept no more clients, close the connections, and write what was counted. Also if it was never open."""
        for loop in self._loops:
            loop.cancel()
        if self._lost_hosts is not None:
            self._lost_hosts.stop()
        if self._server is not None:
            await self._server.stop()
        if self._http is not None:
            await self._http.cleanup()
        if self._server is not None:
            self._server.account.close()
            if self._server.trail is not None:
                self._server.trail.close()
        if self._trail is not None:
            await self._trail.close()
        if self._store is not None:
            await asyncio.to_thread(self._store.close)


async def _alive_nodes() -> set[str]:
    nodes: list[dict[str, Any]] = await asyncio.to_thread(ray.nodes)
    return {node["NodeID"] for node in nodes if node["Alive"]}
