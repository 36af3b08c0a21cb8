"""The shell of an offsets partition with a real log and a real socket: large, slow and failing operations."""

import asyncio
import random
import threading
from pathlib import Path
from typing import Any

import pytest

from muster.actors.coordinator.batching import batches
from muster.actors.group.events import Cause, Event, MemberSynced, RebalanceStarted
from muster.actors.group.types import Record
from muster.actors.log.config import LogConfig
from muster.actors.log.files.disk import Disk
from muster.actors.log.format.batch import iter_headers
from muster.actors.wire.internal.channel import Channel
from muster.actors.wire.kafka.codec import ErrorCode
from tests.offsets.shell import Shell, commit, committed, exchange, run


async def join_with(channel: Channel, metadata: bytes) -> Any:
    joining = {"group_id": "big", "session_timeout": 10000, "rebalance_timeout": 10000, "protocol_type": "consumer"}
    joined = await exchange(
        channel, 11, 3, **joining, member_id="", protocols=[{"name": "range", "metadata": metadata}]
    )
    return await exchange(
        channel,
        14,
        2,
        group_id="big",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[{"member_id": joined.member_id, "assignment": b""}],
    )


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


def test_batches_in_every_codec_load_whatever_the_size_of_the_buffer(tmp_path: Path) -> None:
    """The codec may change from one life to the next; the log keeps what was written before."""

    async def scenario() -> None:
        for life, (own_codec, load_buffer_bytes) in enumerate(zip(range(5), (1 << 20, 4096, 100, 61, 1), strict=True)):
            log = LogConfig(own_codec=own_codec, load_buffer_bytes=load_buffer_bytes)
            shell = Shell(tmp_path / "log", life + 1, log=log)
            channel = await shell.serve(tmp_path / f"socket-{life}")
            assert await committed(channel) == (dict.fromkeys(range(200), life) if life else {})
            assert await commit(channel, life + 1, partitions=200, metadata="here") == {ErrorCode.none}
            await shell.partition.stop()
            await shell.server.stop()
        segments = [*(tmp_path / "log").glob("*.log")]
        headers = [header for path in segments for _, header in iter_headers(path.read_bytes())]
        assert sorted(header.codec for header in headers) == [0, 1, 2, 3, 4]
        plain = next(header.size_bytes for header in headers if not header.codec)
        assert all(header.size_bytes < plain // 4 for header in headers if header.codec)

    run(scenario)


@pytest.mark.parametrize("own_codec", range(5))
def test_what_a_codec_makes_larger_fits_all_the_same(tmp_path: Path, own_codec: int) -> None:
    """Compression enlarges random bytes: by hundreds of bytes in a batch of maximum size."""

    async def scenario() -> None:
        shell = Shell(tmp_path / "log", 1, log=LogConfig(own_codec=own_codec))
        channel = await shell.serve(tmp_path / "socket")
        joined = await join_with(channel, random.Random(0).randbytes(1_048_588 - 400))
        assert joined.error_code is ErrorCode.none
        assert not shell.ended.is_set()
        await shell.partition.stop()
        await shell.server.stop()

    run(scenario)


def test_a_write_that_no_segment_can_hold_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        shell = Shell(tmp_path / "log", 1, log=LogConfig(segment_bytes=4_000))
        channel = await shell.serve(tmp_path / "socket")
        assert await commit(channel, 1, partitions=40, metadata="m" * 200) == {ErrorCode.unknown_server_error}
        assert await commit(channel, 2) == {ErrorCode.none}
        assert await committed(channel) == {0: 2}
        await shell.partition.stop()
        await shell.server.stop()

    run(scenario)


def test_events_that_led_to_a_refused_write_are_reported_before_those_that_follow(tmp_path: Path) -> None:
    async def scenario() -> None:
        shell = Shell(tmp_path / "log", 1)
        events: list[Event] = []
        shell.partition.observers.add(lambda event, at_ms: events.append(event))
        channel = await shell.serve(tmp_path / "socket")
        await join_with(channel, b"x" * 2_000_000)
        synced, started = events[-2:]
        assert isinstance(synced, MemberSynced)
        assert isinstance(started, RebalanceStarted)
        assert started.cause is Cause.ASSIGNMENT_NOT_WRITTEN
        await shell.partition.stop()
        await shell.server.stop()

    run(scenario)


def batch_sizes(folder: Path) -> list[int]:
    """Return the number of records in each batch of the log."""
    return [header.record_count for path in folder.glob("*.log") for _, header in iter_headers(path.read_bytes())]


def test_records_of_several_requests_linger_for_one_batch(tmp_path: Path) -> None:
    async def scenario() -> None:
        shell = Shell(tmp_path / "log", 1, group_coordinator_append_linger_ms=200)
        channel = await shell.serve(tmp_path / "socket")
        responses = await asyncio.gather(*(commit(channel, offset, partitions=2) for offset in range(5)))
        assert responses == [{ErrorCode.none}] * 5
        assert batch_sizes(tmp_path / "log") == [10]
        assert await committed(channel) == {0: 4, 1: 4}
        await shell.partition.stop()
        await shell.server.stop()

    run(scenario)


def test_what_lingers_is_written_when_a_batch_is_full_or_the_actor_stops(tmp_path: Path) -> None:
    async def scenario() -> None:
        log = LogConfig(max_message_bytes=4_000)
        shell = Shell(tmp_path / "log", 1, log=log, group_coordinator_append_linger_ms=3_600_000)
        channel = await shell.serve(tmp_path / "socket")
        commits = [asyncio.ensure_future(commit(channel, offset, metadata="x" * 1000)) for offset in range(8)]
        await asyncio.gather(*commits[:4])
        assert sum(batch_sizes(tmp_path / "log")) >= 4
        assert max(batch_sizes(tmp_path / "log")) <= 3
        await shell.partition.stop()
        assert {error for done in commits[4:] for error in await done} <= {ErrorCode.none, ErrorCode.not_coordinator}
        await shell.server.stop()
        assert sum(batch_sizes(tmp_path / "log")) == 8

    run(scenario)


def test_many_tombstones_are_split(tmp_path: Path) -> None:
    async def scenario() -> None:
        shell = Shell(tmp_path / "log", 1)
        channel = await shell.serve(tmp_path / "a.sock")
        for step in range(25):
            assert await commit(channel, step, group=f"g{step}" + "x" * 200, partitions=1200) == {ErrorCode.none}
        names = [f"g{step}" + "x" * 200 for step in range(25)]
        deleted = await exchange(channel, 42, 1, groups_names=names)
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
    """Every write fails, on demand."""

    broken = False

    def write(self, fd: int, content: bytes | bytearray, position: int) -> None:
        if self.broken:
            raise OSError(28, "No space left on device")
        super().write(fd, content, position)


def test_a_disk_that_fails_ends_the_actor_after_its_clients_were_informed(tmp_path: Path) -> None:
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


def test_when_lingering_records_cannot_be_written_every_request_gets_an_error(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = BrokenDisk()
        shell = Shell(tmp_path / "log", 1, disk=disk, group_coordinator_append_linger_ms=50)
        disk.broken = True
        channel = await shell.serve(tmp_path / "socket")
        responses = await asyncio.gather(*(commit(channel, offset) for offset in range(3)))
        assert responses == [{ErrorCode.not_coordinator}] * 3
        await shell.ended.wait()
        await shell.server.stop()

    run(scenario)


@pytest.mark.parametrize("linger_ms", [-1, 50])
def test_an_append_that_fails_in_an_unknown_way_is_never_taken_for_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linger_ms: int
) -> None:
    """Neither at once nor with the next write."""

    def fail(*_: Any) -> None:
        monkeypatch.undo()
        raise ZeroDivisionError

    async def scenario() -> None:
        shell = Shell(tmp_path / "log", 1, group_coordinator_append_linger_ms=linger_ms)
        channel = await shell.serve(tmp_path / "socket")
        monkeypatch.setattr(shell.log, "enqueue_records", fail)
        assert await commit(channel, 1) == {ErrorCode.not_coordinator}
        assert await commit(channel, 2) == {ErrorCode.not_coordinator}
        await shell.ended.wait()
        await shell.partition.stop()
        await shell.server.stop()

    run(scenario)


class StuckDisk(Disk):
    """On demand, a sync does not end until it is released."""

    def __init__(self) -> None:
        self.stuck = False
        self.entered = threading.Event()
        self.let_go = threading.Event()

    def sync(self, fd: int) -> None:
        if self.stuck:
            self.entered.set()
            self.let_go.wait()
        super().sync(fd)


@pytest.mark.parametrize(("linger_ms", "sizes"), [(-1, [1, 6, 6]), (0, [1, 6, 4, 2])])
def test_requests_of_one_turn_and_those_that_come_while_the_disk_is_busy_share_a_batch(
    tmp_path: Path, linger_ms: int, sizes: list[int]
) -> None:
    """The commits of one turn always do: they are one step."""

    async def scenario() -> None:
        disk = StuckDisk()
        shell = Shell(tmp_path / "log", 1, disk=disk, group_coordinator_append_linger_ms=linger_ms)
        channel = await shell.serve(tmp_path / "socket")
        assert await commit(channel, 0) == {ErrorCode.none}
        disk.stuck = True
        first = [asyncio.ensure_future(commit(channel, offset, partitions=2)) for offset in range(3)]
        await asyncio.to_thread(disk.entered.wait)
        later = [asyncio.ensure_future(commit(channel, offset, partitions=2)) for offset in range(3, 5)]
        await channel.query({"ask": "heard"})  # the commits have arrived, too
        later.append(asyncio.ensure_future(commit(channel, 5, partitions=2)))
        await channel.query({"ask": "heard"})
        assert not any(done.done() for done in first + later)
        disk.let_go.set()
        assert await asyncio.gather(*first, *later) == [{ErrorCode.none}] * 6
        assert batch_sizes(tmp_path / "log") == sizes
        assert await committed(channel) == {0: 5, 1: 5}
        await shell.partition.stop()
        await shell.server.stop()

    run(scenario)


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


class BusyLoop(Disk):
    """A fast disk, seen from an event loop that has other work as soon as the disk is done."""

    TIMEOUT_MS = 1000

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None

    def sync(self, fd: int) -> None:
        if self.loop is not None:
            loop, self.loop = self.loop, None
            busy = threading.Event()
            loop.call_soon_threadsafe(self._be_busy, busy)
            busy.wait()

    def _be_busy(self, busy: threading.Event) -> None:
        busy.set()
        threading.Event().wait(1.5 * self.TIMEOUT_MS / 1000)


def test_an_event_loop_that_is_late_is_not_taken_for_a_log_that_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = BusyLoop()
        shell = Shell(tmp_path / "log", 1, disk=disk, offsets_commit_timeout_ms=disk.TIMEOUT_MS)
        channel = await shell.serve(tmp_path / "a.sock")
        disk.loop = asyncio.get_running_loop()
        assert await commit(channel, 5) == {ErrorCode.none}
        assert disk.loop is None
        assert not shell.ended.is_set()
        await shell.partition.stop()
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
        ([TOMBSTONE], 200, None),
    ],
)
def test_only_tombstones_are_split(records: list[Record], limit_bytes: int, sizes: list[int] | None) -> None:
    found = batches(records, limit_bytes)
    assert (found and [len(batch.records) for batch in found]) == sizes
    assert found is None or [record for batch in found for record in batch.records] == records
