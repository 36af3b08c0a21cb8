"""flush.messages and flush.ms: what is synced, and when."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muster.actors.config import MusterConfig, log_config, offsets_log_config
from muster.actors.log import committer
from muster.actors.log.config import LogConfig
from muster.actors.log.errors import StorageError
from muster.actors.log.files.disk import Disk
from muster.actors.log.partition import PartitionLog
from tests.log.support import client_batch, open_log, run
from tests.log.transactions.support import P, marker, write


class Counting(Disk):
    """Counts successful fdatasyncs; with ``broken`` they fail."""

    def __init__(self) -> None:
        self.syncs = 0
        self.broken = False
        self.synced = asyncio.Event()

    def sync(self, fd: int) -> None:
        if self.broken:
            raise OSError(5, "Input/output error")
        super().sync(fd)
        self.syncs += 1
        if loop := self.loop:
            loop.call_soon_threadsafe(self.synced.set)

    loop: asyncio.AbstractEventLoop | None = None


def opened(directory: Path, disk: Disk, **config: Any) -> PartitionLog:
    return open_log(directory, 1, config=LogConfig(**config), disk=disk)


def test_by_default_every_commit_is_synced(tmp_path: Path) -> None:
    async def main() -> None:
        disk = Counting()
        log = opened(tmp_path / "t-0", disk)
        before = disk.syncs
        for _ in range(5):
            await log.append(client_batch(1))
        assert disk.syncs == before + 5
        await log.close()

    run(main())


def test_after_so_many_records_at_the_end_of_a_segment_and_of_the_log(tmp_path: Path) -> None:
    async def main() -> None:
        disk = Counting()
        log = opened(tmp_path / "t-0", disk, flush_messages=6, segment_bytes=1000)
        before = disk.syncs
        for synced in (0, 0, 1, 1, 1, 2, 2):  # two records each
            await log.append(client_batch(2))
            assert disk.syncs == before + synced
        await log.append(client_batch(2))
        before = disk.syncs
        await log.append(client_batch(1, value=bytes(800)))
        assert disk.syncs == before + 1, "the segment before is closed"
        await log.close()
        assert disk.syncs == before + 2
        again = open_log(tmp_path / "t-0", 2)
        assert again.high_watermark == 17
        await again.close()

    run(main())


class Writers(Disk):
    """Knows which threads wrote."""

    def __init__(self, *, waits: bool = True) -> None:
        self.threads: list[threading.Thread] = []
        self.waits = waits

    def write(self, fd: int, content: bytes | bytearray, position: int) -> None:
        self.threads.append(threading.current_thread())
        if self.waits:
            threading.Event().wait(0.001)
        super().write(fd, content, position)


class Remote(Writers):
    def is_local(self, fd: int) -> bool:
        return False


async def threads_of_appends(disk: Writers, directory: Path, **config: Any) -> list[bool]:
    """Whether each write of three appends was the event loop's thread's; the second append counts as slow."""
    log = opened(directory, disk, **config)
    disk.threads.clear()
    for slow_s in (60.0, 0.0, 60.0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(committer, "_SLOW_S", slow_s)
            patch.setattr(committer, "_SLOW_FOR_S", 60.0)
            await log.append(client_batch(1))
    threads = disk.threads[:]
    await log.close()
    return [thread is threading.current_thread() for thread in threads]


def test_what_is_not_synced_is_written_on_the_event_loop_unless_that_is_slow(tmp_path: Path) -> None:
    assert run(threads_of_appends(Writers(), tmp_path / "t-0", flush_messages=100)) == [True, True, False]


def test_a_busy_processor_makes_no_disk_slow(tmp_path: Path) -> None:
    disk = Writers(waits=False)
    assert run(threads_of_appends(disk, tmp_path / "t-0", flush_messages=100)) == [True, True, True]


def test_what_is_synced_or_on_a_network_is_written_by_a_thread(tmp_path: Path) -> None:
    assert not any(run(threads_of_appends(Writers(), tmp_path / "t-0")))
    assert not any(run(threads_of_appends(Remote(), tmp_path / "t-1", flush_messages=100)))


def test_after_some_time(tmp_path: Path) -> None:
    async def main() -> None:
        disk = Counting()
        log = opened(tmp_path / "t-0", disk, flush_messages=1000, flush_ms=50)
        await log.append(client_batch(1))
        disk.loop = asyncio.get_running_loop()
        await disk.synced.wait()
        await log.close()

    run(main())


def test_before_a_marker_is_acknowledged(tmp_path: Path) -> None:
    async def main() -> None:
        disk = Counting()
        log = opened(tmp_path / "t-0", disk, flush_messages=1000)
        await write(log, P, 0, 0)
        before = disk.syncs
        await log.enqueue_marker(marker(P, 0, commit=True)).durable()
        assert disk.syncs == before + 1
        await log.close()

    run(main())


def test_a_sync_that_fails_later_begins_a_new_segment(tmp_path: Path) -> None:
    async def main() -> None:
        disk = Counting()
        log = opened(tmp_path / "t-0", disk, flush_messages=3)
        await log.append(client_batch(1))
        disk.broken = True
        with pytest.raises(StorageError):
            await log.append(client_batch(2))
        disk.broken = False
        while True:
            try:
                assert (await log.append(client_batch(1))).base_offset == 1
                break
            except StorageError:
                await asyncio.sleep(0.05)
        assert [record.offset for record in log.replay()] == [0, 1]
        await log.close()

    run(main())


def test_offsets_are_always_synced() -> None:
    config = MusterConfig.from_properties({"log.flush.interval.messages": "500", "log.flush.interval.ms": "1000"})
    assert (log_config(config).flush_messages, log_config(config).flush_ms) == (500, 1000)
    assert log_config(config).override({"flush.messages": "2"}).flush_messages == 2
    assert offsets_log_config(config).flush_messages == 1
    with pytest.raises(ValueError, match=r"flush\.messages"):
        replace(LogConfig(), flush_messages=0)
