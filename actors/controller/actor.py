"""The controller: which topics exist and which actors run where, published as a ClusterView.

Topics are stored in ZooKeeper, and the actors are Ray's. The controller keeps in memory only what it can get from
these two again, so it may die at any time: its successor reads ZooKeeper, finds the named actors, and continues.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray

from muster.actors.config.altering import Alteration
from muster.actors.controller.acls import AclsAdmin
from muster.actors.controller.admin import AclOutcome, EntityOutcome, NewTopic, TopicOutcome
from muster.actors.controller.distinct import distinct
from muster.actors.controller.entities import EntitiesAdmin
from muster.actors.controller.faults_over_ray import RayCluster
from muster.actors.controller.history import ControllerHistory
from muster.actors.controller.managed import Managed, numbers
from muster.actors.controller.move import move_controller
from muster.actors.controller.nodes import NodeMoves
from muster.actors.controller.one_per_node import PerNode
from muster.actors.controller.standbys import ActiveStandby
from muster.actors.controller.status import actor_status, clients_turned_away, own_status
from muster.actors.controller.supervisor import Supervisor, detached
from muster.actors.controller.topics import TopicsAdmin
from muster.actors.controller.view_feed import ADOPT_S, ViewFeed, view_of
from muster.actors.controller.zookeeper import ZooKeeperServers
from muster.actors.faults.control import FaultControl, Process
from muster.actors.faults.registry import FaultRegistry
from muster.actors.log.actor import LogActor
from muster.actors.log.bucket.opening import partitions_in
from muster.actors.offsets.actor import OffsetsActor
from muster.actors.reconciler.actor import ReconcilerActor
from muster.actors.runtime.memory import settle
from muster.actors.runtime.process import log_to_file, now_ms, wall_ms
from muster.actors.runtime.ray.light_worker import end_signal_polls_soon
from muster.actors.runtime.settings import ClusterSettings
from muster.actors.serving.actor import CoordinatorActor, RoleActor
from muster.actors.serving.standby import GatewaysOf, StandbyActor
from muster.actors.tables.arrow import without_numpy
from muster.actors.transaction_state.actor import TransactionsActor
from muster.actors.zookeeper.actor import KIND as ZOOKEEPER
from muster.placement.configs import ConfigRegistry
from muster.placement.epochs import ActorEpoch, next_epoch, take_actor_epoch, take_controller_epoch, when_superseded
from muster.placement.layout import CONTROLLER, ControllerNode
from muster.placement.leaders import Leaders
from muster.placement.security.acl_registry import AclRegistry
from muster.placement.security.acls import Acl, AclFilter, Acls
from muster.placement.security.entities import EntityAlteration
from muster.placement.security.entity_registry import EntityRegistry
from muster.placement.topics import TopicRegistry
from muster.placement.view import (
    OFFSETS,
    OFFSETS_TOPIC,
    TRANSACTIONS,
    Broker,
    ClusterView,
    ConsoleAddress,
    DynamicConfigs,
    Endpoint,
)
from muster.placement.zookeeper.client import ZooKeeperClient, ZooKeeperUnreachable, connect
from muster.placement.zookeeper.ephemeral import EphemeralNode

log = logging.getLogger(__name__)

_COORDINATORS: Mapping[str, type[CoordinatorActor]] = {cls.kind: cls for cls in (OffsetsActor, TransactionsActor)}
"""By kind, in the order in which they start."""
_NOT_AWAITED = ("standby", "console", ZOOKEEPER)
"""Kinds of actors without which clients are served, and servers, of which a majority was awaited before."""
_ZOOKEEPER_S = 15.0
_ZOOKEEPER_RETRY_S = 0.2
_ACTIVATE_S = 30.0
_READY_S = 300.0


class Controller:
    """The Ray actor ``controller``. Every method may be retried: after an error, a caller cannot know the outcome."""

    def __init__(
        self,
        settings: ClusterSettings,
        secret: bytes,
        gateway_class: type,
        gateways_of: GatewaysOf,
        console_class: type | None = None,
    ) -> None:
        """``gateway_class``: of the actors ``gateway-<id>``. ``gateways_of``: what standbys serve dead ones with.

        ``console_class``: of the actor ``console``; None: there is none.
        """
        without_numpy()
        log_to_file(Path(settings.storage), "controller", settings.log_format)
        self._settings = settings
        self._secret = secret
        self._gateway_class = gateway_class
        self._gateways_of = gateways_of
        self._console_class = console_class
        self._zk: ZooKeeperClient | None = None
        self._own_epoch: ActorEpoch | None = None
        self._topics: TopicsAdmin | None = None
        self._entities: EntitiesAdmin | None = None
        self._acls: AclsAdmin | None = None
        """None without an authorizer, too."""
        self._node: EphemeralNode | None = None
        self._first_broker: int | None = None
        self._epoch = 0
        self._version = 0
        self._feed = ViewFeed()
        self._leaders: Leaders = {}
        """The most recent leaders; kept while there is no gateway."""
        self._history = ControllerHistory(settings)
        self._supervisor = Supervisor(
            self._publish,
            self._next_epoch_of,
            lifecycle=self._history.lifecycle,
            liveness_timeout_s=settings.config.actor_liveness_timeout_ms / 1000,
            cover=settings.config.offsets_standby_enable,
        )
        self._nodes: NodeMoves | None = None
        self._servers = ZooKeeperServers(settings, self._supervisor)
        self._faults = self._fault_control() if settings.config.fault_injection_enable else None
        self._starting: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    def __repr__(self) -> str:
        """Return the name, which Ray's dashboard and its lines of logs show."""
        return "controller"

    # -- start -----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start once, on the first call. In a successor, the gateways' next ``watch`` makes that call."""
        if self._starting is None or (self._starting.done() and self._starting.exception()):
            self._starting = asyncio.get_running_loop().create_task(self._start())
        await asyncio.shield(self._starting)

    async def _start(self) -> None:
        left = await asyncio.to_thread(self._left_behind)
        self._history.begins(left)
        await self._servers.begin()
        await asyncio.to_thread(self._read_zookeeper)
        if self._faults is not None:
            await self._faults.begin(fresh=left <= {"controller"})
        active_standbys = await self._adopt_standbys(left)
        for index in range(self._settings.config.log_actors):
            self._manage_role(LogActor, index, active_standbys)
        for kind in _COORDINATORS:
            with_data = await self._with_data(_COORDINATORS[kind].topic)
            for partition in sorted(numbers(kind, left | active_standbys.keys()) | with_data):
                self._manage_coordinator(kind, partition, active_standbys)
        self._manage("reconciler", ReconcilerActor)
        if self._console_class is not None:
            self._manage("console", self._console_class)
        self._manage_gateways(numbers("gateway", left))
        await self._adopt(left)
        self._leaders = await self._reported_leaders()
        self._publish()
        self._spawn(self._known_nodes.run())
        self._spawn(self._servers.conform())
        await asyncio.to_thread(self._end_when_superseded)
        self._node = EphemeralNode(
            self._settings.zookeeper, CONTROLLER, self._describe_node, self._settings.zookeeper_access
        )
        self._history.serves(self._epoch)
        settle()
        end_signal_polls_soon()
        log.info("controller epoch %d serves", self._epoch)

    def _fault_control(self) -> FaultControl:
        own = Process(os.getpid(), ray.get_runtime_context().get_node_id())
        registry = FaultRegistry(Path(self._settings.storage) / "run" / "faults.json", wall_ms)
        cluster = RayCluster(self._supervisor, own, self._offsets_partitions)
        return FaultControl(registry, cluster, self._history.faults)

    def _offsets_partitions(self) -> int:
        assert self._topics is not None
        return self._topics.topics[OFFSETS_TOPIC].partitions

    def _read_zookeeper(self) -> None:
        config = self._settings.config
        zk = self._zk = connect(self._settings.zookeeper, self._settings.zookeeper_access, timeout_s=_ZOOKEEPER_S)
        self._own_epoch = take_controller_epoch(zk)
        self._epoch = self._own_epoch.epoch
        self._servers.zk = zk
        self._nodes = self._node_moves(zk)
        self._nodes.load()
        registries = TopicRegistry(zk, self._own_epoch), ConfigRegistry(zk, self._own_epoch)
        topics = TopicsAdmin(*registries, config, self._publish)
        topics.load()
        logins = any(listener.needs_login for listener in config.all_listeners)
        entities = EntitiesAdmin(EntityRegistry(zk, self._own_epoch), self._publish, with_logins=logins)
        entities.load()
        if config.authorizer_class_name:
            self._acls = AclsAdmin(AclRegistry(zk, self._own_epoch), self._publish)
            self._acls.load()
        self._topics, self._entities = topics, entities

    def _node_moves(self, zk: ZooKeeperClient) -> NodeMoves:
        per_node = []
        if self._settings.config.offsets_standby_enable:
            per_node.append(PerNode("standby", self._supervisor, self._manage_standby_on))
        if self._settings.gateway_ports is None:
            per_node.append(PerNode("gateway", self._supervisor, self._manage_gateway_on))
        settle_ms = self._settings.config.node_settle_ms
        return NodeMoves(self._supervisor, zk, per_node, settle_ms=settle_ms, move_controller=self._move_to)

    @property
    def _known_nodes(self) -> NodeMoves:
        assert self._nodes is not None
        return self._nodes

    async def _move_to(self, node_id: str) -> None:
        classes = (self._gateway_class, self._gateways_of, self._console_class)
        with self._history.moving(node_id):
            await move_controller(node_id, self._settings, type(self), self._settings, self._secret, *classes)

    def _end_when_superseded(self) -> None:
        """Exit once there is a successor, as after a pause or an outage: it must not touch any actor then."""
        assert self._zk is not None
        assert self._own_epoch is not None

        def end() -> None:
            log.error("epoch %d has a successor: this process ends", self._epoch)
            os._exit(1)

        when_superseded(self._zk, self._own_epoch, end)

    async def _adopt_standbys(self, left: set[str]) -> Mapping[str, ActiveStandby]:
        """Return the roles that a predecessor's standbys serve.

        Standbys are queried before the actors that they replace.
        """
        for number in sorted(numbers("standby", left)):
            self._manage_standby_on(None, number)
        await self._adopt({name for name in left if name.startswith("standby-")})
        return await self._supervisor.standbys.found()

    async def _next_epoch_of(self, role: str, owner: str) -> int:
        """Return the next leader epoch of an ``offsets-<p>`` or ``transactions-<p>``, or actor epoch of a ``log-<i>``.

        Waits while ZooKeeper is unavailable, which is logged elsewhere: the caller has everything else ready.
        """
        while True:
            try:
                return await asyncio.to_thread(self._take_epoch, role, owner)
            except ZooKeeperUnreachable:
                await asyncio.sleep(_ZOOKEEPER_RETRY_S)

    def _take_epoch(self, role: str, owner: str) -> int:
        assert self._zk is not None
        kind, _, number = role.rpartition("-")
        if kind == LogActor.kind:
            return take_actor_epoch(self._zk, role, holder=self._own_epoch).epoch
        return next_epoch(self._zk, _COORDINATORS[kind].topic, int(number), owner, holder=self._own_epoch)

    async def _adopt(self, left: set[str]) -> None:
        """Wait for a predecessor's actors to report what they serve. No view is visible before ``start`` has ended.

        A first view without these actors would make the gateways drop every connection, although all of them serve.
        """
        known = [managed for name, managed in self._supervisor.actors.items() if name in left]
        await asyncio.gather(*(self._supervisor.alive(managed, ADOPT_S) for managed in known))

    async def _reported_leaders(self) -> Leaders:
        """Return the leaders in the views of a predecessor's gateways; empty without such a gateway."""
        actors = self._supervisor.actors
        gateways = [actors[name] for name in sorted(actors) if name.startswith("gateway-")]
        reported = await asyncio.gather(*(view_of(gateway) for gateway in gateways if gateway.is_alive))
        views = [view for view in reported if view is not None]
        return max(views, key=lambda view: view.order).leaders if views else {}

    def _left_behind(self) -> set[str]:
        """Names of the actors that a predecessor created."""
        actors = ray.util.list_named_actors(all_namespaces=True)
        names = {actor["name"] for actor in actors if actor["namespace"] == self._settings.namespace}
        return {name for name in names if not name.startswith(f"{ZOOKEEPER}-")}  # they began before the first one

    async def _with_data(self, topic: str) -> set[int]:
        """Return the partitions of that topic that have any records, or on a bucket were opened."""
        if (location := self._settings.location) is not None:
            return await partitions_in(location, topic)
        return await asyncio.to_thread(self._with_files, topic)

    def _with_files(self, topic: str) -> set[int]:
        folders = (Path(self._settings.storage) / "logs").glob(f"{topic}-*")
        return {
            int(folder.name.rpartition("-")[2])
            for folder in folders
            if folder.name.rpartition("-")[2].isdigit() and any(file.stat().st_size for file in folder.glob("*.log"))
        }

    def _manage(self, name: str, cls: type, *args: Any, node_id: str | None = None) -> Managed:
        return self._supervisor.manage(name, self._maker(name, cls, *args, node_id=node_id))

    def _manage_coordinator(
        self, kind: str, partition: int, active_standbys: Mapping[str, ActiveStandby] | None = None
    ) -> Managed:
        return self._manage_role(_COORDINATORS[kind], partition, active_standbys, many=True)

    def _manage_role(
        self,
        cls: type[RoleActor],
        number: int,
        active_standbys: Mapping[str, ActiveStandby] | None = None,
        *,
        many: bool = False,
    ) -> Managed:
        name = f"{cls.kind}-{number}"
        active_standby = (active_standbys or {}).get(name)
        make = self._maker(name, cls, number)
        return self._supervisor.manage(name, make, many=many, is_role=True, active_standby=active_standby)

    def _maker(self, name: str, cls: type, *args: Any, node_id: str | None = None) -> Callable[[str | None], Any]:
        """``node_id``: the only node where it may run; None: where it was moved to, or where NodeMoves places it."""
        settings, secret = self._settings, self._secret

        def make(moved_to: str | None) -> Any:
            node = node_id or self._known_nodes.home_for(name, moved_to)
            return detached(cls, name, settings.namespace, settings, secret, *args, node_id=node, pinned=True)

        return make

    def _manage_gateways(self, left: set[int]) -> None:
        settings = self._settings
        if settings.gateway_ports is None or settings.metrics_ports is None:
            for number in sorted(left):
                self._manage_gateway_on(None, number)
            return
        for number, ports in enumerate(zip(settings.gateway_ports, settings.metrics_ports, strict=True), 1):
            self._manage(f"gateway-{number}", self._gateway_class, number, *ports)

    def _manage_gateway_on(self, node_id: str | None, number: int) -> None:
        ports = tuple(listener.port for listener in self._settings.config.all_listeners)
        arguments = (number, ports, self._settings.metrics_port)
        self._manage(f"gateway-{number}", self._gateway_class, *arguments, node_id=node_id)

    def _manage_standby_on(self, node_id: str | None, number: int) -> None:
        self._manage(f"standby-{number}", StandbyActor, number, self._gateways_of, node_id=node_id)

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def identity(self) -> tuple[str, str]:
        """Cluster id and storage path of this controller's cluster; available while the controller starts, too."""
        return self._settings.cluster_id, self._settings.storage

    async def ping(self) -> tuple[int, str]:
        """Pid and node; see :mod:`muster.actors.runtime.liveness.controller`."""
        return os.getpid(), ray.get_runtime_context().get_node_id()

    async def ready(self) -> list[dict[str, Any]]:
        """Wait until every actor that was started serves, except standbys and the console.

        Raises RuntimeError, which names those that do not, and why.
        """
        await self.start()
        if self._settings.gateway_ports is None:
            await self._first_gateway()
        actors = self._supervisor.actors.values()
        waited = [managed for managed in actors if managed.name.partition("-")[0] not in _NOT_AWAITED]
        up = await asyncio.gather(*(self._supervisor.alive(managed, _READY_S) for managed in waited))
        bad = [managed for managed, alive in zip(waited, up, strict=True) if not alive]
        bad += [managed for managed in waited if managed.is_alive and managed.error is not None]
        if bad:
            raise RuntimeError("; ".join(f"{managed.name}: {managed.error or 'does not start'}" for managed in bad))
        return self._gateways()

    async def _first_gateway(self) -> None:
        """Wait until the first gateway serves, if each node has one."""
        if not await self._feed.until(lambda view: bool(view.brokers), _READY_S):
            raise RuntimeError("no node has a gateway that serves")

    def _gateways(self) -> list[dict[str, Any]]:
        found = [
            {"broker": managed.started.broker, "metrics_url": managed.started.metrics_url}
            for managed in self._supervisor.actors.values()
            if managed.started and managed.started.broker
        ]
        return sorted(found, key=lambda gateway: gateway["broker"].id)

    # -- the view --------------------------------------------------------------------------------------

    def _publish(self) -> None:
        brokers: list[Broker] = []
        endpoints: dict[str, dict[int, Endpoint | None]] = {"log": {}, **{kind: {} for kind in _COORDINATORS}}
        for name, managed in self._supervisor.actors.items():
            kind, _, number = name.partition("-")
            if kind in endpoints and (managed.endpoint or managed.starts or kind == "log"):
                endpoints[kind][int(number)] = managed.endpoint
            elif managed.started and managed.started.broker and self._supervisor.is_served(managed):
                url = managed.started.metrics_url
                brokers.append(replace(managed.started.broker, metrics_url=url, leaves=managed.leaves))
        for index in range(self._settings.config.log_actors):
            endpoints["log"].setdefault(index, None)
        served = self._distinct(brokers)
        self._version += 1
        first, self._first_broker = self._first_broker, min((broker.id for broker in served), default=None)
        if self._node is not None and first != self._first_broker:
            self._node.refresh()
        view = ClusterView(
            cluster_id=self._settings.cluster_id,
            controller_epoch=self._epoch,
            version=self._version,
            brokers=served,
            topics=dict(self._topics.topics) if self._topics else {},
            logs=endpoints["log"],
            offsets=endpoints[OFFSETS],
            transactions=endpoints[TRANSACTIONS],
            configs=self._configs(),
            console=self._console(),
        ).with_leaders(self._leaders)
        if served:
            self._leaders = view.leaders
        self._feed.publish(view)

    def _console(self) -> ConsoleAddress | None:
        managed = self._supervisor.actors.get("console")
        return managed.started.console if managed is not None and managed.started and managed.is_alive else None

    def _configs(self) -> DynamicConfigs:
        configs = self._topics.configs if self._topics else DynamicConfigs()
        if self._entities is not None:
            configs = replace(configs, entities=self._entities.entities, login_secret=self._entities.login_secret)
        return replace(configs, acls=self._acls.acls if self._acls else Acls())

    def _distinct(self, brokers: list[Broker]) -> tuple[Broker, ...]:
        """Return the brokers for the view; those left out have an error, which ``muster status`` shows."""
        served, left_out = distinct(brokers)
        for broker_id, problem in left_out.items():
            managed = self._supervisor.actors[f"gateway-{broker_id}"]
            if managed.error != problem:
                log.error("gateway-%d is no broker for clients: %s", broker_id, problem)
                managed.error = problem
        return served

    async def watch(self, after: tuple[int, int] | None, follower: str | None = None) -> ClusterView | None:
        """See :meth:`ViewFeed.after`; ``follower`` is the name of the calling actor."""
        await self.start()
        return await self._feed.after(after, follower)

    async def until_followed(self, timeout_s: float) -> bool:
        """See :meth:`ViewFeed.until_followed`."""
        await self.start()
        return await self._feed.until_followed(timeout_s)

    # -- requests of gateways --------------------------------------------------------------------------

    async def activate(self, partition: int, kind: str = OFFSETS) -> None:
        """Make sure that ``<kind>-<partition>`` runs, a coordinator. Raises RuntimeError if it does not start."""
        topics = await self._topics_admin()
        topic = await topics.require(_COORDINATORS[kind].topic)
        if not 0 <= partition < topic.partitions:
            raise RuntimeError(f"{topic.name} has no partition {partition}")
        managed = self._manage_coordinator(kind, partition)
        if not await self._supervisor.alive(managed, _ACTIVATE_S):
            raise RuntimeError(f"{managed.name}: {managed.error or 'does not start'}")

    async def create_topics(self, topics: Sequence[NewTopic], validate_only: bool) -> list[TopicOutcome]:
        """Create topics that do not exist yet, each independently of the others."""
        return await (await self._topics_admin()).create(topics, validate_only)

    async def delete_topics(self, names: Sequence[str]) -> list[TopicOutcome]:
        """Delete topics, with their data and their committed offsets."""
        return await (await self._topics_admin()).delete(names)

    async def add_partitions(self, totals: dict[str, int], validate_only: bool) -> list[TopicOutcome]:
        """Increase the numbers of partitions of topics to these totals."""
        return await (await self._topics_admin()).add_partitions(totals, validate_only)

    async def set_replication_factors(self, factors: dict[str, int]) -> list[TopicOutcome]:
        """Keep these replication factors with topics."""
        return await (await self._topics_admin()).set_replication_factors(factors)

    async def alter_configs(self, alterations: Sequence[Alteration], validate_only: bool) -> list[TopicOutcome]:
        """Change configs of topics, brokers and groups, in order and each independently of the others."""
        return await (await self._topics_admin()).alter_configs(alterations, validate_only)

    async def alter_entities(self, alterations: Sequence[EntityAlteration]) -> list[EntityOutcome]:
        """Change configs of users, clients and addresses, in order and each independently of the others."""
        await self.start()
        assert self._entities is not None
        return await self._entities.alter(alterations)

    async def create_acls(self, acls: Sequence[Acl]) -> list[AclOutcome]:
        """See ``AclsAdmin.create``."""
        return await (await self._acls_admin()).create(acls)

    async def delete_acls(self, filters: Sequence[AclFilter]) -> list[list[AclOutcome]]:
        """See ``AclsAdmin.delete``."""
        return await (await self._acls_admin()).delete(filters)

    async def _acls_admin(self) -> AclsAdmin:
        """Return the administration of ACLs. Raises RuntimeError without an authorizer."""
        await self.start()
        if self._acls is None:
            raise RuntimeError("authorizer.class.name is empty")
        return self._acls

    async def producer_ids(self) -> range:
        """Return a block of producer ids that were never given out before."""
        return await (await self._topics_admin()).producer_ids()

    async def partition_counts(self, names: Collection[str]) -> dict[str, int]:
        """How many partitions these topics have, as ZooKeeper says now; without those that it does not have."""
        return await (await self._topics_admin()).partition_counts(names)

    async def faults(self, what: str, *arguments: Any) -> dict[str, Any]:
        """Return the result of ``FaultControl.call``. Raises RuntimeError unless fault injection is enabled."""
        await self.start()
        if self._faults is None:
            raise RuntimeError("fault injection is off")
        return await self._faults.handle(what, *arguments)

    async def _topics_admin(self) -> TopicsAdmin:
        await self.start()
        assert self._topics is not None
        return self._topics

    # -- operators -------------------------------------------------------------------------------------

    async def status(self) -> dict[str, Any]:
        """Nodes and actors, for ``muster status``. Ray also lists dead nodes: only those with actors are included."""
        await self.start()
        actors = self._supervisor.actors
        gateways = (actors[name] for name in sorted(actors) if name.startswith("gateway-"))
        turned_away, nodes, servers = await asyncio.gather(
            clients_turned_away(gateways), asyncio.to_thread(ray.nodes), self._servers.status()
        )
        return {
            "cluster_id": self._settings.cluster_id,
            "controller_epoch": self._epoch,
            "nodes": [
                {
                    "node_id": node["NodeID"],
                    "address": node["NodeManagerAddress"],
                    "state": self._known_nodes.state(node["NodeID"]).value,
                    "actors": self._known_nodes.on(node["NodeID"]),
                    "resources": node.get("Resources", {}),
                }
                for node in nodes
                if node["Alive"] or self._known_nodes.on(node["NodeID"])
            ],
            "actors": [own_status(), *(self._status_of(actors[name]) for name in sorted(actors))],
            "topics": len(self._topics.topics) if self._topics else 0,
            "clients_turned_away": turned_away,
            "zookeeper": servers,
        }

    def _status_of(self, managed: Managed) -> dict[str, Any]:
        standby = self._supervisor.standby_of(managed)
        return actor_status(managed, standby.name if standby else None)

    async def drain(self, node_id: str) -> None:
        """See ``NodeMoves.drain``. Raises NodeError."""
        await self.start()
        await self._known_nodes.drain(node_id)

    async def undrain(self, node_id: str) -> None:
        """See ``NodeMoves.undrain``."""
        await self.start()
        await self._known_nodes.undrain(node_id)

    async def replace_zookeeper(self, old: str, new: str | None) -> str:
        """Begin to replace a server: see ``ZooKeeperServers``. Returns the new address. Raises NodeError."""
        await self.start()
        replacement = await self._servers.replacement(old, new)
        self._spawn(self._servers.replace(replacement))
        return replacement.address

    def _describe_node(self) -> bytes:
        brokers = self._feed.view.brokers if self._feed.view else ()
        broker_id = min((broker.id for broker in brokers), default=-1)
        node_id = ray.get_runtime_context().get_node_id()
        return ControllerNode(broker_id=broker_id, timestamp_ms=now_ms(), node_id=node_id).encode()

    async def stop(self) -> None:
        """Stop the actors: console, gateways (so no more requests arrive), reconciler, coordinators, standbys, logs."""
        for task in list(self._tasks):
            task.cancel()
        if self._faults is not None:
            await self._faults.stop()
        names = list(self._supervisor.actors)
        for kind in ("console", "gateway", "reconciler", *_COORDINATORS, "standby", "log"):
            await self._supervisor.stop([name for name in names if name.partition("-")[0] == kind])
        if self._node is not None:
            await asyncio.to_thread(self._node.close)
        await self._history.stopped()
        log.info("controller stopped")
