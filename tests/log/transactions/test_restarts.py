"""A log that is opened again knows its open and aborted transactions from the first response on."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.actors.log import committer
from muster.actors.log.config import LogConfig
from muster.actors.log.errors import InvalidProducerEpoch, StorageError, TransactionCoordinatorFenced
from muster.actors.log.files.disk import Disk
from muster.actors.log.partition import PartitionLog
from muster.actors.log.transactions.aborted import AbortedTransaction, AbortedTransactions, overlapping
from tests.log.support import client_batch, lose_what_is_not_synced, open_log, run
from tests.log.transactions import support
from tests.log.transactions.support import P, Q, aborted_from, committed, enqueue, marker, write

pytestmark = pytest.mark.usefixtures("either_storage")

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100)
OPEN_FROM = 3


async def filled(directory: Path) -> PartitionLog:
    """Many segments: Q is open from offset 3 on; P aborts, commits and aborts."""
    log = open_log(directory, 1, config=SMALL)
    await write(log, P, 0, 0, 3)
    await write(log, Q, 0, 0)
    for round in range(6):
        for sequence in range(4):
            await write(log, P, 0, 3 + round * 4 + sequence)
            await log.append(client_batch())
        await log.enqueue_marker(marker(P, 0, commit=round % 2 == 1, coordinator_epoch=round)).durable()
    return log


def state(log: PartitionLog) -> tuple[object, ...]:
    entries = [each for segment in log._writer.segments for each in segment.aborted]
    reads = [aborted_from(log, offset) for offset in range(log.high_watermark)]
    return log.last_stable_offset, log.high_watermark, entries, reads, log.producers()


def variants(directory: Path) -> Iterator[tuple[str, bytes | None]]:
    """Yield changes to the files beside the segments: removed, cut, one bit flipped, longer."""
    for path in sorted(directory.glob("*.txnindex")):
        content = path.read_bytes()
        yield from ((path.name, each) for each in (None, b"", content[:-1], content + bytes(34)))
        yield from (
            (path.name, content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]) for at in (1, 9, 17, 25, 33)
        )


@pytest.mark.parametrize("power_fails", [False, True])
@pytest.mark.parametrize("is_closed", [False, True])
def test_open_and_aborted_transactions_are_known_at_once(tmp_path: Path, is_closed: bool, power_fails: bool) -> None:
    async def main() -> None:
        log = await filled(tmp_path / "t-0")
        expected = state(log)
        assert log.last_stable_offset == OPEN_FROM
        assert len([segment for segment in log._writer.segments if len(segment.aborted)]) == 3
        if is_closed:
            await log.close()
        if power_fails:
            lose_what_is_not_synced(log.directory)
        for epoch in range(2, 5):
            again = open_log(log.directory, epoch, config=SMALL)
            assert state(again) == expected
            await again.close()
        again = open_log(log.directory, 5, config=SMALL)
        for error, epoch, coordinator_epoch in ((InvalidProducerEpoch, -1, 9), (TransactionCoordinatorFenced, 0, 4)):
            with pytest.raises(error):
                again.enqueue_marker(marker(P, epoch, commit=True, coordinator_epoch=coordinator_epoch))
        await support.commit(again, Q, 0)
        assert again.last_stable_offset == again.high_watermark
        assert OPEN_FROM in committed(again)
        assert aborted_from(again, 0) == [(P, 0), *[(P, each.first_offset) for each in entries(again)[1:]]]
        await again.close()
        await log.close()

    run(main())


def entries(log: PartitionLog) -> list[AbortedTransaction]:
    return [each for segment in log._writer.segments for each in segment.aborted]


@pytest.mark.in_directory
def test_an_index_of_aborted_transactions_that_is_damaged_is_made_anew(tmp_path: Path) -> None:
    async def main() -> None:
        original = tmp_path / "original"
        log = await filled(original)
        expected = state(log)
        await log.close()
        count = 0
        for name, content in variants(original):
            directory = shutil.copytree(original, tmp_path / "damaged")
            path = directory / name
            path.unlink() if content is None else path.write_bytes(content)
            again = open_log(directory, 2, config=SMALL)
            assert state(again) == expected, (name, content)
            await again.close()
            assert path.read_bytes() == (original / name).read_bytes()
            shutil.rmtree(directory)
            count += 1
        assert count == 9 * 3

    run(main(), timeout_s=60)


def test_the_file_is_the_one_that_kafka_writes(tmp_path: Path) -> None:
    async def main() -> None:
        log = open_log(tmp_path / "t-0", 1)
        await log.append(client_batch(4))
        await write(log, P, 0, 0, 6)
        await support.abort(log, P, 0)
        await log.close()
        [path] = log.directory.glob("*.txnindex")
        assert path.read_bytes().hex() == "000000000000000003e80000000000000004000000000000000a000000000000000b"

    run(main())


class FailingDisk(Disk):
    def __init__(self) -> None:
        self.fails = False

    def sync(self, fd: int) -> None:
        if self.fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.in_directory
def test_what_cannot_be_written_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "RETRY_AFTER_S", 0)

    async def main() -> None:
        disk = FailingDisk()
        log = open_log(tmp_path / "t-0", 1, disk=disk)
        await write(log, P, 0, 0)
        await support.commit(log, P, 0)
        await write(log, P, 0, 1)
        disk.fails = True
        decided = marker(P, 0, commit=False, decision=7, coordinator_epoch=3)
        doomed = [
            log.enqueue_marker(decided),
            enqueue(log, P, 0, 2),
            enqueue(log, Q, 0, 0),
            log.enqueue_marker(marker(Q, 0, commit=True)),
            log.enqueue_marker(marker(P, 1, commit=True, coordinator_epoch=3)),
        ]
        assert log.last_stable_offset == 2
        for append in doomed:
            with pytest.raises(StorageError):
                await append.durable()
        assert (log.last_stable_offset, log.high_watermark, log.log_end_offset) == (2, 3, 3)
        assert set(log.producers()) == {P}
        disk.fails = False
        assert not (await log.enqueue_marker(decided).durable()).duplicate
        assert (log.last_stable_offset, log.high_watermark) == (4, 4)
        assert aborted_from(log, 0) == [(P, 2)]
        assert committed(log) == [0]
        await log.close()

    run(main())


class SlowDisk(Disk):
    def __init__(self) -> None:
        self.may_sync = threading.Event()
        self.may_sync.set()

    def sync(self, fd: int) -> None:
        assert self.may_sync.wait(20)


def test_a_marker_counts_once_it_is_durable(tmp_path: Path) -> None:
    async def main() -> None:
        disk = SlowDisk()
        log = open_log(tmp_path / "t-0", 1, disk=disk)
        await write(log, P, 0, 0)
        await write(log, Q, 0, 0)
        disk.may_sync.clear()
        pending = log.enqueue_marker(marker(P, 0, commit=False))
        later = enqueue(log, P, 0, 1)
        assert log.last_stable_offset == 0
        disk.may_sync.set()
        await pending.durable()
        await later.durable()
        assert log.last_stable_offset == 1
        assert aborted_from(log, 0) == [(P, 0)]
        assert entries(log) == [(P, 0, 2, 1)]
        await log.close()

    run(main())


def test_a_lookup_ends_where_nothing_can_follow() -> None:
    first, second = AbortedTransactions(), AbortedTransactions()
    first.add(AbortedTransaction(P, 0, 10, 11))
    first.add(AbortedTransaction(Q, 12, 20, 15))
    second.add(AbortedTransaction(P, 15, 30, 31))
    second.add(AbortedTransaction(P, 40, 50, 51))
    found = [list(overlapping([first, second], *bounds)) for bounds in ((0, 11), (11, 16), (21, 31), (31, 40), (0, 99))]
    assert [[each.first_offset for each in lookup] for lookup in found] == [[0], [12, 15], [15], [], [0, 12, 15, 40]]
