"""Append, read, find by time, over one segment and many."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.actors.log.config import LogConfig
from muster.actors.log.errors import NotLeader, OffsetOutOfRange, OutOfOrderSequence, RecordListTooLarge
from muster.actors.log.files import directory as directories
from muster.actors.log.format.batch import iter_headers
from muster.actors.log.partition import PartitionLog
from tests.log.support import GZIP, NOW_MS, ZSTD, client_batch, open_log, run, segment_files

pytestmark = pytest.mark.usefixtures("either_storage")

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=200)


def ranges(content: bytes) -> list[tuple[int, int]]:
    return [(header.base_offset, header.last_offset) for _, header in iter_headers(content)]


async def filled(directory: Path, counts: list[int], config: LogConfig = SMALL) -> PartitionLog:
    log = open_log(directory, 1, config=config)
    for count in counts:
        await log.append(client_batch(count))
    return log


def test_what_is_read_is_what_was_sent_but_for_the_stamps(tmp_path: Path) -> None:
    async def main() -> None:
        log = open_log(tmp_path / "t-0", 5)
        sent = [client_batch(3, codec=codec) for codec in (ZSTD, GZIP)]
        for content in sent:
            await log.append(content)
        read = log.read(0, 1 << 20, at_least_one=True)
        at = 0
        for content, (position, header) in zip(sent, iter_headers(read), strict=True):
            assert position == at
            assert read[at + 16 : at + len(content)] == content[16:]
            assert header.partition_leader_epoch == 5
            at += len(content)
        await log.close()

    run(main())


def test_a_read_begins_with_the_batch_that_holds_the_offset_and_goes_on_over_segments(tmp_path: Path) -> None:
    async def main() -> None:
        counts = [1, 3, 2] * 12
        log = await filled(tmp_path / "t-0", counts)
        starts = [sum(counts[:index]) for index in range(len(counts))]
        batches = [(start, start + count - 1) for start, count in zip(starts, counts, strict=True)]
        assert len(segment_files(tmp_path / "t-0")) > 4
        whole = log.read(0, 1 << 20, at_least_one=True)
        assert ranges(whole) == batches
        for offset in range(log.high_watermark):
            first = next(index for index, (_, last) in enumerate(batches) if last >= offset)
            content = log.read(offset, 1 << 20, at_least_one=True)
            assert ranges(content) == batches[first:]
            assert log.bytes_available(offset) == len(content)
            assert ranges(log.read(offset, 0, at_least_one=True)) == [batches[first]]
            assert log.read(offset, 0, at_least_one=False) == b""
        assert log.read(log.high_watermark, 100, at_least_one=True) == b""
        for limit in range(0, len(whole) + 1, 37):
            some = log.read(0, limit, at_least_one=False)
            assert whole.startswith(some)
            rest = ranges(whole)[len(ranges(some)) :]
            assert not rest or len(some) + len(client_batch(counts[len(ranges(some))])) > limit
        for offset in (-1, log.log_end_offset + 1):
            with pytest.raises(OffsetOutOfRange):
                log.read(offset, 100, at_least_one=True)
        await log.close()

    run(main())


def test_no_segment_outgrows_segment_bytes(tmp_path: Path) -> None:
    async def main() -> None:
        log = open_log(tmp_path / "t-0", 1, config=SMALL)
        await asyncio.gather(*(log.append(client_batch(1 + number % 5)) for number in range(40)))
        sizes = [path.stat().st_size for path in segment_files(tmp_path / "t-0")]
        assert len(sizes) > 5
        assert max(sizes) <= 1000
        with pytest.raises(RecordListTooLarge):
            await log.append(client_batch(1, value=bytes(1000)))
        await log.close()

    run(main())


def test_offset_for_time_is_exact_to_the_record(tmp_path: Path) -> None:
    async def main() -> None:
        log = open_log(tmp_path / "t-0", 1, config=SMALL)
        times: list[int] = []
        for number in range(30):  # ascending within a batch, back and forth between batches
            first = NOW_MS + (number * 7919) % 400
            await log.append(client_batch(4, first_ms=first, step_ms=3, codec=GZIP if number % 2 else 0))
            times += [first + 3 * index for index in range(4)]
        for timestamp in range(NOW_MS - 1, max(times) + 2):
            expected = next(((offset, at) for offset, at in enumerate(times) if at >= timestamp), None)
            assert log.offset_for_time(timestamp) == expected
        assert log.offset_of_max_timestamp() == (times.index(max(times)), max(times))
        await log.close()

    run(main())


def test_an_empty_log(tmp_path: Path) -> None:
    async def main() -> None:
        log = open_log(tmp_path / "t-0", 1)
        assert (log.log_start_offset, log.high_watermark, log.log_end_offset, log.epoch) == (0, 0, 0, 1)
        assert log.offset_for_time(0) is None
        assert log.offset_of_max_timestamp() is None
        assert list(log.replay()) == []
        assert await log.append_records([], 1) == 0
        await log.close()

    run(main())


def test_replay_gives_every_record(tmp_path: Path) -> None:
    async def main() -> None:
        log = open_log(tmp_path / "t-0", 1, config=SMALL)
        for number in range(20):
            await log.append_records([(b"a%d" % number, b"v" * 50), (b"b%d" % number, None)], NOW_MS + number)
        replayed = [(r.offset, r.timestamp_ms, r.key, r.value) for r in log.replay()]
        assert replayed[:2] == [(0, NOW_MS, b"a0", b"v" * 50), (1, NOW_MS, b"b0", None)]
        assert [record[0] for record in replayed] == list(range(40))
        await log.close()

    run(main())


def test_a_writer_that_was_replaced_reads_its_own_end_until_its_next_write(tmp_path: Path) -> None:
    """A Kafka broker that is no longer the leader and has not heard of it does so. It can acknowledge nothing."""

    async def main() -> None:
        replaced = open_log(tmp_path, 1)
        await replaced.append(client_batch(2))
        successor = open_log(tmp_path, 2)
        await successor.append(client_batch(3))
        assert (successor.high_watermark, replaced.high_watermark) == (5, 2)
        assert replaced.is_end(2)
        assert successor.bytes_available(2) > 0
        with pytest.raises(NotLeader):
            await replaced.append(client_batch())
        with pytest.raises(NotLeader):
            replaced.is_end(2)
        await successor.close()

    run(main())


@pytest.mark.in_directory
def test_delete_removes_the_directory(tmp_path: Path) -> None:
    async def main() -> None:
        log = await filled(tmp_path / "t-0", [1, 2])
        await log.delete()

    run(main())
    assert list(tmp_path.iterdir()) == []


APPEND = st.tuples(st.integers(1, 4), st.integers(0, 120))
STEPS = st.lists(st.lists(APPEND, max_size=6) | st.just("reopen"), max_size=12)


@settings(max_examples=40)
@given(steps=STEPS)
def test_any_history_of_appends_and_reopens_reads_as_a_list(steps: list[list[tuple[int, int]] | str]) -> None:
    async def main(directory: Path) -> None:
        epoch, sequence = 1, 0
        model: list[bytes] = []
        log = open_log(directory, epoch, config=SMALL)
        for step in steps:
            if isinstance(step, str):
                await log.close()
                epoch += 1
                log = open_log(directory, epoch, config=SMALL)
            else:
                tasks = []
                for count, size in step:
                    value = b"%d" % len(model) + b"x" * size
                    tasks.append(log.append(client_batch(count, producer=(1, 0, sequence), value=value)))
                    model += [value] * count
                    sequence += count
                await asyncio.gather(*tasks)
            assert [record.value for record in log.replay()] == model
            assert log.high_watermark == log.log_end_offset == len(model)
            headers = [header for _, header in iter_headers(log.read(0, 1 << 20, at_least_one=True))]
            assert sum(header.record_count for header in headers) == len(model)
            if sequence:
                with pytest.raises(OutOfOrderSequence):
                    log.enqueue(client_batch(1, producer=(1, 0, sequence + 1)))
        await log.close()

    with tempfile.TemporaryDirectory() as directory:
        run(main(Path(directory) / "t-0"))


def test_a_topic_that_is_created_again_uses_no_file_name_again(tmp_path: Path) -> None:
    """Its leader epochs begin at 0 again. See ``muster.actors.wire.internal.fetch``: a place is a file name."""
    config = LogConfig(segment_bytes=300, cleanup_policy="compact", min_cleanable_dirty_ratio=0)

    async def names(topic_id: UUID) -> set[str]:
        log = open_log(tmp_path / "t-0", 0, config=config, topic_id=topic_id)
        written = set()
        for _ in range(6):
            await log.append(client_batch(2))
            written |= {path.name for path in segment_files(log.directory)}
        assert await log.clean() is not None
        written |= {path.name for path in segment_files(log.directory)}
        assert any(".cleaned." in name for name in written)
        await log.close()
        directories.remove(log.directory, topic_id)
        return written

    async def main() -> None:
        first, second = await names(uuid4()), await names(uuid4())
        assert len(first) == len(second) > 2
        assert not first & second

    run(main())
