"""The Ray actor ``gateway-<id>``: one Kafka broker to its clients, and /metrics beside it."""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from muster.actors.audit.outbox import Batch
from muster.actors.audit.report import Report
from muster.actors.audit.sends import Run, SendKey, Sends
from muster.actors.config import Node
from muster.actors.controller.lifecycle import ControllerSeen, Lifecycle
from muster.actors.faults.registry import Book
from muster.actors.runtime.actor import Actor, node_labels
from muster.actors.runtime.event_writer import EventWriter
from muster.actors.runtime.follow import ViewFollower
from muster.actors.runtime.memory import keep_freed_blocks
from muster.actors.runtime.process import holder_paths, now_ms, wall_ms
from muster.actors.runtime.settings import ClusterSettings
from muster.actors.runtime.started import Started
from muster.actors.tables.schemas.cluster import LIFECYCLE
from muster.actors.wire.sockets.held import HeldSockets
from muster.gateway.apis.schemas import load_schemas_by_and_by
from muster.gateway.serving import ServedGateway
from muster.placement.host_port import host_port
from muster.placement.layout import BrokerEndpoint, BrokerNode, broker_path
from muster.placement.view import Broker, BrokerAddress, ClusterView
from muster.placement.zookeeper.ephemeral import EphemeralNode

log = logging.getLogger(__name__)

_VIEW_S = 3.0
_FAULTS_S = 15.0


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
        self._sends = Sends(f"{self.name}/{uuid.uuid4().hex}")
        self._served = ServedGateway(settings, gateway_id, self._sends)
        self._loading: asyncio.Task[None] | None = None

    async def _start(self) -> Started:
        keep_freed_blocks()
        node_id, _ = self._node_and_address()
        holders = partial(holder_paths, self.settings.cluster_id, node_id)
        self._sockets = HeldSockets(holders, self.secret, self.name)
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
        labels = await asyncio.to_thread(node_labels)
        nodes = self._nodes(address, labels)
        await self._sockets.fetch()
        await self._served.open(view, node_id, _FAULTS_S)
        self._served.server.metrics.controller_responds = self._follower.responds
        self._follower.follow(self._served.follow)
        ports, metrics_port = await self._served.listen(self._sockets.listen, self._ports, self._metrics_port)
        first = config.all_listeners[0]
        scheme = "http" if config.http_tls is None else "https"
        rack = Node(gateway_id=self._id, address=address, labels=labels).rack(config.broker_rack)
        endpoints = [
            BrokerEndpoint(listener.name, listener.protocol, *listener.address(node, port))
            for listener, node, port in zip(config.all_listeners, nodes, ports, strict=True)
        ]
        node = partial(BrokerNode, endpoints=tuple(endpoints), node_id=node_id, rack=rack)
        self._node = EphemeralNode(
            settings.zookeeper,
            broker_path(self._id),
            lambda: node(timestamp_ms=now_ms()).encode(),
            settings.zookeeper_access,
        )
        listening = (f"{each.listener}://{host_port(each.host, each.port)}" for each in endpoints)
        log.info("gateway %d serves %s", self._id, ", ".join(listening))
        self._loading = asyncio.get_running_loop().create_task(load_schemas_by_and_by())
        return Started(
            pid=os.getpid(),
            node_id=node_id,
            broker=self._broker(endpoints, node_id, rack),
            metrics_url=f"{scheme}://{host_port(first.own_address(settings.host or address), metrics_port)}/metrics",
        )

    def _nodes(self, node_address: str, labels: Mapping[str, str]) -> list[Node]:
        """Return the values of each listener's placeholders. Raises BadPlaceholder, before anything is bound."""
        nodes = []
        for listener in self.settings.config.all_listeners:
            address = listener.own_address(self.settings.host or node_address)
            nodes.append(Node(gateway_id=self._id, address=address, labels=labels))
            listener.address(nodes[-1], 1)
        return nodes

    def _broker(self, endpoints: Sequence[BrokerEndpoint], node_id: str, rack: str | None) -> Broker:
        first, *further = (BrokerAddress(each.listener, each.host, each.port) for each in endpoints)
        _, host, port = first
        return Broker(id=self._id, host=host, port=port, node_id=node_id, further=tuple(further), rack=rack)

    def _is_up(self) -> bool:
        return self._started is not None and self._started.done() and not self._started.exception()

    async def view(self) -> ClusterView | None:
        """Return the newest view known here; None while this process starts."""
        return self._served.server.view if self._is_up() else None

    async def identity(self) -> tuple[str, str]:
        """Return the cluster id and storage path of this gateway's cluster, also while it starts."""
        return self.settings.cluster_id, self.settings.storage

    async def turned_away(self) -> list[dict[str, object]]:
        """Clients whose requests are not served here, as :meth:`TurnedAwayClients.rows`; none while this starts."""
        return self._served.server.turned_away.rows() if self._is_up() else []

    async def take_faults(self, book: Book) -> None:
        """Inject these from now on. A gateway that is still starting fetches them later."""
        if self._served.faults is not None:
            self._served.faults.take(book)

    async def report_faults(self) -> None:
        """Return once the controller has received all counts of faults injected here."""
        if self._served.faults is not None:
            await self._served.faults.reported()

    async def audit_runs(self, session: str, received: int) -> Batch[SendKey, Run]:
        """Return the sends by group, with those that are settled now: see :meth:`Outbox.take`."""
        await self.flush()
        return self._sends.take(session, received)

    async def take_audit(self, report: Report) -> None:
        """Set the report of the last round of the audit."""
        await self.start()
        self._served.server.audit_report = report

    async def flush(self) -> int:
        """Write the samples so far as Parquet. Returns the number of rows."""
        await self.start()
        return await self._served.flush()

    async def leave(self) -> None:
        """Close the clients' connections between two requests, and serve who connects again.

        They request the metadata, in which other gateways lead. This one is still named there: librdkafka can take a
        second to go to the new leader of a partition if the old leader disappears from the metadata at the same time.
        """
        if not self._is_up():
            return
        others_lead = lambda view: all(broker.leaves or broker.id != self._id for broker in view.brokers)  # noqa: E731
        await self._served.server.until_view(others_lead, _VIEW_S)
        await self._served.end_connections()

    async def stop(self) -> None:
        """Close the clients' connections, and write what was counted."""
        if self._started is None:
            return
        if self._loading is not None:
            self._loading.cancel()
        self._follower.stop()
        await self._served.close_listeners()
        await self._sockets.release()
        await self._served.stop()
        await self._lifecycle.close()
        await asyncio.to_thread(self._node.close)
