"""A real gateway on a real socket over real topics in ZooKeeper, without Ray, and a client that sends and reads bytes.

Optionally with actors, groups and records: the real ones behind real internal sockets, in the gateway's event loop.
"""

from __future__ import annotations

import asyncio
import select
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import uvloop
from aiohttp import ClientSession, web

import muster.gateway.apis  # noqa: F401 - registers the handlers
from muster.actors.audit.sends import Sends
from muster.actors.config import MusterConfig
from muster.actors.config.altering import Alteration, InvalidAlteration
from muster.actors.controller.acls import AclsAdmin
from muster.actors.controller.admin import AclOutcome, EntityOutcome, NewTopic, TopicOutcome
from muster.actors.controller.entities import alter_entity
from muster.actors.controller.topics import alter
from muster.actors.tables.spool import SampleStore
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.faults.injection import GatewayFaults
from muster.gateway.http.server import gateway_app, start_http
from muster.gateway.listener.controller import ControllerUnavailable, NodeRefused
from muster.gateway.listener.server import GatewayServer
from muster.gateway.listener.upkeep import account_of
from muster.gateway.metrics.gateway import GatewayMetrics
from muster.placement import drains
from muster.placement.configs import ConfigRegistry
from muster.placement.leaders import Leaders
from muster.placement.security.acl_registry import AclRegistry
from muster.placement.security.acls import Acl, AclFilter
from muster.placement.security.entities import EntityAlteration
from muster.placement.security.entity_registry import EntityRegistry
from muster.placement.topics import (
    InvalidPartitions,
    InvalidTopic,
    TopicError,
    TopicExists,
    TopicRegistry,
    UnknownTopic,
)
from muster.placement.view import (
    OFFSETS,
    OFFSETS_TOPIC,
    TRANSACTIONS,
    TRANSACTIONS_TOPIC,
    Broker,
    ClusterView,
    Endpoint,
    Topic,
)
from muster.placement.zookeeper.client import ZooKeeperClient
from tests.gateway.local_actors import Actors
from tests.gateway.local_faults import LocalFaults

CLUSTER_ID = "muster-test-cluster-id"
BROKERS = (
    Broker(id=1, host="one.test", port=9092, node_id="n1"),
    Broker(id=2, host="two.test", port=9093, node_id="n2"),
)

_ERRORS = {
    InvalidPartitions: ErrorCode.invalid_partitions,
    InvalidTopic: ErrorCode.invalid_topic_exception,
    TopicExists: ErrorCode.topic_already_exists,
    UnknownTopic: ErrorCode.unknown_topic_or_partition,
}


class RegistryController:
    """The controller as a gateway sees it, without its actor: topics in ZooKeeper, and views of them.

    With ``away`` it behaves like a restarting controller, with ``mute`` like one whose views do not arrive.
    """

    def __init__(self, zk: ZooKeeperClient, config: MusterConfig) -> None:
        self._zk = zk
        self.registry = TopicRegistry(zk)
        self.configs = ConfigRegistry(zk)
        self.entities = EntityRegistry(zk)
        self.acls = AclsAdmin(AclRegistry(zk), lambda: None)
        self.config = config
        self.brokers: tuple[Broker, ...] = BROKERS
        self.epoch = 1
        self.away = False
        self.mute = False
        self.publish: Callable[[ClusterView], None] = lambda view: None
        self.faults: LocalFaults | None = None
        self.logs: dict[int, Endpoint | None] = {0: None, 1: None}
        self.offsets: dict[int, Endpoint | None] = {}
        self.transactions: dict[int, Endpoint | None] = {}
        self.leaders: Leaders = {}
        self.stores: dict[int, SampleStore] = {}
        """The stores of the gateways, and what they collect for the audit."""
        self.sends: dict[int, Sends] = {}
        self.start_coordinator: dict[str, Callable[[int], Awaitable[Endpoint]]] = {}
        """By kind."""
        self._starting: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._version = 0

    def view(self) -> ClusterView:
        self._version += 1
        view = ClusterView(
            cluster_id=CLUSTER_ID,
            controller_epoch=self.epoch,
            version=self._version,
            brokers=self.brokers,
            topics=self.registry.load(),
            logs=dict(self.logs),
            offsets=dict(self.offsets),
            transactions=dict(self.transactions),
            configs=replace(
                self.configs.load(),
                entities=self.entities.load(),
                login_secret=self.entities.login_secret(),
                acls=self.acls.acls,
            ),
        ).with_leaders(self.leaders)
        self.leaders = view.leaders
        return view

    async def create_topics(self, topics: Sequence[NewTopic], validate_only: bool) -> list[TopicOutcome]:
        def create(topic: NewTopic) -> Topic | None:
            partitions = max(topic.partitions, 1)
            if validate_only:
                return None
            factor = max(topic.replication_factor, 1)
            return self.registry.create(topic.name, partitions, topic.config, replication_factor=factor)

        return await self._change([(topic.name, partial(create, topic)) for topic in topics])

    async def delete_topics(self, names: Sequence[str]) -> list[TopicOutcome]:
        return await self._change([(name, partial(self.registry.delete, name)) for name in names])

    async def add_partitions(self, totals: dict[str, int], validate_only: bool) -> list[TopicOutcome]:
        def grow(name: str, total: int) -> Topic | None:
            return None if validate_only else self.registry.add_partitions(name, total)

        return await self._change([(name, partial(grow, name, total)) for name, total in totals.items()])

    async def set_replication_factors(self, factors: dict[str, int]) -> list[TopicOutcome]:
        changes = [(name, partial(self.registry.set_replication_factor, name, each)) for name, each in factors.items()]
        return await self._change(changes)

    async def alter_configs(self, alterations: Sequence[Alteration], validate_only: bool) -> list[TopicOutcome]:
        def change(alteration: Alteration) -> None:
            alter(self.configs, alteration, self.config, validate_only)

        return await self._change([(each.name, partial(change, each)) for each in alterations])

    async def alter_entities(self, alterations: Sequence[EntityAlteration]) -> list[EntityOutcome]:
        if self.away:
            raise ControllerUnavailable("away")
        outcomes = [await asyncio.to_thread(alter_entity, self.entities, each) for each in alterations]
        await self._publish()
        return outcomes

    async def create_acls(self, acls: Sequence[Acl]) -> list[AclOutcome]:
        if self.away:
            raise ControllerUnavailable("away")
        outcomes = await self.acls.create(acls)
        await self._publish()
        return outcomes

    async def delete_acls(self, filters: Sequence[AclFilter]) -> list[list[AclOutcome]]:
        if self.away:
            raise ControllerUnavailable("away")
        outcomes = await self.acls.delete(filters)
        await self._publish()
        return outcomes

    async def until_followed(self, timeout_s: float) -> bool:
        """Return True: there is no other gateway."""
        return True

    async def producer_ids(self) -> range:
        if self.away:
            raise ControllerUnavailable("away")
        return await asyncio.to_thread(self.registry.next_producer_id_block)

    async def status(self) -> dict[str, Any]:
        if self.away:
            raise ControllerUnavailable("away")
        drained = await asyncio.to_thread(drains.drained, self._zk)
        nodes: list[dict[str, Any]] = [
            {"node_id": each, "state": "drained" if each in drained else "alive", "actors": []} for each in self._nodes
        ]
        return {"cluster_id": CLUSTER_ID, "controller_epoch": self.epoch, "nodes": nodes, "actors": []}

    @property
    def _nodes(self) -> list[str]:
        return sorted({broker.node_id for broker in self.brokers})

    async def drain(self, node_id: str) -> None:
        """Drain a node unless it is the last one."""
        if not {*self._nodes} - await asyncio.to_thread(drains.drained, self._zk) - {node_id}:
            raise NodeRefused(f"node {node_id} is the last one that is not drained")
        await asyncio.to_thread(drains.drain, self._zk, node_id, 0)

    async def undrain(self, node_id: str) -> None:
        await asyncio.to_thread(drains.undrain, self._zk, node_id)

    async def partition_counts(self, names: Collection[str]) -> dict[str, int]:
        """Return the number of partitions of the topics that exist."""
        topics = await asyncio.to_thread(self.registry.load)
        return {name: topics[name].partitions for name in names if name in topics}

    async def activate(self, partition: int, kind: str = OFFSETS) -> None:
        """Start the partition's actor, once: several gateways may request it at the same time."""
        if kind not in self.start_coordinator:
            raise ControllerUnavailable("there are no coordinators here")
        key = (kind, partition)
        if key not in self._starting:
            starting = asyncio.get_running_loop().create_task(self._start(partition, kind))
            starting.add_done_callback(lambda _: self._starting.pop(key))
            self._starting[key] = starting
        await asyncio.shield(self._starting[key])

    async def _start(self, partition: int, kind: str) -> None:
        if kind == TRANSACTIONS and TRANSACTIONS_TOPIC not in await asyncio.to_thread(self.registry.load):
            count = self.config.transaction_state_log_num_partitions
            with suppress(TopicExists):  # another partition has started meanwhile
                await asyncio.to_thread(self.registry.create, TRANSACTIONS_TOPIC, count, internal=True)
            self.publish(self.view())
        started = self.transactions if kind == TRANSACTIONS else self.offsets
        started[partition] = await self.start_coordinator[kind](partition)
        self.publish(self.view())

    async def _change(self, changes: Sequence[tuple[str, Callable[[], Topic | None]]]) -> list[TopicOutcome]:
        if self.away:
            raise ControllerUnavailable("away")
        outcomes = [await asyncio.to_thread(_outcome, name, change) for name, change in changes]
        await self._publish()
        return outcomes

    async def _publish(self) -> None:
        if not self.mute:
            asyncio.get_running_loop().call_soon(self.publish, await asyncio.to_thread(self.view))


def _outcome(name: str, change: Callable[[], Topic | None]) -> TopicOutcome:
    try:
        return TopicOutcome(name, 0, None, change())
    except InvalidAlteration as error:
        return TopicOutcome(name, int(error.code), str(error))
    except TopicError as error:
        return TopicOutcome(name, int(_ERRORS[type(error)]), str(error))


class Client:
    """One connection; sends requests of any version, and returns the decoded responses."""

    def __init__(
        self, port: int, client_id: str | None = "a client", *, host: str = "127.0.0.1", source: str | None = None
    ) -> None:
        """``source``: the client's own address."""
        own = None if source is None else (source, 0)
        self._socket = socket.create_connection((host, port), timeout=20, source_address=own)
        self.client_id = client_id
        self._correlation_ids = [0]
        self._answered = 0

    def exchange(self, api_key: int, version: int, body: dict[str, Any]) -> Any:
        self.request(api_key, version, body)
        return self.response(api_key, version)

    def request(self, api_key: int, version: int, body: dict[str, Any]) -> None:
        """Send a request; its response is read later."""
        frame = codec.encode_request(api_key, version, self._correlation_ids[-1] + 1, self.client_id, body)
        self._correlation_ids.append(self._correlation_ids[-1] + 1)
        self.send(frame)

    def unanswered(self) -> None:
        """Expect no response to the last request."""
        self._correlation_ids.pop()

    def response(self, api_key: int, version: int) -> Any:
        """Return the next response; it must be the one to the oldest request."""
        correlation_id, entity = codec.decode_response(api_key, version, self.receive())
        self._answered += 1
        assert correlation_id == self._correlation_ids[self._answered]
        return entity

    def send(self, frame: bytes) -> None:
        self.send_raw(len(frame).to_bytes(4, "big") + frame)

    def send_raw(self, data: bytes) -> None:
        self._socket.sendall(data)

    def reset(self) -> None:
        """Close with RST: data in flight in either direction is lost."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def receive(self) -> bytes:
        return self._exactly(int.from_bytes(self._exactly(4), "big"))

    @property
    def port(self) -> int:
        """The client's own port."""
        return int(self._socket.getsockname()[1])

    def is_closed(self) -> bool:
        """Wait for the next data: True if it is the end of the connection."""
        try:
            return not self._socket.recv(1)
        except ConnectionError:
            return True

    def has_nothing_for(self, duration_s: float) -> bool:
        """Whether neither a response nor the end of the connection comes within that time."""
        return not select.select([self._socket], [], [], duration_s)[0]

    def finish(self) -> None:
        """Shut down the sending direction."""
        self._socket.shutdown(socket.SHUT_WR)

    def _exactly(self, size_bytes: int) -> bytes:
        data = b""
        while len(data) < size_bytes:
            part = self._socket.recv(size_bytes - len(data))
            if not part:
                raise ConnectionError("closed by the gateway")
            data += part
        return data

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Serving:
    """A gateway in the event loop of a thread, and a client of it."""

    def __init__(
        self, server: GatewayServer, controller: RegistryController, run: Callable[..., Any], port: int
    ) -> None:
        self.gateway = server
        self.controller = controller
        self.actors: Actors | None = None
        self.run = run
        self.port = port
        self.client = Client(port)
        self._http: tuple[web.AppRunner, int] | None = None

    def connect(self, client_id: str | None = "a client") -> Client:
        """Open another connection."""
        return Client(self.port, client_id)

    def exchange(self, api_key: int, version: int, body: dict[str, Any]) -> Any:
        return self.client.exchange(api_key, version, body)

    def listen(self, listener: str, host: str = "127.0.0.1") -> int:
        """Accept clients of a further listener, too. Returns the port."""
        (found,) = (each for each in self.gateway.started_with.all_listeners if each.name == listener)
        port: int = self.run(self.gateway.listen(host, 0, listener=found))
        return port

    def create(self, name: str, partitions: int = 1, *, internal: bool = False, **config: str) -> Topic:
        """Create a topic; the gateway and the actors know it when this returns."""
        named = {key.replace("_", "."): value for key, value in config.items()}
        topic = self.controller.registry.create(name, partitions, named, internal=internal)

        async def publish() -> None:
            self.controller.publish(self.controller.view())

        self.run(publish())
        return topic

    def reachable(self) -> str:
        """Put this gateway alone into views from now on; return its bootstrap address for real clients."""
        self.controller.brokers = (Broker(id=self.gateway.id, host="127.0.0.1", port=self.port, node_id="n1"),)
        self.follow(self.controller.view())
        return f"127.0.0.1:{self.port}"

    def without_brokers(self) -> None:
        self.follow(replace(self.controller.view(), brokers=()))

    def flush_complaints(self) -> None:
        """Log the suppressed complaints; the next complaint of any kind counts as a first one."""

        async def flush() -> None:
            self.gateway.complaints.flush()

        self.run(flush())

    @property
    def http_url(self) -> str:
        """URL of the gateway's HTTP side, which is started if necessary."""
        if self._http is None:
            self._http = self.run(
                start_http(
                    gateway_app(self.gateway),
                    "127.0.0.1",
                    0,
                    max_connections=self.gateway.config.metrics_max_connections,
                )
            )
        return f"http://127.0.0.1:{self._http[1]}"

    def http(self, path: str, **headers: str) -> tuple[int, str]:
        """GET on the gateway's HTTP side: status and body."""
        url = f"{self.http_url}{path}"

        async def get() -> tuple[int, str]:
            async with ClientSession() as session, session.get(url, headers=headers) as response:
                return response.status, await response.text()

        response: tuple[int, str] = self.run(get())
        return response

    def stop_http(self) -> None:
        if self._http is not None:
            self.run(self._http[0].cleanup())

    def follow(self, view: ClusterView) -> None:
        async def follow() -> None:
            self.gateway.follow(view)

        self.run(follow())


@contextmanager
def serving(
    zk: ZooKeeperClient, directory: Path, properties: dict[str, str], *, with_actors: bool = False
) -> Iterator[Serving]:
    """Serve with these properties until the block ends."""
    loop = uvloop.new_event_loop()  # as in Ray's actors
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(30)

    undelayed = {"connection.invalid.request.delay.ms": "0"}  # some tests send bad requests by the thousand
    config = MusterConfig.from_properties({**undelayed, **properties})
    server, controller, port = run(_listen(zk, directory, config))
    served = Serving(server, controller, run, port)
    if with_actors:
        served.actors = Actors(zk, directory, config, controller, lambda: server.view)
        run(served.actors.start())
        served.follow(controller.view())
        run(server.forwarder.until(lambda: None not in map(server.forwarder.log, controller.logs), 10))
    try:
        yield served
    finally:
        served.client.close()
        served.stop_http()
        if controller.faults is not None:
            run(controller.faults.control.stop())
        run(server.stop())
        if served.actors is not None:
            run(served.actors.stop())
        run(_end_tasks())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _end_tasks() -> None:
    """Cancel the remaining tasks, as asyncio.run does: for example of a coordinator that is just starting."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _listen(
    zk: ZooKeeperClient, directory: Path, config: MusterConfig
) -> tuple[GatewayServer, RegistryController, int]:
    controller = RegistryController(zk, config)
    await asyncio.to_thread(controller.acls.load)
    await asyncio.to_thread(controller.registry.create, OFFSETS_TOPIC, 3, {"cleanup.policy": "compact"}, internal=True)
    server = await new_gateway(1, directory, config, controller)
    controller.publish = partial(_follow, server, controller.sends[1])
    if config.fault_injection_enable:
        controller.faults = LocalFaults(controller, server, directory)
        server.faults = GatewayFaults(server, controller.faults)
    return server, controller, await server.listen("127.0.0.1", 0)


def _follow(server: GatewayServer, sends: Sends, view: ClusterView) -> None:
    server.follow(view)
    sends.follow(server.view.topics, server.now_ms())


async def new_gateway(
    number: int, directory: Path, config: MusterConfig, controller: RegistryController
) -> GatewayServer:
    """Return a gateway with that id, not listening yet."""
    sends = controller.sends[number] = Sends(f"gateway-{number}")
    store = SampleStore(directory, number, flush_ms=60_000, now_ms=lambda: 0, observe=sends.add)
    controller.stores[number] = store
    account = account_of(config, store)
    kop_cluster = CLUSTER_ID if config.metrics_kop_compatible else None
    return GatewayServer(
        gateway_id=number,
        node_id="n1",
        config=config,
        controller=controller,
        account=account,
        metrics=GatewayMetrics(number, account, kop_cluster=kop_cluster),
        view=await asyncio.to_thread(controller.view),
        storage=directory,
    )
