"""A role and its write-ahead log: how long it gets, and when it takes no more."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from muster.actors.log.bucket import copies
from muster.actors.log.bucket.manifest import BucketManifest
from muster.actors.log.config import LogConfig
from muster.actors.log.errors import FencedEpoch, NotLeader, OutOfOrderSequence, StorageError
from muster.actors.log.partition import PartitionLog
from muster.actors.log.upkeep.hold import HOLD
from muster.actors.log.wal.objects import Entry
from muster.actors.object_storage.store import Unavailable
from tests.log.bucket.events import pair, produce
from tests.log.bucket.requests import OTHER_ID, CountedBackend, Known, Node, release_all, settled
from tests.log.support import NOW_MS, TOPIC_ID, client_batch, everything_has_run, run, segment_files
from tests.object_storage.memory import MemoryBackend, MemoryBucket


@pytest.fixture(autouse=True)
def released() -> Iterator[None]:
    yield
    release_all()


CONFIG = LogConfig(segment_bytes=600)


async def started(bucket: MemoryBucket, folder: Path, epoch: int = 1, config: LogConfig = CONFIG) -> Node:
    node = Node(MemoryBackend(bucket), folder, epoch, config)
    await node.start()
    return node


def of_wal(bucket: MemoryBucket) -> int:
    return sum(len(stored.content) for name, stored in bucket.objects.items() if name.startswith("wal/"))


def test_the_write_ahead_log_stays_short_beside_a_partition_that_is_hardly_used(tmp_path: Path) -> None:
    """A segment that is not full either is closed when it holds back too much."""

    async def scenario() -> None:
        bucket, known, of_other = MemoryBucket(), Known(), Known()
        node = await started(bucket, tmp_path)
        log, other = await node.open_log(), await node.open_log("u", OTHER_ID)
        await of_other.append(other, pair(0, "rare"))
        for _ in range(5):
            await produce(log, other, known)
            assert node.role is not None
            await settled(node.role)
            assert of_wal(bucket) < 4_000
        assert sum(name.startswith("logs/u-0") and name.endswith(".log") for name in bucket.objects) == 1
        await node.stop(log, other)

    run(scenario())


def test_nothing_that_waits_to_be_acknowledged_is_collected(tmp_path: Path) -> None:
    """A backup holds the acknowledgements, and other partitions go on."""

    async def scenario() -> None:
        bucket, known, of_other = MemoryBucket(), Known(), Known()
        node = await started(bucket, tmp_path / "a")
        log, other = await node.open_log(), await node.open_log("u", OTHER_ID)
        await produce(log, other, known)
        await log.roll()  # nothing else holds it back
        role = node.role
        assert role is not None
        await settled(role)
        token = await HOLD.begin()
        held = asyncio.ensure_future(known.append(log, pair(1, "held")))
        later = []
        for number in range(3):
            later.append(asyncio.ensure_future(of_other.append(other, pair(2, f"later {number}"))))
            await everything_has_run()
        role.published()
        await everything_has_run()
        assert HOLD.end(token) is not None
        await asyncio.gather(held, *later)
        again = await started(bucket, tmp_path / "b", 2)
        known.compare(await again.open_log())

    run(scenario())


def test_a_partition_is_opened_once_in_an_epoch_of_its_role(tmp_path: Path) -> None:
    """Nothing has the batches of its first log in a form that could be read again."""

    async def scenario() -> None:
        node = await started(MemoryBucket(), tmp_path)
        log = await node.open_log()
        await log.close()
        with pytest.raises(NotLeader, match="t-0 was open before"):
            await node.open_log()

    run(scenario())


def test_an_opener_that_was_held_up_leaves_the_copy_of_a_newer_one_alone(tmp_path: Path) -> None:
    """Both are on one node; the older one has taken the manifest before."""

    async def scenario() -> None:
        bucket, known = MemoryBucket(), Known()
        node = await started(bucket, tmp_path)
        log = await node.open_log()
        await produce(log, log, known)
        assert node.role is not None
        await settled(node.role)
        await node.stop(log)
        older = await started(bucket, tmp_path, 2)
        copying, go = asyncio.Event(), asyncio.Event()
        make = copies.Copy.make

        async def held_up(self: copies.Copy, manifest: BucketManifest, tail: Sequence[Entry]) -> None:
            if self._epoch == 2:
                copying.set()
                await go.wait()
            await make(self, manifest, tail)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(copies.Copy, "make", held_up)
            opening = asyncio.ensure_future(older.open_log())
            await copying.wait()
            newer = await started(bucket, tmp_path, 3)
            log = await newer.open_log()
            go.set()
            with pytest.raises(FencedEpoch):
                await opening
        files = {path.name for path in log.directory.iterdir()}
        assert {segment.path.name for segment in log._writer.segments} <= files
        await newer.stop(log)

    run(scenario())


def test_a_local_write_that_fails_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch is durable, so it does not fail; further ones are refused meanwhile."""
    monkeypatch.setattr("muster.actors.log.committer.RETRY_AFTER_S", 0.05)

    class Full(copies.CopyDisk):
        is_full = False

        def __init__(self) -> None:
            self.failed = asyncio.Event()

        def write(self, fd: int, content: bytes | bytearray, position: int) -> None:
            if self.is_full:
                self.failed.set()
                raise OSError(28, "No space left on device")
            super().write(fd, content, position)

    async def scenario() -> None:
        bucket, known, disk = MemoryBucket(), Known(), Full()
        node = Node(MemoryBackend(bucket), tmp_path, 1, CONFIG)
        await node.start(disk=disk)
        log = await node.open_log()
        await known.append(log, pair(0, "before"))
        disk.is_full = True
        waiting = asyncio.ensure_future(known.append(log, pair(1, "on a full disk")))
        await disk.failed.wait()
        await everything_has_run()
        with pytest.raises(StorageError, match="No space left"):
            await log.append_records([pair(2, "refused")], NOW_MS)
        disk.is_full = False
        await waiting
        assert sorted(known.acknowledged) == [0, 1]
        known.compare(log)
        await node.stop(log)

    run(scenario())


def test_while_object_storage_is_away_batches_are_refused_and_what_waits_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.actors.log.bucket.role._MAX_WAIT_S", 0.0)
    monkeypatch.setattr("muster.actors.log.wal.patience._FIRST_S", 0.01)

    async def scenario() -> None:
        away = asyncio.Event()

        async def before(number: int, kind: str, name: str) -> None:
            if away.is_set():
                raise Unavailable("away")

        node = Node(CountedBackend(MemoryBucket(), before), tmp_path, 1, CONFIG)
        await node.start()
        log = await node.open_log()
        away.set()
        waiting = asyncio.ensure_future(log.append_records([pair(0, "waits")], NOW_MS))
        first = log.enqueue(client_batch(producer=(7, 0, 0)))
        await everything_has_run()
        for sequence in (
            1,
            2,
        ):  # not OutOfOrderSequence: librdkafka would take another epoch, and write the first again
            with pytest.raises(StorageError, match="object storage has not taken a write"):
                log.enqueue(client_batch(producer=(7, 0, sequence)))
        assert log.enqueue(client_batch(producer=(7, 0, 0))).result.duplicate
        with pytest.raises(StorageError, match=r"object storage has not taken a write for \d+ s"):
            log.enqueue_records([pair(1, "refused")], NOW_MS)
        away.clear()
        assert await waiting == 1
        assert (await first.durable()).base_offset == 0
        log.enqueue(client_batch(producer=(7, 0, 1)))
        await log.append_records([pair(2, "again")], NOW_MS)
        await node.stop(log)

    run(scenario())


def test_a_role_ends_while_object_storage_is_away(tmp_path: Path) -> None:
    async def scenario() -> None:
        away = asyncio.Event()

        async def before(number: int, kind: str, name: str) -> None:
            if away.is_set():
                raise Unavailable("away")

        node = Node(CountedBackend(MemoryBucket(), before), tmp_path, 1, CONFIG)
        await node.start()
        log = await node.open_log()
        await produce(log, log, Known())
        away.set()
        publishing = log.publish_soon()
        waiting = asyncio.ensure_future(log.append_records([pair(0, "waits")], NOW_MS))
        await everything_has_run()
        assert node.role is not None
        node.role.abandon()
        with pytest.raises(NotLeader):
            await waiting
        await node.stop(log)
        assert isinstance(publishing.exception(), NotLeader)

    run(scenario())


def test_a_segment_that_cannot_be_read_stays_in_the_write_ahead_log(tmp_path: Path) -> None:
    """It holds it back, and so do those behind it, until the partition is opened the next time."""

    async def scenario() -> None:
        bucket, known = MemoryBucket(), Known()
        node = await started(bucket, tmp_path / "a")
        log, other = await node.open_log(), await node.open_log("u", OTHER_ID)
        await known.append(log, pair(0, "damaged"))
        path = log._writer.segments[-1].path
        path.write_bytes(bytes(path.stat().st_size))
        await log.roll()
        await produce(log, other, known)
        assert node.role is not None
        await settled(node.role)
        again = await started(bucket, tmp_path / "b", 2)
        reopened = await again.open_log()
        known.compare(reopened)
        assert again.role is not None
        await settled(again.role)
        third = await started(bucket, tmp_path / "c", 3)
        known.compare(await third.open_log())
        assert of_wal(bucket) < 2_000

    run(scenario())


def test_copies_of_before_the_machine_was_started_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boot_id = tmp_path / "boot_id"
    boot_id.write_text("first\n")
    monkeypatch.setattr(copies, "_BOOT_ID", boot_id)
    folder = tmp_path / "logs"
    copies.forget_after_boot(folder)
    (folder / "t-0").mkdir()
    copies.forget_after_boot(folder)
    assert (folder / "t-0").is_dir()
    boot_id.write_text("second\n")
    copies.forget_after_boot(folder)
    assert not (folder / "t-0").exists()


def test_logs_that_are_no_copies_are_left_alone(tmp_path: Path) -> None:
    """A directory that all nodes shared is named as that of the node: what is there is the only copy."""

    async def scenario() -> None:
        log = PartitionLog.open(tmp_path / "t-0", topic_id=TOPIC_ID, epoch=1, config=CONFIG, now_ms=lambda: NOW_MS)
        await log.append(client_batch())
        await log.close()
        with pytest.raises(StorageError, match="has logs of a Muster that does not live on a bucket"):
            await started(MemoryBucket(), tmp_path)

    run(scenario())
    assert [path.stat().st_size > 0 for path in segment_files(tmp_path / "t-0")] == [True]


def test_what_is_stored_of_a_deleted_topic_is_removed(tmp_path: Path) -> None:
    async def scenario() -> None:
        bucket, known = MemoryBucket(), Known()
        node = await started(bucket, tmp_path)
        log = await node.open_log()
        await produce(log, log, known)
        assert node.role is not None
        await settled(node.role)
        assert await node.role.is_stored("t", 0, TOPIC_ID)
        await log.close()
        await node.role.delete("t", 0, TOPIC_ID)
        await settled(node.role)
        assert not await node.role.is_stored("t", 0, TOPIC_ID)
        assert {name.partition("/")[0] for name in bucket.objects} == {"wal", "boundaries", "openings"}
        await node.stop()

    run(scenario())


def test_a_producer_is_known_when_all_its_records_were_deleted(tmp_path: Path) -> None:
    async def scenario() -> None:
        bucket = MemoryBucket()
        node = await started(bucket, tmp_path / "a")
        log = await node.open_log()
        await log.append(client_batch(producer=(7, 0, 0)))
        assert await log.delete_records(1) == 1
        again = await started(bucket, tmp_path / "b", 2)
        reopened = await again.open_log()
        assert (reopened.log_start_offset, reopened.high_watermark) == (1, 1)
        assert reopened.enqueue(client_batch(producer=(7, 0, 0))).result.duplicate
        with pytest.raises(OutOfOrderSequence):
            reopened.enqueue(client_batch(producer=(7, 0, 5)))

    run(scenario())


def test_segments_are_bounded_whatever_the_topic_says(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = await started(MemoryBucket(), tmp_path, config=LogConfig(segment_bytes=1 << 30))
        log = await node.open_log()
        assert log.config.segment_bytes == 64 << 20
        log.config = LogConfig(segment_bytes=1 << 30, max_message_bytes=100 << 20)
        assert log.config.segment_bytes == 100 << 20
        await node.stop(log)

    run(scenario())
