"""Compaction of a topic with transactions."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from muster.actors.log.config import LogConfig
from muster.actors.log.format.batch import BatchHeader, iter_headers
from muster.actors.log.partition import PartitionLog
from muster.actors.log.upkeep.compaction import delete_horizon_ms
from tests.log.steps import Clock, content, opened
from tests.log.support import NOW_MS, lose_what_is_not_synced, run
from tests.log.transactions.support import ALL_BYTES, P, Q, abort, aborted_from, commit, committed

pytestmark = pytest.mark.usefixtures("either_storage")

RETENTION_MS = 60_000
COMPACT = LogConfig(
    cleanup_policy="compact", min_cleanable_dirty_ratio=0, delete_retention_ms=RETENTION_MS, segment_bytes=1 << 20
)


def start(directory: Path, clock: Clock | None = None) -> PartitionLog:
    return opened(directory, 1, COMPACT, clock=clock)


async def write(log: PartitionLog, producer_id: int, sequence: int, key: bytes, value: bytes) -> None:
    """One record in a segment of its own; outside of any transaction if the producer id is -1."""
    identity = (producer_id, 0, sequence) if producer_id >= 0 else (-1, -1, -1)
    builder = DefaultRecordBatchBuilder(2, 0, producer_id >= 0, *identity, 1 << 20)
    builder.append(0, NOW_MS, key, value, [])
    guard = log.guard_for(*identity) if producer_id >= 0 else None
    await log.enqueue(bytes(builder.build()), guard).durable()
    await log._writer.roll()


def headers(log: PartitionLog) -> dict[int, BatchHeader]:
    found = log.read(log.log_start_offset, ALL_BYTES, at_least_one=True)
    return {header.base_offset: header for _, header in iter_headers(found)}


def test_an_aborted_value_supersedes_nothing_and_goes(tmp_path: Path) -> None:
    async def main() -> None:
        log = start(tmp_path / "t-0")
        await write(log, -1, 0, b"k", b"1")
        await write(log, P, 0, b"k", b"2")
        assert await abort(log, P, 0) == 2
        await write(log, -1, 0, b"other", b"3")
        assert await log.clean() is not None
        assert content(log) == [(0, b"k", b"1"), (3, b"other", b"3")]
        assert headers(log)[2].is_control
        assert aborted_from(log, 0) == [(P, 1)], "a slow reader may have the records, and needs the end of them"
        await log.close()

    run(main())


def test_nothing_behind_the_last_stable_offset_is_touched(tmp_path: Path) -> None:
    async def main() -> None:
        log = start(tmp_path / "t-0")
        for number in range(3):
            await write(log, -1, 0, b"k", b"%d" % number)
        await write(log, P, 0, b"k", b"open")
        for number in range(4, 10):
            await write(log, -1, 0, b"k", b"%d" % number)
        await log.clean()
        assert [offset for offset, _, _ in content(log)] == [2, *range(3, 10)]
        await commit(log, P, 0)
        await write(log, -1, 0, b"last", b"")
        await log.clean()
        assert [offset for offset, _, _ in content(log)] == [9, 11]
        await log.close()

    run(main())


def test_a_marker_stays_until_its_horizon_and_the_last_batch_of_a_producer_for_good(tmp_path: Path) -> None:
    async def main() -> None:
        clock = Clock()
        log = start(tmp_path / "t-0", clock)
        await write(log, P, 0, b"k", b"1")
        assert await abort(log, P, 0) == 1
        await write(log, Q, 0, b"k", b"2")
        assert await commit(log, Q, 0) == 3
        await write(log, P, 1, b"k", b"3")
        assert await commit(log, P, 0) == 5
        count = 0

        async def clean() -> dict[int, BatchHeader]:
            nonlocal count
            count += 1
            await write(log, -1, 0, b"again", b"%d" % count)
            assert await log.clean() is not None
            return headers(log)

        first = await clean()
        assert {1, 3, 5} <= set(first)
        assert [delete_horizon_ms(first[offset]) for offset in (1, 3, 5)] == [None, None, None]
        second = await clean()
        assert delete_horizon_ms(second[1]) == clock.now_ms + RETENTION_MS
        assert delete_horizon_ms(second[5]) is None, "its transaction has a record: the last of its key"
        clock.now_ms += RETENTION_MS - 1
        assert 1 in await clean()
        clock.now_ms += 1
        last = await clean()
        assert 1 not in last
        assert last[3].record_count == 1, "the last batch of an active producer"
        assert (last[0].record_count, last[2].record_count, last[4].record_count) == (0, 0, 1)
        assert [(offset, value) for offset, key, value in content(log) if key == b"k"] == [(4, b"3")]
        state = log.producers()
        stable = log.last_stable_offset
        await log.close()
        lose_what_is_not_synced(log.directory)
        again = opened(log.directory, 2, COMPACT, clock=clock)
        assert again.last_stable_offset == again.high_watermark == stable
        assert {number: (entry.epoch, entry.last_sequence) for number, entry in again.producers().items()} == {
            number: (entry.epoch, entry.last_sequence) for number, entry in state.items()
        }
        await again.close()

    run(main())


def test_the_index_of_a_cleaned_segment_lists_what_its_markers_end(tmp_path: Path) -> None:
    async def main() -> None:
        log = start(tmp_path / "t-0")
        for sequence in range(4):
            await write(log, P, sequence, b"k%d" % sequence, b"x")
            await write(log, Q, sequence, b"q%d" % sequence, b"y")
            await (commit if sequence % 2 else abort)(log, P, 0)
        await abort(log, Q, 0)
        await log._writer.roll()
        before = aborted_from(log, 0)
        visible = committed(log)
        assert await log.clean() is not None
        assert aborted_from(log, 0) == before == [(P, 0), (P, 6), (Q, 1)]
        assert committed(log) == visible == [3, 9]
        [cleaned] = log.directory.glob("*.cleaned.txnindex")
        log.config = dataclasses.replace(log.config, log_cleaner_enable=False)
        for is_damaged in (False, True):
            if is_damaged:
                cleaned.unlink()
            await log.close()
            log = opened(log.directory, log.epoch + 1, COMPACT)
            assert committed(log) == visible
        await log.close()

    run(main())


def test_a_marker_that_is_read_twice_is_still_that_of_the_records_before_it(tmp_path: Path) -> None:
    """A segment alone is first read to find out whether it changes at all."""

    async def main() -> None:
        log = start(tmp_path / "t-0")
        await write(log, P, 0, b"k", b"1")
        assert await commit(log, P, 0) == 1
        for number in range(2):
            await write(log, -1, 0, b"superseded", b"%d" % number)
        await write(log, P, 1, b"later", b"1")
        await commit(log, P, 0)
        log.config = dataclasses.replace(COMPACT, segment_bytes=1)
        assert await log.clean() is not None
        assert [offset for offset, _, _ in content(log)] == [0, 3, 4]
        assert delete_horizon_ms(headers(log)[1]) is None
        await log.close()

    run(main())


def test_a_batch_without_records_begins_no_transaction_when_a_log_is_read(tmp_path: Path) -> None:
    """It marks the end of a segment, and outlives the marker of its transaction."""

    async def main() -> None:
        clock = Clock()
        log = start(tmp_path / "t-0", clock)
        await write(log, P, 0, b"k", b"1")
        await abort(log, P, 0)
        await write(log, -1, 0, b"k", b"0")
        log.config = dataclasses.replace(COMPACT, segment_bytes=150, producer_id_expiration_ms=-1)
        clock.now_ms += 1
        await log.apply_retention()
        assert not log.producers()
        for number in range(3):
            await log.clean()
            clock.now_ms += RETENTION_MS
            await write(log, -1, 0, b"again", b"%d" % number)
        assert 1 not in headers(log)
        assert headers(log)[0].is_transactional
        lose_what_is_not_synced(log.directory)
        again = opened(log.directory, 2, COMPACT)
        assert again.last_stable_offset == again.high_watermark
        await again.close()
        await log.close()

    run(main())
