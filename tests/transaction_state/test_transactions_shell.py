"""The shell of a partition of ``__transaction_state`` with a real log and real sockets: markers, failures."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ray.exceptions import RayError

from muster.actors.config import MusterConfig
from muster.actors.log.files.disk import Disk
from muster.actors.log.partition import PartitionLog
from muster.actors.runtime.channels import ActorChannels
from muster.actors.runtime.process import now_ms
from muster.actors.transaction_state.partition import TransactionsPartition
from muster.actors.transaction_state.serving import transactions_configs
from muster.actors.transactions.events import TransactionCompleted
from muster.actors.transactions.state import TransactionState
from muster.actors.wire.internal import envelope
from muster.actors.wire.internal.channel import Channel, connect
from muster.actors.wire.internal.envelope import Role
from muster.actors.wire.internal.leader_epochs import LeaderEpoch
from muster.actors.wire.internal.listener import Peer, Server
from muster.actors.wire.internal.markers import Marker, write_marked
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.hashing import partition_for
from muster.placement.view import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, ClusterView, Endpoint, Topic
from tests.log.support import everything_has_run
from tests.wire.test_channel import Echo

CONTEXT = envelope.write_context("127.0.0.1", "1-1", "User:ANONYMOUS")
NONE = ErrorCode.none
NAME, GROUP, OFFSETS_PARTITIONS = "txn", "group", 3
OFFSETS_PARTITION = partition_for(GROUP, OFFSETS_PARTITIONS)
DATA, OFFSETS, STATE = uuid.UUID(int=1), uuid.UUID(int=2), uuid.UUID(int=3)
TOPICS = {
    "data": Topic(name="data", topic_id=DATA, partitions=2),
    OFFSETS_TOPIC: Topic(name=OFFSETS_TOPIC, topic_id=OFFSETS, partitions=OFFSETS_PARTITIONS, internal=True),
    TRANSACTIONS_TOPIC: Topic(name=TRANSACTIONS_TOPIC, topic_id=STATE, partitions=1, internal=True),
}
VIEW = ClusterView(cluster_id="c", controller_epoch=1, version=1, brokers=(), topics=TOPICS, logs={0: None}, offsets={})


class Owner(Echo):
    """An actor that owns partitions; answers each MARKERS with the next code, then with NONE."""

    def __init__(self) -> None:
        super().__init__()
        self.codes: deque[ErrorCode] = deque()
        self.markers_seen: asyncio.Queue[Marker] = asyncio.Queue()
        self.is_silent = False

    def joined(self, peer: Peer) -> None:
        self.peers.append(peer)

    def cancel(self, peer: Peer, token: int) -> None: ...

    def markers(self, peer: Peer, token: int, markers: list[Marker]) -> None:
        for marker in markers:
            self.markers_seen.put_nowait(marker)
        if not self.is_silent:
            code = self.codes.popleft() if self.codes else NONE
            peer.send(write_marked(token, [[code] * len(marker.partitions) for marker in markers]))


class World:
    """One coordinator, two owners, and a controller that may be down."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.view = VIEW
        self.log, self.offsets = Owner(), Owner()
        self.has_controller = True
        self.looked_up = asyncio.Event()
        self.existing = {name: topic.partitions for name, topic in TOPICS.items()}
        self.activated: asyncio.Queue[tuple[int, str]] = asyncio.Queue()
        self.completed: asyncio.Queue[TransactionCompleted] = asyncio.Queue()
        self.ended = asyncio.Event()
        self.partition: TransactionsPartition
        self._servers: list[Server] = []
        self._epoch = 0
        self._blocks = iter(range(1000, 1_000_000, 1000))

    async def producer_ids(self) -> range:
        if not self.has_controller:
            raise RayError("there is no controller")
        start = next(self._blocks)
        return range(start, start + 1000)

    async def partition_counts(self, names: Collection[str]) -> dict[str, int]:
        if not self.has_controller:
            raise RayError("there is no controller")
        self.looked_up.set()
        return {name: self.existing[name] for name in names if name in self.existing}

    async def activate(self, partition: int, kind: str) -> None:
        self.activated.put_nowait((partition, kind))

    async def listen(self, handler: Any) -> Endpoint:
        server = Server(handler, b"secret")
        self._servers.append(server)
        return await server.start(node_id="n", host="127.0.0.1", path=self.folder / str(len(self._servers)))

    def follow(self, **changes: Any) -> None:
        self.view = replace(self.view, version=self.view.version + 1, **changes)
        if hasattr(self, "partition"):
            self.partition.follow(self.view)

    async def with_owners(self) -> None:
        log, offsets = await self.listen(self.log), await self.listen(self.offsets)
        self.follow(logs={0: log}, offsets={OFFSETS_PARTITION: offsets})

    async def start(self, disk: Disk | None = None) -> Channel:
        """Begin a new life of the coordinator."""
        self._epoch += 1
        config, log_config, timeout_ms = transactions_configs(MusterConfig.from_properties({}), self.view)
        self.channels = ActorChannels(lambda: "n", self.view, self.activate)
        self.partition = TransactionsPartition(
            partition=0,
            epoch=self._epoch,
            config=config,
            timeout_ms=timeout_ms,
            partition_log=PartitionLog.open(
                self.folder / "log",
                topic_id=STATE,
                epoch=self._epoch,
                config=log_config,
                now_ms=now_ms,
                disk=disk or Disk(),
            ),
            channels=self.channels,
            controller=self,
            topic_id=STATE,
            fail=self.ended.set,
        )
        self.partition.observers.add(self.observe)
        self.partition.load()
        self.partition.activate()
        return await connect(await self.listen(self.partition), "n", on_updates=None, on_lost=lambda: None)

    async def stop(self) -> None:
        await self.partition.stop()
        self.channels.close()

    async def close(self) -> None:
        if not self.ended.is_set():
            await self.stop()
        for server in self._servers:
            await server.stop()

    async def until(self, state: TransactionState) -> None:
        """Wait until a transaction is complete, and in this state."""
        await self.completed.get()
        assert self.state() is state

    def observe(self, event: Any, _: int) -> None:
        if isinstance(event, TransactionCompleted):
            self.completed.put_nowait(event)

    def state(self) -> TransactionState:
        return next(iter(self.partition.coordinator.hard_state.entries.values())).metadata.state


def run(folder: Path, scenario: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        world = World(folder)
        try:
            async with asyncio.timeout(30):
                await scenario(world)
        finally:
            await world.close()

    asyncio.run(main())


async def exchange(channel: Channel, api_key: int, version: int, **body: Any) -> Any:
    frame = codec.encode_request(api_key, version, 1, "client", body)
    return codec.decode_response(api_key, version, await channel.call(CONTEXT, frame))[1]


async def init(channel: Channel) -> tuple[ErrorCode, dict[str, Any]]:
    found = await exchange(channel, 22, 4, transactional_id=NAME, transaction_timeout=60_000)
    producer = {"transactional_id": NAME, "producer_id": found.producer_id, "producer_epoch": found.producer_epoch}
    return found.error_code, producer


async def init_soon(channel: Channel) -> dict[str, Any]:
    """Clients retry while there are no producer ids."""
    while True:
        error, producer = await init(channel)
        if error is NONE:
            return producer
        assert error is ErrorCode.coordinator_load_in_progress
        await asyncio.sleep(0.01)


async def begin(channel: Channel, *partitions: int) -> dict[str, Any]:
    """Begin a transaction with the partitions of the topic, and the offsets of the group."""
    producer = await init_soon(channel)
    fields = {f"v3_and_below_{name}": value for name, value in producer.items()}
    topics = [{"name": "data", "partitions": list(partitions)}]
    added = await exchange(channel, 24, 3, v3_and_below_topics=topics, **fields)
    (topic,) = added.results_by_topic_v3_and_below
    codes = [each.partition_error_code for each in topic.results_by_partition]
    assert codes == [NONE] * len(partitions)
    assert (await exchange(channel, 25, 3, group_id=GROUP, **producer)).error_code is NONE
    return producer


def end(channel: Channel, producer: dict[str, Any], *, committed: bool = True) -> Awaitable[Any]:
    return exchange(channel, 26, 3, committed=committed, **producer)


def test_markers_go_to_the_owners_of_all_partitions(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.with_owners()
        channel = await world.start()
        producer = await begin(channel, 0, 1)
        assert (await end(channel, producer, committed=False)).error_code is NONE
        of_log, of_offsets = world.log.markers_seen.get_nowait(), world.offsets.markers_seen.get_nowait()
        assert sorted(of_log.partitions) == [(DATA, 0), (DATA, 1)]
        assert of_offsets.partitions == [(OFFSETS, OFFSETS_PARTITION)]
        assert (of_log.producer_id, of_log.producer_epoch) == (producer["producer_id"], producer["producer_epoch"])
        assert (of_log.commit, of_log.coordinator_epoch, of_log.coordinator_partition) == (False, 1, 0)
        assert of_log.decision == of_offsets.decision >= 0
        await world.until(TransactionState.COMPLETE_ABORT)
        assert world.log.markers_seen.empty()

    run(tmp_path, scenario)


def test_markers_are_repeated_until_the_owner_is_there(tmp_path: Path) -> None:
    """The offsets actor never ran, and has to be started; the log actor is down, then loses its place once more."""

    async def scenario(world: World) -> None:
        channel = await world.start()
        producer = await begin(channel, 0)
        assert (await end(channel, producer)).error_code is NONE, "the decision does not wait for the markers"
        assert (await init(channel))[0] is ErrorCode.concurrent_transactions
        assert await world.activated.get() == (OFFSETS_PARTITION, "offsets")
        world.log.codes.extend([ErrorCode.not_leader_or_follower, ErrorCode.kafka_storage_error])
        await world.with_owners()
        await world.until(TransactionState.COMPLETE_COMMIT)
        assert [(await world.log.markers_seen.get()).partitions for _ in range(3)] == [[(DATA, 0)]] * 3
        assert (await init(channel))[0] is NONE

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("error", "lines"),
    [(ErrorCode.invalid_producer_epoch, 0), (ErrorCode.kafka_storage_error, 1)],
    ids=["counts as done", "is repeated"],
)
def test_a_marker_that_has_to_be_sent_again_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, error: ErrorCode, lines: int
) -> None:
    async def scenario(world: World) -> None:
        await world.with_owners()
        channel = await world.start()
        producer = await begin(channel, 0)
        world.log.codes.append(error)
        assert (await end(channel, producer)).error_code is NONE
        await world.until(TransactionState.COMPLETE_COMMIT)

    run(tmp_path, scenario)
    assert sum("data-0 takes no marker of txn" in line for line in caplog.messages) == lines


@pytest.mark.parametrize(("role", "epochs"), [(Role.GATEWAY, [(STATE, 0, 1)]), (Role.ACTOR, [])])
def test_leader_epochs_are_for_gateways(tmp_path: Path, role: Role, epochs: list[tuple[uuid.UUID, int, int]]) -> None:
    """An actor gets nothing that it has not requested."""

    async def scenario(world: World) -> None:
        await world.start()
        heard: list[LeaderEpoch] = []
        endpoint = await world.listen(world.partition)
        channel = await connect(endpoint, "n", on_updates=None, on_lost=lambda: None, role=role, on_epochs=heard.extend)
        await init_soon(channel)  # what was sent before the response has come
        assert [(each.topic_id, each.partition, each.epoch) for each in heard] == epochs
        channel.close()

    run(tmp_path, scenario)


def test_a_deleted_topic_needs_no_markers_once_that_is_known(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.with_owners()
        channel = await world.start()
        producer = await begin(channel, 0)
        world.has_controller = False
        world.follow(topics={name: topic for name, topic in TOPICS.items() if name != "data"})
        assert (await end(channel, producer)).error_code is NONE
        await world.offsets.markers_seen.get()
        assert world.state() is TransactionState.PREPARE_COMMIT, "the view may be behind"
        world.has_controller = True
        await world.looked_up.wait()
        assert world.state() is TransactionState.PREPARE_COMMIT, "the topic exists"
        del world.existing["data"]
        await world.until(TransactionState.COMPLETE_COMMIT)
        assert world.log.markers_seen.empty()

    run(tmp_path, scenario)


def test_the_next_coordinator_sends_the_markers_again(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.with_owners()
        world.log.is_silent = True
        channel = await world.start()
        producer = await begin(channel, 1)
        assert (await end(channel, producer)).error_code is NONE
        first = await world.log.markers_seen.get()
        await world.stop()
        world.log.is_silent = False
        channel = await world.start()
        again = await world.log.markers_seen.get()
        assert again == first._replace(coordinator_epoch=2)
        await world.until(TransactionState.COMPLETE_COMMIT)
        assert (await end(channel, producer)).error_code is NONE, "as the first time"

    run(tmp_path, scenario)


class BrokenDisk(Disk):
    """Every sync fails, on demand."""

    is_broken = False

    def sync(self, fd: int) -> None:
        if self.is_broken:
            raise OSError("no")
        super().sync(fd)


def test_a_failed_log_ends_the_actor(tmp_path: Path) -> None:
    """No client hears that its transaction is decided."""

    async def scenario(world: World) -> None:
        await world.with_owners()
        disk = BrokenDisk()
        channel = await world.start(disk)
        producer = await begin(channel, 0)
        disk.is_broken = True
        assert (await end(channel, producer)).error_code is ErrorCode.not_coordinator
        await world.ended.wait()
        assert world.log.markers_seen.empty()
        await world.partition.stop()
        world.channels.close()

    run(tmp_path, scenario)


def test_producers_wait_for_ids_while_there_is_no_controller(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        world.has_controller = False
        channel = await world.start()
        assert (await init(channel))[0] is ErrorCode.coordinator_load_in_progress
        world.has_controller = True
        assert (await init_soon(channel))["producer_id"] >= 1000

    run(tmp_path, scenario)


class SlowDisk(Disk):
    """Syncs only while the test lets it."""

    def __init__(self) -> None:
        self.may_sync, self.was_called = threading.Event(), threading.Event()
        self.may_sync.set()

    def sync(self, fd: int) -> None:
        self.was_called.set()
        self.may_sync.wait(10)
        super().sync(fd)


def test_what_becomes_durable_at_a_hand_over_is_answered(tmp_path: Path) -> None:
    """The successor would refuse a retry: the producer's epoch is higher by then (KIP-360)."""

    async def scenario(world: World) -> None:
        disk = SlowDisk()
        channel = await world.start(disk)
        producer = await init_soon(channel)
        disk.may_sync.clear()
        disk.was_called.clear()
        again = asyncio.create_task(exchange(channel, 22, 4, transaction_timeout=60_000, **producer))
        await asyncio.to_thread(disk.was_called.wait, 10)
        stopping = asyncio.create_task(world.partition.stop())
        late = asyncio.create_task(init(channel))
        await everything_has_run()
        disk.may_sync.set()
        found = await again
        assert (found.error_code, found.producer_epoch) == (NONE, producer["producer_epoch"] + 1)
        assert (await late)[0] is ErrorCode.not_coordinator
        await stopping
        world.ended.set()
        world.channels.close()

    run(tmp_path, scenario)
