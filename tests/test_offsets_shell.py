"""The shell of an offsets partition with a real log and a real socket: what is too large, slow or broken."""

import asyncio
import threading
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from actors.group.config import GroupConfig
from actors.group.types import Record
from actors.log import LogConfig, PartitionLog
from actors.log.disk import Disk
from actors.offsets import OffsetsPartition, batches
from actors.runtime import now_ms
from actors.wire import codec, envelope
from actors.wire.channel import Channel, connect
from actors.wire.codec import ErrorCode
from actors.wire.server import Server

CONTEXT = envelope.write_context("127.0.0.1", "1-1", "User:ANONYMOUS")
TOPIC_ID = uuid.uuid4()
GROUP = "group"


class Nowhere:
    def put(self, statements: object) -> None: ...


class Shell:
    """One life of the actor."""

    def __init__(self, folder: Path, epoch: int, *, disk: Disk | None = None, **config: Any) -> None:
        self.log = PartitionLog.open(
            folder, topic_id=TOPIC_ID, epoch=epoch, config=LogConfig(), now_ms=now_ms, disk=disk or Disk()
        )
        self.ended = asyncio.Event()
        self.partition = OffsetsPartition(
            partition=0,
            epoch=epoch,
            config=GroupConfig(group_initial_rebalance_delay_ms=0, **config),
            partition_log=self.log,
            sink=Nowhere(),
            topic_id=TOPIC_ID,
            fail=self.ended.set,
        )
        self.partition.load()
        self.partition.activate()
        self.server = Server(self.partition, b"secret")

    async def serve(self, path: Path) -> Channel:
        endpoint = await self.server.start(node_id="n", host="127.0.0.1", path=path)
        return await connect(endpoint, "n", on_statements=None, on_lost=lambda: None)


async def ask(channel: Channel, api_key: int, version: int, **body: Any) -> Any:
    frame = codec.encode_request(api_key, version, 1, "client", body)
    return codec.decode_response(api_key, version, await channel.call(CONTEXT, frame))[1]


async def commit(channel: Channel, offset: int, *, group: str = GROUP, partitions: int = 1, metadata: str = "") -> Any:
    items = [
        {"partition_index": index, "committed_offset": offset, "committed_metadata": metadata}
        for index in range(partitions)
    ]
    topics = [{"name": "t", "partitions": items}]
    response = await ask(channel, 8, 7, group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=topics)
    return {item.error_code for item in response.topics[0].partitions}


async def committed(channel: Channel, group: str = GROUP) -> dict[int, int]:
    response = await ask(channel, 9, 5, group_id=group, topics=None)
    return {item.partition_index: item.committed_offset for topic in response.topics for item in topic.partitions}


async def join_with(channel: Channel, metadata: bytes) -> Any:
    joining = {"group_id": "big", "session_timeout": 10000, "rebalance_timeout": 10000, "protocol_type": "consumer"}
    joined = await ask(channel, 11, 3, **joining, member_id="", protocols=[{"name": "range", "metadata": metadata}])
    return await ask(
        channel,
        14,
        2,
        group_id="big",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[{"member_id": joined.member_id, "assignment": b""}],
    )


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            await scenario()

    asyncio.run(main())


def test_a_write_that_is_too_large_is_refused_and_the_partition_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        shell = Shell(tmp_path / "log", 1)
        channel = await shell.serve(tmp_path / "a.sock")
        assert await commit(channel, 5) == {ErrorCode.none}
        assert (await join_with(channel, b"x" * 2_000_000)).error_code is ErrorCode.unknown_server_error
        assert await commit(channel, 9, group="wide", partitions=300, metadata="m" * 4000) != {ErrorCode.none}
        assert await committed(channel, "wide") == {}
        assert await commit(channel, 6) == {ErrorCode.none}
        assert not shell.ended.is_set()
        await shell.partition.stop()
        await shell.server.stop()
        again = Shell(tmp_path / "log", 2)
        assert await committed(await again.serve(tmp_path / "b.sock")) == {0: 6}
        await again.server.stop()

    run(scenario)


def test_many_tombstones_are_split(tmp_path: Path) -> None:
    async def scenario() -> None:
        shell = Shell(tmp_path / "log", 1)
        channel = await shell.serve(tmp_path / "a.sock")
        for step in range(25):
            assert await commit(channel, step, group=f"g{step}" + "x" * 200, partitions=1200) == {ErrorCode.none}
        names = [f"g{step}" + "x" * 200 for step in range(25)]
        deleted = await ask(channel, 42, 1, groups_names=names)
        assert {result.error_code for result in deleted.results} == {ErrorCode.none}
        assert not shell.ended.is_set()
        await shell.partition.stop()
        await shell.server.stop()
        again = Shell(tmp_path / "log", 2)
        channel = await again.serve(tmp_path / "b.sock")
        assert await committed(channel, names[0]) == {}
        assert await committed(channel, names[-1]) == {}
        await again.server.stop()

    run(scenario)


class BrokenDisk(Disk):
    """Fails every write once told."""

    broken = False

    def write(self, fd: int, content: bytes, position: int) -> None:
        if self.broken:
            raise OSError(28, "No space left on device")
        super().write(fd, content, position)


def test_a_disk_that_fails_ends_the_actor_after_its_clients_were_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = BrokenDisk()
        shell = Shell(tmp_path / "log", 1, disk=disk)
        channel = await shell.serve(tmp_path / "a.sock")
        assert await commit(channel, 5) == {ErrorCode.none}
        disk.broken = True
        assert await commit(channel, 6) == {ErrorCode.not_coordinator}
        await shell.ended.wait()
        await shell.server.stop()
        again = Shell(tmp_path / "log", 2)
        assert await committed(await again.serve(tmp_path / "b.sock")) == {0: 5}
        await again.server.stop()

    run(scenario)


class StuckDisk(Disk):
    """Does not end a sync, once told, until it is let go."""

    def __init__(self) -> None:
        self.stuck = False
        self.let_go = threading.Event()

    def sync(self, fd: int) -> None:
        if self.stuck:
            self.let_go.wait()
        super().sync(fd)


def test_a_write_that_takes_too_long_is_answered_in_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = StuckDisk()
        shell = Shell(tmp_path / "log", 1, disk=disk, offsets_commit_timeout_ms=200)
        channel = await shell.serve(tmp_path / "a.sock")
        assert await commit(channel, 5) == {ErrorCode.none}
        disk.stuck = True
        assert await commit(channel, 6) == {ErrorCode.coordinator_not_available}
        await shell.ended.wait()
        disk.let_go.set()
        await shell.server.stop()

    run(scenario)


RECORD = Record(b"k" * 100, b"v" * 100)
TOMBSTONE = Record(b"k" * 100, None)


@pytest.mark.parametrize(
    ("records", "limit_bytes", "sizes"),
    [
        ([], 1000, [0]),
        ([RECORD] * 3, 1000, [3]),
        ([RECORD] * 4, 1000, None),
        ([RECORD], 300, None),
        ([TOMBSTONE] * 20, 1000, [6, 6, 6, 2]),
        ([TOMBSTONE, RECORD] * 5, 1000, None),
    ],
)
def test_only_tombstones_are_split(records: list[Record], limit_bytes: int, sizes: list[int] | None) -> None:
    found = batches(records, limit_bytes)
    assert (found and [len(chunk) for chunk in found]) == sizes
    assert found is None or [record for chunk in found for record in chunk] == records
