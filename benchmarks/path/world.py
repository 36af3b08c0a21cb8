"""A gateway, a log actor and a coordinator in one process and event loop, without Ray and ZooKeeper.

They are put together as their actors do it, and talk over real sockets: the clients by TCP, the actors by the Unix
domain sockets that they use on one node. Only the view never changes, leader epochs are constant, and the mapping's
writer finds no ZooKeeper, as in an outage: it is a thread that no request waits for.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import muster.gateway.apis  # noqa: F401 - registers the handlers
from muster.actors.audit.sends import Sends
from muster.actors.config import MusterConfig, log_config
from muster.actors.log.history import LogHistory
from muster.actors.log.listener import LogServer
from muster.actors.log.open_logs import SharedDirectory
from muster.actors.log.partitions import Partitions
from muster.actors.offsets import serving as offsets_serving
from muster.actors.runtime.channels import own_channels
from muster.actors.runtime.process import log_to_file, now_ms, wall_ms
from muster.actors.runtime.settings import ClusterSettings
from muster.actors.tables.spool import SampleStore
from muster.actors.wire.internal.listener import Server
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.listener.server import GatewayServer
from muster.gateway.listener.upkeep import account_of
from muster.gateway.metrics.gateway import GatewayMetrics
from muster.placement.view import OFFSETS_TOPIC, Broker, ClusterView, Topic
from tests.raw_client import ApiVersion

SYNCED, NOT_SYNCED, FEW = "orders", "clicks", "payments"
"""Topics: each batch is synced before its response, or that is left to the kernel; one with few partitions."""
PARTITIONS = {SYNCED: 100, NOT_SYNCED: 4, FEW: 4}
SESSION_TIMEOUT_MS = 1_800_000
_NODE, _HOST, _SECRET = "n1", "127.0.0.1", b"secret"
_NO_ZOOKEEPER = f"{_HOST}:1"
_CONNECTED_S = 10
_PROPERTIES = {
    "group.initial.rebalance.delay.ms": "100",  # all members of a new group have joined by then
    "group.max.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.max.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.session.timeout.ms": str(SESSION_TIMEOUT_MS),
}


class Client(asyncio.Protocol):
    """A connection that uses no code of others, so that none of its work counts as the server's."""

    def __init__(self) -> None:
        self._data = b""
        self._responses: list[bytes] = []
        self._awaited = 0
        self._all: asyncio.Future[list[bytes]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def send(self, requests: Sequence[bytes]) -> asyncio.Future[list[bytes]]:
        """Send framed requests with one write. Return a future for all their response frames."""
        self._responses, self._awaited = [], len(requests)
        self._all = asyncio.get_running_loop().create_future()
        self._transport.write(b"".join(requests))
        return self._all

    def data_received(self, data: bytes) -> None:
        self._data += data
        while len(self._data) >= 4 and len(self._data) - 4 >= (size := int.from_bytes(self._data[:4], "big")):
            self._responses.append(self._data[4 : 4 + size])
            self._data = self._data[4 + size :]
        if self._all is not None and not self._all.done() and len(self._responses) == self._awaited:
            self._all.set_result(self._responses)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._all is not None and not self._all.done():
            self._all.set_exception(ConnectionError("the gateway closed the connection"))

    async def call(self, api: ApiVersion, request: bytes) -> Any:
        """Send a framed request. Return the decoded response. Raises Refused."""
        (response,) = await self.send([request])
        return checked(api, response)

    def close(self) -> None:
        self._transport.close()


def checked(api: ApiVersion, response: bytes) -> Any:
    """Return the decoded response. Raises Refused."""
    entity = codec.decode_response(*api, response)[1]
    if error := next(_errors(entity), None):
        raise Refused(f"{type(entity).__name__}: {error.name}", entity)
    return entity


class Refused(RuntimeError):
    """An error that no request of a benchmark should get. The second argument is the response."""


def _errors(entity: Any) -> Iterator[ErrorCode]:
    if isinstance(entity, tuple):
        for each in entity:
            yield from _errors(each)
    elif is_dataclass(entity):
        for field in fields(entity):
            value = getattr(entity, field.name)
            if isinstance(value, ErrorCode) and value is not ErrorCode.none:
                yield value
            yield from _errors(value)


@dataclass(frozen=True, slots=True)
class World:
    """Address of what serves."""

    port: int

    async def connect(self) -> Client:
        _, client = await asyncio.get_running_loop().create_connection(Client, _HOST, self.port)
        return client


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[World]:
    """Serve until the block ends. The log of the process goes below the folder, as an actor's does."""
    config = MusterConfig.from_properties(_PROPERTIES)
    settings = ClusterSettings(
        config=config,
        storage=str(folder),
        cluster_id="path",
        zookeeper=_NO_ZOOKEEPER,
        host=_HOST,
        gateway_ports=None,
        metrics_ports=None,
        metrics_port=0,
    )
    view = _view()
    with _logging(folder, settings), tempfile.TemporaryDirectory(prefix="muster-") as sockets:
        async with _log_actor(settings, view, Path(sockets)) as log_server:
            view = replace(view, version=2, logs={0: log_server})
            async with _coordinator(settings, view, Path(sockets)) as offsets:
                view = replace(view, version=3, offsets={0: offsets}).with_leaders({})
                async with _gateway(settings, view) as gateway:
                    port = await gateway.listen(_HOST, 0)
                    yield World(port)


def _view() -> ClusterView:
    topics = [
        Topic(name=SYNCED, topic_id=UUID(int=1), partitions=PARTITIONS[SYNCED]),
        Topic(
            name=NOT_SYNCED,
            topic_id=UUID(int=2),
            partitions=PARTITIONS[NOT_SYNCED],
            config={"flush.messages": str(1 << 40)},
        ),
        Topic(name=FEW, topic_id=UUID(int=4), partitions=PARTITIONS[FEW]),
        Topic(
            name=OFFSETS_TOPIC, topic_id=UUID(int=3), partitions=1, internal=True, config={"cleanup.policy": "compact"}
        ),
    ]
    return ClusterView(
        cluster_id="path",
        controller_epoch=1,
        version=1,
        brokers=(Broker(id=1, host=_HOST, port=9092, node_id=_NODE),),
        topics={topic.name: topic for topic in topics},
        logs={0: None},
        offsets={},
    )


@contextmanager
def _logging(folder: Path, settings: ClusterSettings) -> Iterator[None]:
    """Log as an actor does, with stderr discarded."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    log_to_file(folder, "path", settings.log_format)
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # it is not there
    added = [handler for handler in root.handlers if handler not in before]
    with Path("/dev/null").open("w") as nowhere:
        for handler in added:
            if isinstance(handler, logging.StreamHandler) and not isinstance(handler, logging.FileHandler):
                handler.setStream(nowhere)
        try:
            yield
        finally:
            root.setLevel(level)
            for handler in added:
                root.removeHandler(handler)
                handler.close()


@asynccontextmanager
async def _log_actor(settings: ClusterSettings, view: ClusterView, sockets: Path) -> AsyncIterator[Any]:
    async def epoch(topic: str, partition: int) -> int:
        return 1

    folder = Path(settings.storage)
    flush_ms = settings.config.metrics_end_offsets_flush_ms
    history = LogHistory(folder, 0, flush_ms=flush_ms, topics=lambda: view, now_ms=wall_ms)
    channels = own_channels(settings, view)
    partitions = Partitions(
        storage=SharedDirectory(folder / "logs"),
        config=log_config(settings.config),
        topics=lambda: view,
        index=0,
        next_epoch=epoch,
        on_open=history.opened,
        verifier=channels,
    )
    server = Server(LogServer(partitions), _SECRET)
    partitions.start_upkeep()
    history.start()
    try:
        yield await server.start(node_id=_NODE, host=_HOST, path=sockets / "log-0")
    finally:
        await partitions.close()
        channels.close()
        await server.stop()
        await history.close()


@asynccontextmanager
async def _coordinator(settings: ClusterSettings, view: ClusterView, sockets: Path) -> AsyncIterator[Any]:
    def failed() -> None:
        raise RuntimeError("the coordinator has failed")

    offsets_serving._FLUSH_S = 0.0  # nothing can be written to the mapping
    served = await offsets_serving.OffsetsOpener(settings, _SECRET).open(0, 1, view, failed)
    try:
        yield await served.server.start(node_id=_NODE, host=_HOST, path=sockets / "offsets-0")
    finally:
        await served.resign()
        await served.server.stop()
        await served.finish()


@asynccontextmanager
async def _gateway(settings: ClusterSettings, view: ClusterView) -> AsyncIterator[GatewayServer]:
    config = settings.config
    sends = Sends("gateway-1")
    folder = Path(settings.storage) / "metrics"
    flush_ms = config.metrics_samples_flush_ms
    store = SampleStore(folder, 1, flush_ms=flush_ms, now_ms=now_ms, observe=sends.add)
    account = account_of(config, store)
    gateway = GatewayServer(
        gateway_id=1,
        node_id=_NODE,
        config=config,
        controller=_NoController(),
        account=account,
        metrics=GatewayMetrics(1, account),
        view=view,
        storage=Path(settings.storage),
    )
    sends.follow(view.topics, now_ms())

    def is_connected() -> bool:
        return gateway.forwarder.log(0) is not None and gateway.forwarder.offsets(0) is not None

    if not await gateway.forwarder.until(is_connected, _CONNECTED_S):
        raise RuntimeError("the gateway does not reach the actors")
    try:
        yield gateway
    finally:
        await gateway.stop()
        account.close()
        await asyncio.to_thread(store.close)


class _NoController:
    """The controller is needed for producer ids only, and no client requests any."""

    async def producer_ids(self) -> range:
        return range(1)

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError(name)
