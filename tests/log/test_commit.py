"""Group commit and a disk that is slow, full or broken."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import threading
from pathlib import Path

import pytest

from muster.actors.log import committer
from muster.actors.log.errors import MessageTooLarge, NotLeader, OutOfOrderSequence, StorageError
from muster.actors.log.files.disk import Disk
from muster.actors.log.format.batch import iter_headers
from tests.log.support import LogConfig, client_batch, everything_has_run, open_log, run, segment_files


class GatedDisk(Disk):
    """``fdatasync`` waits for the test."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.syncs = 0

    def sync(self, fd: int) -> None:
        self.syncs += 1
        self.entered.set()
        assert self.gate.wait(10)
        super().sync(fd)

    async def reached(self) -> None:
        await asyncio.to_thread(self.entered.wait, 10)
        self.entered.clear()


class BrokenDisk(Disk):
    """Fails on demand: ``write`` after half of the bytes, ``sync`` after all of them."""

    def __init__(self) -> None:
        self.fails: dict[str, int] = {}

    def _maybe(self, call: str) -> None:
        if call in self.fails:
            raise OSError(self.fails[call], os.strerror(self.fails[call]))

    def create(self, path: Path) -> int:
        self._maybe("create")
        return super().create(path)

    def write(self, fd: int, content: bytes | bytearray, position: int) -> None:
        if "write" in self.fails:
            super().write(fd, content[: len(content) // 2], position)
        self._maybe("write")
        super().write(fd, content, position)

    def sync(self, fd: int) -> None:
        self._maybe("sync")
        super().sync(fd)


def test_appends_that_wait_share_one_fdatasync_and_nothing_is_acknowledged_before_it(tmp_path: Path) -> None:
    async def main() -> None:
        disk = GatedDisk()
        log = open_log(tmp_path / "t-0", 1, disk=disk)
        disk.gate.clear()
        before = disk.syncs
        first = asyncio.create_task(log.append(client_batch(2)))
        await disk.reached()
        rest = [asyncio.create_task(log.append(client_batch(1))) for _ in range(50)]
        records = asyncio.create_task(log.append_records([(b"k", b"v")], 1))
        barrier = asyncio.create_task(log.append_records([], 1))
        await everything_has_run()
        assert not any(task.done() for task in [first, *rest, records, barrier])
        assert (log.high_watermark, log.log_end_offset, log.bytes_available(0)) == (0, 53, 0)
        assert log.read(0, 1 << 20, at_least_one=True) == b""
        disk.gate.set()
        assert [task.base_offset for task in await asyncio.gather(first, *rest)] == [0, *range(2, 52)]
        assert (await records, await barrier) == (52, 53)
        assert disk.syncs - before == 2
        assert log.high_watermark == 53
        await log.close()

    run(main())


def test_acknowledgements_come_in_the_order_of_the_appends(tmp_path: Path) -> None:
    async def main() -> None:
        log = open_log(tmp_path / "t-0", 1)
        order: list[int] = []

        async def append(number: int) -> None:
            if number % 7 == 3:
                await log.append_records([], 1)
            else:
                await log.append(client_batch(1))
            order.append(number)

        await asyncio.gather(*(append(number) for number in range(200)))
        assert order == list(range(200))
        await log.close()

    run(main())


def test_a_duplicate_waits_for_the_first_to_be_durable(tmp_path: Path) -> None:
    async def main() -> None:
        disk = GatedDisk()
        log = open_log(tmp_path / "t-0", 1, disk=disk)
        disk.gate.clear()
        content = client_batch(3, producer=(9, 0, 0))
        first = asyncio.create_task(log.append(content))
        await disk.reached()
        first.cancel()  # its connection has closed; the batch stays
        second = asyncio.create_task(log.append(content))
        await everything_has_run()
        assert not second.done()
        disk.gate.set()
        result = await second
        assert (result.base_offset, result.duplicate, log.high_watermark) == (0, True, 3)
        await log.close()

    run(main())


@pytest.mark.parametrize(("call", "code"), [("write", errno.ENOSPC), ("sync", errno.EIO)])
@pytest.mark.parametrize("filled", [0, 1])
def test_after_a_failure_only_what_is_durable_is_there_and_appending_goes_on(
    tmp_path: Path,
    call: str,
    code: int,
    filled: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(committer, "RETRY_AFTER_S", 0)

    def idempotent(sequence: int) -> bytes:
        return client_batch(1, producer=(9, 0, sequence))

    async def main() -> None:
        disk = BrokenDisk()
        log = open_log(tmp_path / "t-0", 1, disk=disk)
        for sequence in range(filled):
            await log.append(idempotent(sequence))
        for _ in range(2):
            disk.fails = {call: code}
            with caplog.at_level(logging.ERROR):
                tasks = [asyncio.create_task(log.append(idempotent(filled + number))) for number in range(3)]
                outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [StorageError] * 3
            assert os.strerror(code) in caplog.text
            assert (log.high_watermark, log.log_end_offset) == (filled, filled)
            assert len(list(iter_headers(log.read(0, 1 << 20, at_least_one=True)))) == filled
        disk.fails = {}
        results = [await log.append(idempotent(filled + number)) for number in range(3)]
        assert [(result.base_offset, result.duplicate) for result in results] == [
            (filled + number, False) for number in range(3)
        ]
        await log.close()
        again = open_log(tmp_path / "t-0", 2)
        assert [record.offset for record in again.replay()] == list(range(filled + 3))
        with pytest.raises(OutOfOrderSequence):
            again.enqueue(idempotent(filled + 4))
        await again.close()
        assert len(segment_files(tmp_path / "t-0")) == filled + 2

    run(main())


def test_appends_right_after_a_failure_fail_without_trying(tmp_path: Path) -> None:
    async def main() -> None:
        disk = BrokenDisk()
        log = open_log(tmp_path / "t-0", 1, disk=disk)
        disk.fails = {"sync": errno.EIO}
        with pytest.raises(StorageError):
            await log.append(client_batch())
        disk.fails = {}
        refused = [log.append(client_batch(1, producer=(9, 0, sequence))) for sequence in (0, 1)]
        for attempt in (*refused, log.append_records([(b"k", b"v")], 1)):
            with pytest.raises(StorageError):
                await attempt
        assert await log.append_records([], 1) == 0
        assert len(segment_files(tmp_path / "t-0")) == 1
        await log.close()

    run(main())


def test_a_segment_that_cannot_be_created_fails_the_appends(tmp_path: Path) -> None:
    async def main() -> None:
        disk = BrokenDisk()
        log = open_log(tmp_path / "t-0", 1, config=LogConfig(segment_bytes=150), disk=disk)
        await log.append(client_batch())
        disk.fails = {"create": errno.EMFILE}
        with pytest.raises(StorageError):
            await log.append(client_batch())
        assert log.high_watermark == log.log_end_offset == 1
        await log.close()

    run(main())


def test_close_makes_durable_what_was_appended_and_refuses_the_rest(tmp_path: Path) -> None:
    async def main() -> None:
        log = open_log(tmp_path / "t-0", 1)
        task = asyncio.create_task(log.append(client_batch()))
        await asyncio.sleep(0)
        await log.close()
        assert (await task).base_offset == 0
        for attempt in (log.append(client_batch()), log.append_records([], 1)):
            with pytest.raises(NotLeader):
                await attempt
        with pytest.raises(NotLeader):
            log.read(0, 1, at_least_one=True)
        await log.close()

    run(main())


def test_records_that_are_too_large_for_a_batch_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        log = open_log(tmp_path / "t-0", 1, config=LogConfig(max_message_bytes=1000))
        with pytest.raises(MessageTooLarge):
            await log.append_records([(b"k", bytes(1000))], 1)
        await log.close()

    run(main())
