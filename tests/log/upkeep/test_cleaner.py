"""Compaction: the last record of each key remains, at its offset, and nothing else is lost."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from muster.actors.log.config import LogConfig
from muster.actors.log.errors import InvalidRecords, OutOfOrderSequence, StorageError
from muster.actors.log.format.batch import crc_matches, iter_headers
from muster.actors.log.partition import PartitionLog
from muster.actors.log.upkeep.compaction import delete_horizon_ms
from tests.log.steps import Clock, content, latest, opened
from tests.log.support import GZIP, LZ4, NONE, NOW_MS, SNAPPY, ZSTD, client_batch, run, segment_files

pytestmark = pytest.mark.usefixtures("either_storage")

DAY_MS = 86_400_000
COMPACT = LogConfig(segment_bytes=300, cleanup_policy="compact", min_cleanable_dirty_ratio=0)

Pairs = list[tuple[bytes | None, bytes | None]]


def keyed(
    pairs: Pairs, *, codec: int = NONE, producer: tuple[int, int, int] = (-1, -1, -1), at_ms: int = NOW_MS
) -> bytes:
    """Return a client's batch; each record is one ms later than the previous one."""
    builder = DefaultRecordBatchBuilder(2, codec, False, *producer, 1 << 24)
    for index, (key, value) in enumerate(pairs):
        builder.append(index, at_ms + index, key, value, [("header", b"content")])
    return bytes(builder.build())


async def filled(
    directory: Path, batches: list[Pairs], config: LogConfig = COMPACT, clock: Clock | None = None
) -> PartitionLog:
    """One batch per segment, all of them closed."""
    log = opened(directory, 1, dataclasses.replace(config, segment_bytes=1 << 20), clock=clock)
    for pairs in batches:
        await log.append(keyed(pairs))
        await log._writer.roll()
    log.config = config
    return log


async def reopened(log: PartitionLog) -> PartitionLog:
    await log.close()
    clock = log._now_ms
    assert isinstance(clock, Clock)
    return opened(log.directory, log.epoch + 1, log.config, clock=clock)


def test_the_last_record_of_each_key_stays_at_its_offset(tmp_path: Path) -> None:
    async def main() -> None:
        batches: list[Pairs] = [
            [(b"a", b"1"), (b"b", b"1"), (b"c", b"1")],
            [(b"a", b"2"), (b"d", b"1")],
            [(b"b", b"2"), (b"a", b"3")],
        ]
        log = await filled(tmp_path / "t-0", batches)
        await log.append(keyed([(b"c", b"active")]))  # the active segment is not examined
        assert await log.clean() is not None
        expected = [(2, b"c", b"1"), (4, b"d", b"1"), (5, b"b", b"2"), (6, b"a", b"3"), (7, b"c", b"active")]
        assert content(log) == expected
        assert (log.log_start_offset, log.high_watermark) == (0, 8)
        assert await log.clean() is None  # nothing is new
        for _ in range(2):
            log = await reopened(log)
            assert content(log) == expected
            assert (log.log_start_offset, log.high_watermark) == (0, 8)
        assert (await log.append(keyed([(b"a", b"4")]))).base_offset == 8
        await log.close()

    run(main())


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_a_batch_that_lost_records_is_whole_and_keeps_codec_offsets_and_times(tmp_path: Path, codec: int) -> None:
    async def main() -> None:
        log = opened(tmp_path / "t-0", 1, COMPACT)
        await log.append(keyed([(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", b"1"), (b"b", b"2")], codec=codec))
        await log._writer.roll()
        await log.clean()
        records = log.read(0, 1 << 20, at_least_one=True)
        [(_, header)] = iter_headers(records)
        assert crc_matches(records, header)
        assert (header.codec, header.record_count, header.base_offset, header.last_offset_delta) == (codec, 3, 0, 4)
        assert header.max_timestamp_ms == NOW_MS + 4
        found = [(r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in log.replay()]
        headers = (("header", b"content"),)
        assert [
            (*rest, [(bytes(n) if isinstance(n, bytes) else n.encode(), c) for n, c in h]) for *rest, h in found
        ] == [
            (offset, NOW_MS + offset, key, value, [(name.encode(), text) for name, text in headers])
            for offset, key, value in [(2, b"a", b"2"), (3, b"c", b"1"), (4, b"b", b"2")]
        ]
        await log.close()

    run(main())


def test_offsets_that_are_gone_are_answered_from_the_next_record(tmp_path: Path) -> None:
    async def main() -> None:
        batches: list[Pairs] = [[(b"a", b"%d" % number), (b"b", b"%d" % number)] for number in range(20)]
        log = await filled(tmp_path / "t-0", batches)
        await log.clean()
        for offset in range(40):
            [first, *_] = [header for _, header in iter_headers(log.read(offset, 1 << 20, at_least_one=True))]
            assert first.last_offset >= offset
            assert log.bytes_available(offset) > 0
            assert log.epoch_at(offset) == 1
            assert log.append_time_ms(offset) == NOW_MS
        assert log.offset_for_time(0) == (38, NOW_MS)
        assert log.offset_of_max_timestamp() == (39, NOW_MS + 1)
        assert log.read(40, 1 << 20, at_least_one=True) == b""
        await log.close()

    run(main())


def test_small_segments_become_one_and_their_files_go(tmp_path: Path) -> None:
    async def main() -> None:
        batches: list[Pairs] = [[(b"key-%d" % number, b"value")] for number in range(30)]
        log = await filled(tmp_path / "t-0", batches, dataclasses.replace(COMPACT, segment_bytes=1000))
        result = await log.clean()
        assert result is not None
        assert result.segments_before == 30 > result.segments_after
        assert len(segment_files(log.directory)) == result.segments_after + 1
        assert all(path.stat().st_size <= 1000 for path in segment_files(log.directory))
        assert len(content(log)) == 30
        log = await reopened(log)
        assert len(content(log)) == 30
        assert {path.stem for path in log.directory.glob("*.cleaned.*")} == {
            path.stem for path in log.directory.glob("*.cleaned.log")
        }
        await log.close()

    run(main())


def test_a_tombstone_stays_for_delete_retention_ms_after_the_run_that_saw_it(tmp_path: Path) -> None:
    async def main() -> None:
        clock = Clock(NOW_MS + 50 * DAY_MS)  # whatever the age of the record itself
        log = await filled(tmp_path / "t-0", [[(b"a", b"1"), (b"b", b"1")], [(b"a", None), (b"c", b"1")]], clock=clock)
        await log.clean()
        assert content(log) == [(1, b"b", b"1"), (2, b"a", None), (3, b"c", b"1")]
        [horizon] = {delete_horizon_ms(header) for _, header in iter_headers(log.read(2, 1 << 20, at_least_one=True))}
        assert horizon == clock.now_ms + DAY_MS
        assert [record.timestamp_ms for record in log.replay()] == [NOW_MS + 1, NOW_MS, NOW_MS + 1]

        async def again(passed_ms: int) -> list[tuple[int, bytes | None, bytes | None]]:
            nonlocal log
            clock.now_ms += passed_ms
            await log.append(keyed([(b"x", b"%d" % clock.now_ms)]))
            log = await reopened(log)
            assert await log.clean() is not None
            return [record for record in content(log) if record[1] != b"x"]

        assert await again(DAY_MS - 1) == [(1, b"b", b"1"), (2, b"a", None), (3, b"c", b"1")]
        assert await again(1) == [(1, b"b", b"1"), (3, b"c", b"1")]
        await log.close()

    run(main())


def test_a_tombstone_that_was_superseded_goes_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        log = await filled(tmp_path / "t-0", [[(b"a", b"1")], [(b"a", None)], [(b"a", b"2")]])
        await log.clean()
        assert content(log) == [(2, b"a", b"2")]
        await log.close()

    run(main())


def test_what_a_run_has_no_memory_for_waits_for_the_next(tmp_path: Path) -> None:
    """And no tombstone that it passed counts as seen: what precedes it still exists."""

    async def main() -> None:
        clock = Clock()
        config = dataclasses.replace(COMPACT, log_cleaner_dedupe_buffer_size=10 * 160, delete_retention_ms=0)
        batches: list[Pairs] = [[(b"%d" % (number % 25), b"%d" % number)] for number in range(100)]
        batches += [[(b"%d" % number, None)] for number in range(5)]
        log = await filled(tmp_path / "t-0", batches, config, clock=clock)
        expected = latest(content(log))
        runs = 0
        while (await log.clean()) is not None:
            clock.now_ms += 10
            runs += 1
            assert latest(content(log)) == expected
        assert runs > 5
        assert [key for _, key, _ in content(log)] == [b"%d" % key for key in [*range(5, 25), *range(5)]]
        await log.close()

    run(main())


def test_a_tombstone_that_a_run_passed_by_is_seen_by_the_next(tmp_path: Path) -> None:
    async def main() -> None:
        clock = Clock()
        config = dataclasses.replace(COMPACT, log_cleaner_dedupe_buffer_size=2 * 160, delete_retention_ms=1000)
        log = opened(tmp_path / "t-0", 1, dataclasses.replace(config, segment_bytes=1 << 20), clock=clock)
        for pair in ((b"a", b"1"), (b"b", b"1"), (b"c", b"1"), (b"a", None)):
            await log.append(keyed([pair]))
        await log._writer.roll()
        result = await log.clean()
        assert result is not None
        assert result.cleaned_offset == 2  # there was no room for c
        clock.now_ms += 1000
        assert await log.clean() is not None  # the first a is removed only now
        assert content(log) == [(1, b"b", b"1"), (2, b"c", b"1"), (3, b"a", None)]
        await log.close()

    run(main())


def test_ratio_and_lags_say_when(tmp_path: Path) -> None:
    async def main() -> None:
        clock = Clock(NOW_MS + 1000)
        config = dataclasses.replace(COMPACT, segment_bytes=20_000)
        batches: list[Pairs] = [[(b"a", b"%d" % number)] for number in range(4)]
        log = await filled(tmp_path / "t-0", batches, config, clock=clock)
        log.config = dataclasses.replace(config, min_compaction_lag_ms=1001)
        assert await log.clean() is None
        log.config = dataclasses.replace(config, cleanup_policy="delete", retention_ms=-1)
        assert await log.clean() is None
        log.config = dataclasses.replace(config, log_cleaner_enable=False)
        assert await log.clean() is None
        log.config = dataclasses.replace(config, min_compaction_lag_ms=1000)
        assert await log.clean() is not None  # completely dirty
        log = await reopened(log)
        parts: list[Pairs] = [[(b"long", bytes(10_000))], [(b"a", b"5")]]
        for pairs in parts:
            await log.append(keyed(pairs))
            await log._writer.roll()
        log.config = dataclasses.replace(config, min_cleanable_dirty_ratio=0.5)
        assert await log.clean() is not None
        await log.append(keyed([(b"a", b"6")]))
        await log._writer.roll()
        assert await log.clean() is None  # slightly dirty
        log.config = dataclasses.replace(log.config, max_compaction_lag_ms=999)
        assert await log.clean() is not None  # but too old to wait
        assert [key for _, key, _ in content(log)] == [b"long", b"a"]
        await log.close()

    run(main())


def test_producers_and_the_end_of_the_log_survive(tmp_path: Path) -> None:
    """Also without a useful index or snapshot."""

    async def main() -> None:
        log = opened(tmp_path / "t-0", 1, COMPACT)
        for sequence in range(8):
            await log.append(keyed([(b"a", b"%d" % sequence)], producer=(7, 0, sequence)))
        await log.append(keyed([(b"a", b"other")]))
        await log._writer.roll()
        await log.clean()
        assert content(log) == [(8, b"a", b"other")]
        await log.close()
        for path in [*log.directory.glob("*.index"), *log.directory.glob("*.snapshot")]:
            path.unlink()
        log = opened(log.directory, 2, COMPACT)
        for sequence in range(3, 8):
            result = await log.append(keyed([(b"a", b"%d" % sequence)], producer=(7, 0, sequence)))
            assert (result.base_offset, result.duplicate) == (sequence, True)
        with pytest.raises(OutOfOrderSequence):
            log.enqueue(keyed([(b"a", b"10")], producer=(7, 0, 10)))
        assert (await log.append(keyed([(b"a", b"8")], producer=(7, 0, 8)))).base_offset == 9
        await log.close()

    run(main())


def test_nothing_of_a_damaged_segment_is_taken_over(tmp_path: Path) -> None:
    async def main() -> None:
        log = await filled(
            tmp_path / "t-0", [[(b"a", b"1"), (b"b", b"1")], [(b"c", b"1"), (b"d", b"1")], [(b"e", b"1")]]
        )
        damaged = segment_files(log.directory)[1]
        with damaged.open("r+b") as file:
            file.seek(70)
            file.write(b"\xff\xff")
        with pytest.raises(StorageError):
            await log.clean()
        assert not list(log.directory.glob("*.cleaned.log"))
        await log.append(keyed([(b"a", b"2")]))
        await log._writer.roll()
        assert await log.clean() is not None  # around it
        with pytest.raises(StorageError):
            log.read(2, 1000, at_least_one=True)
        [(_, header)] = iter_headers(log.read(1, 70, at_least_one=True))
        assert (header.base_offset, header.record_count) == (0, 1)
        await log.close()

    run(main())


def test_a_cleaned_segment_that_is_damaged_is_set_aside(tmp_path: Path) -> None:
    async def main() -> None:
        log = await filled(tmp_path / "t-0", [[(b"a", b"1"), (b"b", b"1")], [(b"c", b"1"), (b"d", b"1")]])
        await log.clean()
        [path] = log.directory.glob("*.cleaned.log")
        with path.open("r+b") as file:
            file.seek(70)
            file.write(b"\xff\xff")
        with pytest.raises(StorageError):
            log.read(0, 1000, at_least_one=True)
        assert path.with_name(path.name + ".corrupt").exists()
        assert not path.exists()
        await log.append(keyed([(b"e", b"1")]))
        log = await reopened(log)
        assert log.log_end_offset == 5
        assert log.read(4, 1000, at_least_one=True)
        await log.close()

    run(main())


def test_records_without_a_key_are_refused_on_compact_topics(tmp_path: Path) -> None:
    async def main() -> None:
        log = opened(tmp_path / "t-0", 1, COMPACT)
        for codec in (NONE, ZSTD):
            with pytest.raises(InvalidRecords, match=r"batchIndex=1.*Compacted topic cannot accept"):
                log.enqueue(keyed([(b"a", b"1"), (None, b"2")], codec=codec))
        log.config = dataclasses.replace(COMPACT, cleanup_policy="delete")
        await log.append(keyed([(None, b"2")]))
        log.config = COMPACT
        await log._writer.roll()
        await log.append(keyed([(b"", b"an empty key is one")]))
        await log.clean()
        assert content(log) == [(1, b"", b"an empty key is one")]  # as Kafka's cleaner, which keeps none without
        await log.close()

    run(main())


def test_appends_reads_deletion_and_closing_go_on_while_it_runs(tmp_path: Path) -> None:
    async def main() -> None:
        config = dataclasses.replace(COMPACT, cleanup_policy="compact,delete", retention_ms=-1, segment_bytes=2000)
        log = opened(tmp_path / "t-0", 1, config)
        number = 0

        async def append(count: int) -> None:
            nonlocal number
            for _ in range(count):
                await log.append(keyed([(b"%d" % (number % 10), b"%d" % number)]))
                number += 1

        await append(200)
        for round_number in range(10):
            cleaning = asyncio.ensure_future(log.clean())
            await append(10)
            assert log.read(log.log_start_offset, 1 << 20, at_least_one=True)
            if round_number % 3 == 2:
                await log.delete_records(number - 60)
            await cleaning
            assert latest(content(log)) == {b"%d" % (at % 10): b"%d" % at for at in range(number - 10, number)}
        cleaning = asyncio.ensure_future(log.clean())
        await asyncio.sleep(0)
        log = await reopened(log)  # waits for it
        await cleaning
        assert latest(content(log)) == {b"%d" % (at % 10): b"%d" % at for at in range(number - 10, number)}
        await log.close()

    run(main())


def test_a_client_batch_of_another_kind_is_cleaned_too(tmp_path: Path) -> None:
    async def main() -> None:
        config = dataclasses.replace(COMPACT, message_timestamp_type="LogAppendTime")
        clock = Clock(NOW_MS + 5)
        log = opened(tmp_path / "t-0", 1, config, clock=clock)
        await log.append(client_batch(3))
        await log.append_records([(b"key-1", None), (b"key-2", b"own")], NOW_MS)
        await log._writer.roll()
        await log.clean()
        assert [(r.offset, r.timestamp_ms, r.value) for r in log.replay()] == [
            (0, NOW_MS + 5, b"value"),
            (3, NOW_MS, None),
            (4, NOW_MS, b"own"),
        ]
        await log.close()

    run(main())
