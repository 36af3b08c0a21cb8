"""Bytes before an offset: they add up for any batches and segments, and after any removal."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.actors.log.config import LogConfig
from muster.actors.log.cumulative_size import cumulative_sizes, measure
from muster.actors.log.errors import NotLeader
from muster.actors.log.format.batch import iter_headers
from muster.actors.log.partition import PartitionLog
from tests.log.support import TOPIC_ID, client_batch, open_log, run

pytestmark = pytest.mark.usefixtures("either_storage")

SMALL = LogConfig(segment_bytes=700, index_interval_bytes=150)


async def filled(directory: Path, batches: int = 20) -> PartitionLog:
    log = open_log(directory, 1, config=SMALL)
    for number in range(batches):
        await log.append(client_batch(1 + number % 4))
    return log


def by_reading(log: PartitionLog, offset: int) -> int:
    """Bytes of the batches from the log start whose last offset is before it."""
    everything = log.read(log.log_start_offset, 1 << 20, at_least_one=True)
    return sum(header.size_bytes for _, header in iter_headers(everything) if header.last_offset < offset)


def test_a_batch_counts_from_behind_its_last_offset_on(tmp_path: Path) -> None:
    async def main() -> None:
        log = await filled(tmp_path / "t-0")
        assert len(list(log.directory.glob("*.log"))) > 3
        for offset in range(log.high_watermark + 1):
            assert log.bytes_before(offset) == by_reading(log, offset)
        await log.close()

    run(main())


def test_outside_of_the_log_its_ends_count(tmp_path: Path) -> None:
    async def main() -> None:
        log = await filled(tmp_path / "t-0")
        whole = log.bytes_before(log.high_watermark)
        assert log.bytes_before(-5) == 0
        assert log.bytes_before(log.high_watermark + 1_000) == whole
        await log.delete_records(21)
        assert log.log_start_offset == 21
        assert log.bytes_before(0) == log.bytes_before(21)
        left = log.bytes_before(log.high_watermark) - log.bytes_before(21)
        assert left == by_reading(log, log.high_watermark)
        await log.close()

    run(main())


def test_the_report_of_a_partition_is_of_one_moment(tmp_path: Path) -> None:
    async def main() -> None:
        log = await filled(tmp_path / "t-0")
        await log.delete_records(4)
        found = measure(log, (7, 1_000))
        assert (found.topic_id, found.log_start_offset, found.end_offset) == (TOPIC_ID, 4, log.high_watermark)
        assert found.bytes_before == {offset: log.bytes_before(offset) for offset in (4, 7, 1_000, log.high_watermark)}
        await log.close()

    run(main())


def test_a_partition_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    async def main() -> None:
        log = await filled(tmp_path / "t-0", batches=1)

        async def log_of(topic: str, partition: int) -> PartitionLog:
            if topic == "gone":
                raise NotLeader("it is not here")
            return log

        found = await cumulative_sizes([(("gone", 0), (1,)), (("t", 0), ())], log_of)
        assert found.keys() == {("t", 0)}
        await log.close()

    run(main())
