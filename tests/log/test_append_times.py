"""Append times beside the log: exact where reported, never wrong where files are truncated or offsets reused."""

from __future__ import annotations

import asyncio
import errno
import os
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from muster.actors.log import committer
from muster.actors.log.config import LogConfig
from muster.actors.log.errors import NotLeader, StorageError
from muster.actors.log.files.append_times import ENTRY, AppendTimes
from muster.actors.log.files.disk import DISK, Disk
from muster.actors.log.partition import PartitionLog
from muster.actors.log.progress import append_times
from tests.log.support import NOW_MS, TOPIC_ID, client_batch, lose_what_is_not_synced, run, segment_files

pytestmark = pytest.mark.usefixtures("either_storage")

SMALL = LogConfig(segment_bytes=300)
APPENDED = LogConfig(message_timestamp_type="LogAppendTime")


class Clock:
    """Every reading is one second later, so that each batch has its own time."""

    def __init__(self) -> None:
        self.now_ms = NOW_MS

    def __call__(self) -> int:
        self.now_ms += 1000
        return self.now_ms


class Log:
    """A directory that is repeatedly opened, and the times of its appends."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = Clock()
        self.epoch = 0
        self.appended_ms: dict[int, int] = {}
        """By offset, of acknowledged batches."""

    def open(self, config: LogConfig = SMALL, disk: Disk = DISK) -> PartitionLog:
        self.epoch += 1
        return PartitionLog.open(
            self.directory, topic_id=TOPIC_ID, epoch=self.epoch, config=config, now_ms=self.clock, disk=disk
        )

    async def append(self, log: PartitionLog, count: int = 1, **options: Any) -> None:
        base = (await log.append(client_batch(count, **options))).base_offset
        self.appended_ms.update(dict.fromkeys(range(base, base + count), self.clock.now_ms))

    def times(self, log: PartitionLog) -> dict[int, int | None]:
        return {offset: log.append_time_ms(offset) for offset in range(log.log_end_offset)}


@pytest.fixture
def kept(tmp_path: Path) -> Log:
    return Log(tmp_path / "t-0")


def sidecars(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.appended"))


def test_every_record_of_a_batch_has_the_time_of_its_append_not_of_its_producer(kept: Log) -> None:
    async def main() -> None:
        log = kept.open()
        for count in (3, 1, 5):
            await kept.append(log, count, first_ms=5, step_ms=7)
        assert kept.times(log) == kept.appended_ms
        assert len(set(kept.appended_ms.values())) == 3
        assert [log.append_time_ms(offset) for offset in (-1, 9, 10**9)] == [None] * 3
        await log.close()
        with pytest.raises(NotLeader):
            log.append_time_ms(0)

    run(main())


def test_over_segments_and_activations(kept: Log) -> None:
    async def main() -> None:
        for _ in range(4):
            log = kept.open()
            for count in (2, 1, 4, 1, 3, 2, 2):
                await kept.append(log, count)
            assert kept.times(log) == kept.appended_ms
            await log.close()
        assert len(segment_files(kept.directory)) > 6
        assert kept.times(kept.open()) == kept.appended_ms

    run(main())


def test_several_offsets_cost_one_look_up_for_each_batch(kept: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        log = kept.open(LogConfig())
        for count in (2, 30, 1, 4, 60, 3):
            await kept.append(log, count)
        looked_up = []
        look_up = AppendTimes.look_up

        def counted(self: AppendTimes, segment: Path, base_offset: int) -> int | None:
            looked_up.append(base_offset)
            return look_up(self, segment, base_offset)

        monkeypatch.setattr(AppendTimes, "look_up", counted)
        query = {"partitions": [("t", 0, offset) for offset in (-1, 99, *reversed(range(100)), 100, 7)]}

        async def log_of(topic: str, partition: int) -> PartitionLog:
            return log

        response = await append_times(query, log_of, kept.clock)
        assert {part["end_offset"] for part in response["partitions"]} == {100}
        times = [part["append_time_ms"] for part in response["partitions"]]
        expected = [kept.appended_ms[offset] for offset in (99, *reversed(range(100)))]
        assert times == [None, *expected, None, kept.appended_ms[7]]
        assert len(set(looked_up)) == 6
        assert len(looked_up) <= 6 + len(times) // 50, "again in the next turn"
        await log.close()

    run(main())


def test_batches_with_their_append_time_need_no_file(kept: Log) -> None:
    async def main() -> None:
        log = kept.open(APPENDED)
        await kept.append(log, 3)
        assert sidecars(kept.directory) == []
        log.config = SMALL  # message.timestamp.type of the topic is altered
        await kept.append(log, 2)
        log.config = APPENDED
        await kept.append(log, 1)
        assert kept.times(log) == kept.appended_ms
        await log.append_records([(b"k", b"v")], NOW_MS)  # the coordinator's own; its age is never queried
        assert log.append_time_ms(6) is None
        await log.close()
        assert [file.stat().st_size for file in sidecars(kept.directory)] == [ENTRY.size]

    run(main())


def test_a_repeated_batch_keeps_the_time_of_the_first(kept: Log) -> None:
    async def main() -> None:
        log = kept.open()
        await kept.append(log, 2, producer=(9, 0, 0))
        assert (await log.append(client_batch(2, producer=(9, 0, 0)))).duplicate
        await kept.append(log, 2, producer=(9, 0, 2))
        assert kept.times(log) == kept.appended_ms
        await log.close()

    run(main())


def cut(content: bytes) -> Iterator[bytes]:
    """Possible results of a power failure for a file that was never synced: shorter at any byte, or pages of zeros."""
    yield from (content[:size] for size in range(len(content) + 1))
    for start in range(0, len(content), ENTRY.size):
        for end in range(start + ENTRY.size, len(content) + 1, ENTRY.size):
            yield content[:start] + bytes(end - start) + content[end:]


def test_what_is_lost_of_the_file_is_unknown_and_nothing_else_changes(kept: Log) -> None:
    async def main() -> None:
        log = kept.open(LogConfig())
        for count in (2, 1, 3, 1, 1, 2, 4, 1):
            await kept.append(log, count)
        await log.close()
        log = kept.open(LogConfig())
        [file] = sidecars(kept.directory)
        whole = file.read_bytes()
        assert len(whole) == 8 * ENTRY.size
        for left in cut(whole):
            file.write_bytes(left)
            times = kept.times(log)
            assert all(time in (None, kept.appended_ms[offset]) for offset, time in times.items()), left
            if len(left) < len(whole):
                known = {offset for offset, time in times.items() if time is not None}
                held = {base for base, _ in ENTRY.iter_unpack(left[: len(left) // ENTRY.size * ENTRY.size])}
                assert held <= known, "what is there at the beginning is found"
        file.unlink()
        assert set(kept.times(log).values()) == {None}
        await log.close()

    run(main())


def test_offsets_that_come_again_after_a_lost_batch_have_their_own_time(kept: Log) -> None:
    """The power failed: the last batch was never synced and is lost, but its entry reached the disk."""

    async def main() -> None:
        log = kept.open(LogConfig())
        await kept.append(log, 2)
        size = segment_files(kept.directory)[0].stat().st_size
        await kept.append(log, 3)
        lost_ms = kept.appended_ms[2]
        await log.close()
        os.truncate(segment_files(kept.directory)[0], size + 20)
        lose_what_is_not_synced(kept.directory)
        log = kept.open(LogConfig())
        assert (log.log_end_offset, log.append_time_ms(2)) == (2, None)
        await kept.append(log, 3)
        assert kept.appended_ms[2] > lost_ms
        assert kept.times(log) == kept.appended_ms
        await log.close()

    run(main())


def test_what_a_fenced_writer_notes_is_not_believed(kept: Log) -> None:
    async def main() -> None:
        old = kept.open(LogConfig())
        await kept.append(old, 2)
        new = kept.open(LogConfig())
        with pytest.raises(NotLeader):
            await old.append(client_batch(3))
        await old.close()
        with sidecars(kept.directory)[0].open("ab") as file:
            file.write(ENTRY.pack(2, NOW_MS))
        assert kept.times(new) == kept.appended_ms
        await kept.append(new, 3)
        assert kept.times(new) == kept.appended_ms
        await new.close()
        assert kept.times(kept.open()) == kept.appended_ms

    run(main())


class Full(Disk):
    """Has space for half of a write, or for no new file."""

    def __init__(self) -> None:
        self.creates = self.writes = True

    def create_unsynced(self, path: Path) -> int:
        if not self.creates:
            raise OSError(errno.ENOSPC, "full")
        return super().create_unsynced(path)

    def write(self, fd: int, content: bytes | bytearray, position: int) -> None:
        super().write(fd, content if self.writes else content[: len(content) // 2], position)
        if not self.writes:
            raise OSError(errno.ENOSPC, "full")

    def sync(self, fd: int) -> None:
        raise AssertionError("append times are never synced")


def test_an_entry_that_cannot_be_written_costs_nothing_but_itself(tmp_path: Path) -> None:
    async def main(threads: Executor) -> None:
        disk = Full()
        times = AppendTimes(disk, threads)
        segment = tmp_path / "00000000000000000000.1.0.log"
        for base_offset, disk.writes in ((0, True), (10, False), (20, True)):
            times.add(segment, base_offset, NOW_MS + base_offset)
            times.add(segment, base_offset + 5, NOW_MS)
            await times.flush()
        assert [times.look_up(segment, base) for base in (0, 5, 10, 15, 20)] == [
            *(NOW_MS, NOW_MS),
            *(None, None),
            NOW_MS + 20,
        ]
        other = tmp_path / "00000000000000000030.1.1.log"
        for disk.creates in (False, True):
            times.add(other, 30, NOW_MS)
            assert times.look_up(other, 30) == NOW_MS
            await times.flush()
            assert times.look_up(other, 30) is None
        await times.close()
        assert [file.stat().st_size for file in sidecars(tmp_path)] == [4 * ENTRY.size]

    with ThreadPoolExecutor(1) as threads:
        run(main(threads))


def test_a_time_is_known_before_while_and_after_it_is_written(tmp_path: Path) -> None:
    gate, entered = threading.Event(), threading.Event()

    class Gated(Disk):
        def write(self, fd: int, content: bytes | bytearray, position: int) -> None:
            entered.set()
            assert gate.wait(10)
            super().write(fd, content, position)

    async def main(threads: Executor) -> None:
        times = AppendTimes(Gated(), threads)
        segment = tmp_path / "00000000000000000000.1.0.log"
        times.add(segment, 0, NOW_MS)
        assert times.look_up(segment, 0) == NOW_MS
        await asyncio.to_thread(entered.wait, 10)  # by itself
        times.add(segment, 1, NOW_MS + 1)
        assert [times.look_up(segment, base) for base in (0, 1)] == [NOW_MS, NOW_MS + 1]
        gate.set()
        await times.flush()
        assert [times.look_up(segment, base) for base in (0, 1)] == [NOW_MS, NOW_MS + 1]
        assert sidecars(tmp_path)[0].stat().st_size == 2 * ENTRY.size
        await times.close()

    with ThreadPoolExecutor(1) as threads:
        run(main(threads))


def test_an_append_that_failed_leaves_no_time_behind(kept: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes and the entry were written, the fdatasync failed; another batch gets the offset."""
    monkeypatch.setattr(committer, "RETRY_AFTER_S", 0)

    class Unsynced(Disk):
        fails = False

        def sync(self, fd: int) -> None:
            if self.fails:
                raise OSError(errno.EIO, "no")
            super().sync(fd)

    async def main() -> None:
        disk = Unsynced()
        log = kept.open(LogConfig(), disk)
        await kept.append(log, 2)
        disk.fails = True
        with pytest.raises(StorageError):
            await log.append(client_batch(3))
        disk.fails = False
        await kept.append(log, 1)
        await kept.append(log, 1)
        assert kept.times(log) == kept.appended_ms
        await log.close()
        assert kept.times(kept.open()) == kept.appended_ms

    run(main())


def test_the_entry_is_what_is_documented(kept: Log) -> None:
    async def main() -> None:
        log = kept.open()
        await kept.append(log, 3)
        await kept.append(log, 1)
        await log.close()
        [file] = sidecars(kept.directory)
        assert file.read_bytes() == struct.pack(">qqqq", 0, kept.appended_ms[0], 3, kept.appended_ms[3])

    run(main())
