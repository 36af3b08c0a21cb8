"""Retention and DeleteRecords: what is removed, what stays, and the responses to readers."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from pathlib import Path

import pytest

from muster.actors.log.config import LogConfig
from muster.actors.log.errors import NotLeader, OffsetOutOfRange, PolicyViolation
from muster.actors.log.partition import HIGH_WATERMARK, PartitionLog
from tests.log.steps import Clock, SteppingDisk, content, opened
from tests.log.support import NOW_MS, client_batch, run, segment_files

pytestmark = pytest.mark.usefixtures("either_storage")

HOUR_MS = 3_600_000
SMALL = LogConfig(segment_bytes=200, retention_ms=HOUR_MS)


async def filled(
    directory: Path, config: LogConfig = SMALL, *, batches: int = 6, clock: Clock | None = None
) -> PartitionLog:
    """Two records per batch, one batch per segment, a minute apart; the last segment is not closed."""
    log = opened(directory, 1, config, clock=clock)
    for number in range(batches):
        await log.append(client_batch(2, first_ms=NOW_MS + number * 60_000, value=b"%d" % number))
    return log


def offsets(log: PartitionLog) -> list[int]:
    return [offset for offset, _, _ in content(log)]


async def reopened(log: PartitionLog) -> PartitionLog:
    await log.close()
    return opened(log.directory, log.epoch + 1, log.config)


def test_segments_go_when_their_largest_timestamp_is_too_old(tmp_path: Path) -> None:
    async def main() -> None:
        clock = Clock(NOW_MS + HOUR_MS)
        log = await filled(tmp_path / "t-0", clock=clock)
        assert await log.apply_retention() == 0
        clock.now_ms += 2 * 60_000 + 1  # the third batch is exactly an hour old
        assert await log.apply_retention() == 2
        assert log.log_start_offset == 4
        assert offsets(log) == list(range(4, 12))
        assert len(segment_files(log.directory)) == 4
        with pytest.raises(OffsetOutOfRange):
            log.read(3, 1000, at_least_one=True)
        assert log.read(4, 1000, at_least_one=True)
        assert log.offset_for_time(0) == (4, NOW_MS + 2 * 60_000)
        assert (await log.append(client_batch(1))).log_start_offset == 4
        log = await reopened(log)
        assert (log.log_start_offset, offsets(log)) == (4, list(range(4, 13)))
        await log.close()

    run(main())


def test_the_last_segment_is_closed_and_goes_when_it_is_too_old(tmp_path: Path) -> None:
    async def main() -> None:
        clock = Clock(NOW_MS + 2 * HOUR_MS)
        log = await filled(tmp_path / "t-0", clock=clock)
        assert await log.apply_retention() == 6
        assert (log.log_start_offset, log.high_watermark, offsets(log)) == (12, 12, [])
        assert [path.stat().st_size for path in segment_files(log.directory)] == [0]
        assert await log.apply_retention() == 0
        assert (await log.append(client_batch(1, first_ms=NOW_MS + 2 * HOUR_MS))).base_offset == 12
        log = await reopened(log)
        log = await reopened(log)
        assert (log.log_start_offset, offsets(log), log.log_end_offset) == (12, [12], 13)
        await log.close()

    run(main())


def test_an_empty_log_keeps_its_end_over_any_number_of_activations(tmp_path: Path) -> None:
    async def main() -> None:
        log = await filled(tmp_path / "t-0", clock=Clock(NOW_MS + 2 * HOUR_MS))
        await log.apply_retention()
        for _ in range(3):
            log = await reopened(log)
            assert (log.log_start_offset, log.log_end_offset) == (12, 12)
        assert (await log.append(client_batch(1))).base_offset == 12
        await log.close()

    run(main())


def test_the_oldest_segments_go_when_the_log_is_too_large(tmp_path: Path) -> None:
    async def main() -> None:
        log = await filled(tmp_path / "t-0", LogConfig(segment_bytes=200, retention_ms=-1))
        size = segment_files(log.directory)[0].stat().st_size
        log.config = dataclasses.replace(log.config, retention_bytes=3 * size + 1)  # applied from now on
        assert await log.apply_retention() == 2
        log.config = dataclasses.replace(log.config, retention_bytes=3 * size)
        assert await log.apply_retention() == 1
        assert offsets(log) == list(range(6, 12))
        log.config = dataclasses.replace(log.config, retention_bytes=0)
        assert await log.apply_retention() == 3
        assert (log.log_start_offset, offsets(log)) == (12, [])
        await log.close()

    run(main())


@pytest.mark.parametrize(
    "config",
    [
        LogConfig(segment_bytes=200, retention_ms=-1),
        LogConfig(segment_bytes=200, retention_ms=1, retention_bytes=1, cleanup_policy="compact"),
        LogConfig(segment_bytes=200, retention_ms=-1, retention_bytes=-2),
        LogConfig(segment_bytes=200, retention_ms=1, retention_bytes=1, cleanup_policy=""),
    ],
)
def test_nothing_goes_by_age_or_size_where_that_is_not_wanted(tmp_path: Path, config: LogConfig) -> None:
    async def main() -> None:
        log = await filled(tmp_path / "t-0", config, clock=Clock(NOW_MS + 100 * HOUR_MS))
        assert await log.apply_retention() == 0
        assert len(offsets(log)) == 12
        await log.close()

    run(main())


def test_segments_are_rolled_by_age(tmp_path: Path) -> None:
    async def main() -> None:
        clock = Clock()
        config = LogConfig(segment_ms=60_000, retention_ms=-1)
        log = opened(tmp_path / "t-0", 1, config, clock=clock)
        for first_ms in (NOW_MS, NOW_MS + 60_000, NOW_MS + 60_001):  # the third is too far from the first
            await log.append(client_batch(1, first_ms=first_ms))
        assert len(segment_files(log.directory)) == 2
        clock.now_ms += 60_001  # without a write, the segment is closed all the same
        await log.apply_retention()
        assert [path.stat().st_size > 0 for path in segment_files(log.directory)] == [True, True, False]
        await log.apply_retention()
        assert len(segment_files(log.directory)) == 3
        assert offsets(log) == [0, 1, 2]
        await log.close()

    run(main())


def test_segments_are_rolled_earlier_by_a_part_of_the_jitter(tmp_path: Path) -> None:
    """Each segment by another part, which is the same after a restart."""

    async def main() -> None:
        config = LogConfig(segment_ms=60_000, segment_jitter_ms=90_000, retention_ms=-1)
        ages = [config.roll_ms(tmp_path / "t-0" / str(serial)) for serial in range(100)]
        assert 0 <= min(ages) < 20_000 < 40_000 < max(ages) <= 60_000
        log = opened(tmp_path / "t-0", 1, config, clock=Clock())
        [active] = segment_files(log.directory)
        first_ms = NOW_MS + config.roll_ms(active)
        for at_ms in (NOW_MS, first_ms, first_ms + 1):
            await log.append(client_batch(1, first_ms=at_ms))
        assert len(segment_files(log.directory)) == 2
        await log.close()

    run(main())


def test_a_roll_waits_for_the_appends_before_it_and_those_after_it_go_on(tmp_path: Path) -> None:
    async def main() -> None:
        clock = Clock()
        log = opened(tmp_path / "t-0", 1, LogConfig(segment_ms=1, retention_ms=-1), clock=clock)
        await log.append(client_batch(1))
        clock.now_ms += 10
        appends = [asyncio.ensure_future(log.append(client_batch(1))) for _ in range(5)]
        await asyncio.gather(log.apply_retention(), *appends, *(log.append(client_batch(1)) for _ in range(5)))
        assert offsets(log) == list(range(11))
        log = await reopened(log)
        assert offsets(log) == list(range(11))
        await log.close()

    run(main())


def test_records_are_deleted_up_to_any_offset_and_for_good(tmp_path: Path) -> None:
    async def main() -> None:
        log = await filled(tmp_path / "t-0", clock=Clock())
        assert await log.delete_records(5) == 5
        assert offsets(log) == list(range(5, 12))
        assert len(segment_files(log.directory)) == 4  # offset 5 is in the middle of a segment
        with pytest.raises(OffsetOutOfRange):
            log.read(4, 1000, at_least_one=True)
        assert log.offset_for_time(0) == (5, NOW_MS + 2 * 60_000 + 1)
        assert log.append_time_ms(4) is None
        assert await log.delete_records(3) == 5  # never lower
        log = await reopened(log)
        assert (log.log_start_offset, offsets(log)) == (5, list(range(5, 12)))
        assert await log.delete_records(HIGH_WATERMARK) == 12
        assert (offsets(log), log.offset_for_time(0), log.offset_of_max_timestamp()) == ([], None, None)
        log = await reopened(log)
        assert (log.log_start_offset, offsets(log), log.log_end_offset) == (12, [], 12)
        assert (await log.append(client_batch(1))).log_start_offset == 12
        await log.close()

    run(main())


def test_the_largest_timestamp_is_one_that_was_not_deleted(tmp_path: Path) -> None:
    async def main() -> None:
        log = opened(tmp_path / "t-0", 1, LogConfig())
        await log.append(client_batch(2, first_ms=NOW_MS + 5000, step_ms=-1000))
        await log.append(client_batch(1, first_ms=NOW_MS))
        assert log.offset_of_max_timestamp() == (0, NOW_MS + 5000)
        await log.delete_records(1)
        assert log.offset_of_max_timestamp() == (1, NOW_MS + 4000)
        await log.delete_records(2)
        assert log.offset_of_max_timestamp() == (2, NOW_MS)
        await log.close()

    run(main())


def test_what_cannot_be_deleted_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        log = await filled(tmp_path / "t-0")
        for offset in (-2, 13):
            with pytest.raises(OffsetOutOfRange):
                await log.delete_records(offset)
        log.config = dataclasses.replace(log.config, cleanup_policy="compact")
        with pytest.raises(PolicyViolation):
            await log.delete_records(1)
        log.config = dataclasses.replace(log.config, cleanup_policy="compact,delete")
        assert await log.delete_records(1) == 1
        log.config = dataclasses.replace(log.config, cleanup_policy="")
        assert await log.delete_records(2) == 2
        await log.close()
        with pytest.raises(NotLeader):
            await log.delete_records(2)
        with pytest.raises(NotLeader):
            await log.apply_retention()

    run(main())


def test_a_fetch_that_waits_hears_that_its_offset_is_gone(tmp_path: Path) -> None:
    async def main() -> None:
        log = await filled(tmp_path / "t-0")
        woken = asyncio.Event()
        with log.watching(woken.set):
            await log.delete_records(HIGH_WATERMARK)
        assert woken.is_set()
        await log.close()

    run(main())


def test_producers_that_write_no_more_are_forgotten(tmp_path: Path) -> None:
    async def main() -> None:
        clock = Clock()
        config = LogConfig(segment_bytes=150, retention_ms=-1, producer_id_expiration_ms=1000)
        log = opened(tmp_path / "t-0", 1, config, clock=clock)
        await log.append(client_batch(1, producer=(1, 0, 0)))
        await log.append(client_batch(1, producer=(2, 0, 0)))
        clock.now_ms += 1001
        await log.apply_retention()
        assert log._writer.producers.entry(1) is None
        assert log._writer.producers.entry(2) is not None  # in the last segment: it may be writing
        await log.close()

    run(main())


def test_files_that_no_reader_needs_are_gone_and_no_others(tmp_path: Path) -> None:
    async def main() -> None:
        disk = SteppingDisk()
        log = opened(tmp_path / "t-0", 1, SMALL, disk)
        for _ in range(5):
            await log.append(client_batch(2))
        await log.delete_records(7)
        await log.append(client_batch(1))
        await log.close()
        stems = {path.stem for path in segment_files(log.directory)}
        assert len(stems) == 3
        assert {path.stem for path in beside(log)} <= stems

    run(main())


def beside(log: PartitionLog) -> list[Path]:
    return [path for path in log.directory.iterdir() if path.suffix in (".appended", ".index", ".snapshot")]


class SlowIndexes(SteppingDisk):
    """Waits for ``may_go_on`` before an index is there."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go_on = threading.Event()

    def replace_unsynced(self, path: Path, content: bytes, temporary_suffix: str) -> None:
        if path.suffix == ".index":
            assert self.may_go_on.wait(60)
        super().replace_unsynced(path, content, temporary_suffix)


def test_no_index_is_left_of_a_segment_that_goes_while_it_is_written(tmp_path: Path) -> None:
    async def main() -> None:
        disk = SlowIndexes()
        log = opened(tmp_path / "t-0", 1, SMALL, disk)
        for _ in range(5):
            await log.append(client_batch(2))
        asyncio.get_running_loop().call_later(0.1, disk.may_go_on.set)
        await log.delete_records(7)
        await log.close()
        assert {path.stem for path in beside(log)} <= {path.stem for path in segment_files(log.directory)}

    run(main())


def test_a_time_in_the_future_that_keeps_records_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Microseconds in place of milliseconds, where they are allowed: the records are kept for 50,000 years."""

    async def main() -> None:
        unlimited = dataclasses.replace(SMALL, message_timestamp_after_max_ms=2**63 - 1)
        clock = Clock(NOW_MS)
        log = await filled(tmp_path / "t-0", unlimited, batches=2, clock=clock)
        await log.append(client_batch(2, first_ms=NOW_MS * 1_000))
        await log.append(client_batch(2, first_ms=NOW_MS * 1_000))
        await log.append(client_batch(2, first_ms=NOW_MS + HOUR_MS // 2))
        await log.apply_retention()
        assert caplog.messages == []  # it is not the next to expire
        clock.now_ms += 2 * HOUR_MS
        assert await log.apply_retention() == 2
        for _ in range(3):
            assert await log.apply_retention() == 0
        [said] = caplog.messages
        assert said.startswith(f"t-0: {segment_files(log.directory)[0].name} has a record with the timestamp")
        assert "19,656,249.9 days in the future, so retention.ms=3600000" in said
        await log.delete_records(6)
        assert await log.apply_retention() == 0
        assert len(caplog.messages) == 2
        log.config = dataclasses.replace(unlimited, retention_ms=-1)
        await log.delete_records(8)
        assert await log.apply_retention() == 0
        assert len(caplog.messages) == 2
        await log.close()

    run(main())
