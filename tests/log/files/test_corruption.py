"""Damage that no crash explains: detected, reported, set aside; sound data continues to be served."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from muster.actors.log.config import LogConfig
from muster.actors.log.errors import CorruptSegment, StorageError
from muster.actors.log.partition import PartitionLog
from tests.log.support import client_batch, lose_what_is_not_synced, open_log, run, segment_files

SMALL = LogConfig(segment_bytes=300, index_interval_bytes=100)
"""Two batches per segment."""


async def filled(directory: Path, batches: int = 7, *, epoch: int = 1) -> PartitionLog:
    """Two records per batch; three closed segments of offsets 0-3, 4-7, 8-11 and an active fourth one."""
    log = open_log(directory, epoch, config=SMALL)
    for number in range(batches):
        await log.append(client_batch(2, producer=(7, 0, 2 * number), value=b"%d" % number))
    assert len(segment_files(directory)) == -(-batches // 2)
    return log


def damage(segment: Path, at: int | None = None) -> None:
    """Flip one bit, by default in the middle of the file."""
    content = bytearray(segment.read_bytes())
    content[len(content) // 2 if at is None else at] ^= 1
    segment.write_bytes(content)


def served(log: PartitionLog) -> dict[int, bool]:
    """By offset, whether it is readable."""
    responses = {}
    for offset in range(log.log_start_offset, log.high_watermark):
        try:
            responses[offset] = bool(log.read(offset, 1, at_least_one=True))
        except StorageError:
            responses[offset] = False
    return responses


def without(*missing: range, end: int = 14) -> dict[int, bool]:
    return {offset: not any(offset in lost for lost in missing) for offset in range(end)}


@pytest.mark.parametrize("where", ["header", "records", "hole"])
def test_a_closed_segment_that_a_read_finds_corrupt(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    async def main() -> None:
        directory = tmp_path / "t-0"
        await (await filled(directory)).close()
        segment = segment_files(directory)[1]
        content = segment.read_bytes()
        at = {"header": len(content) // 2 + 16, "records": len(content) - 70, "hole": 20}[where]
        hole = bytes(100) if where == "hole" else bytes([content[at] ^ 1])
        corrupt = content[:at] + hole + content[at + len(hole) :]
        segment.write_bytes(corrupt)
        if where == "hole":
            lose_what_is_not_synced(directory)
        log = open_log(directory, 2, config=SMALL)
        assert served(log) == without(range(4, 8))
        assert log.read(2, 10_000, at_least_one=True) == segment_files(directory)[0].read_bytes()[-len(content) // 2 :]
        assert (await log.append(client_batch(1, producer=(7, 0, 14)))).base_offset == 14
        with pytest.raises(CorruptSegment) as refused:
            list(log.replay())
        assert refused.value.code is ErrorCode.kafka_storage_error
        assert [record.message.count(segment.name) > 0 for record in caplog.records if record.levelno >= 40] == [True]
        aside = directory / f"{segment.name}.corrupt"
        assert not segment.exists()
        assert aside.read_bytes() == corrupt
        await log.close()

        again = open_log(directory, 3, config=SMALL)
        assert served(again) == without(range(4, 8), end=15)
        await again.close()

        aside.rename(directory / f"{segment.name}.lost")  # the operator gives it up
        accepted = open_log(directory, 4, config=SMALL)
        assert set(served(accepted).values()) == {True}
        assert accepted.read(5, 1, at_least_one=True) == accepted.read(8, 1, at_least_one=True)
        assert [record.offset for record in accepted.replay()] == [0, 1, 2, 3, *range(8, 15)]
        await accepted.close()

    caplog.set_level(logging.ERROR)
    run(main())


@pytest.mark.parametrize("how", ["shorter", "garbage at the end", "missing"])
def test_a_closed_segment_that_is_found_corrupt_at_start(tmp_path: Path, how: str) -> None:
    async def main() -> None:
        directory = tmp_path / "t-0"
        await (await filled(directory)).close()
        segment = segment_files(directory)[1]
        content = segment.read_bytes()
        if how == "missing":
            segment.unlink()
        else:
            segment.write_bytes(content[:-1] if how == "shorter" else content[:-5] + bytes(5))
        log = open_log(directory, 2, config=SMALL)
        assert (directory / f"{segment.name}.corrupt").exists() == (how != "missing")
        assert served(log) == without(range(4, 8))
        assert (await log.append(client_batch(1, producer=(7, 0, 14)))).base_offset == 14
        again = await log.append(client_batch(1, producer=(7, 0, 14)))
        assert (again.base_offset, again.duplicate) == (14, True)
        await log.close()

    run(main())


@pytest.mark.parametrize("keeps_index", [True, False])
def test_a_closed_segment_is_read_whole_only_without_its_index(tmp_path: Path, keeps_index: bool) -> None:
    async def main() -> None:
        directory = tmp_path / "t-0"
        log = open_log(directory, 1, config=LogConfig(segment_bytes=1000))
        for _ in range(12):
            await log.append(client_batch(1))
        await log.close()
        segment = segment_files(directory)[0]
        damage(segment)
        if not keeps_index:
            lose_what_is_not_synced(directory)
        await open_log(directory, 2).close()
        assert segment.exists() == keeps_index

    run(main())


def test_a_damaged_tail_takes_no_writes_until_it_is_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A writer was killed; what it had acknowledged is missing."""

    async def main() -> None:
        directory = tmp_path / "t-0"
        await filled(directory)
        segment = segment_files(directory)[-1]
        whole = segment.read_bytes()
        damage(segment)
        aside = directory / f"{segment.name}.corrupt"
        for epoch in (2, 3):
            log = open_log(directory, epoch, config=SMALL)
            assert aside.exists()
            assert served(log) == without(range(12, 14))
            with pytest.raises(StorageError, match="takes no writes"):
                await log.append(client_batch(1))
            with pytest.raises(StorageError):
                log.read(15, 1, at_least_one=True)  # not OFFSET_OUT_OF_RANGE, on which a consumer would reset
            with pytest.raises(StorageError):
                list(log.replay())
            await log.close()
        aside.unlink()
        segment.write_bytes(whole)
        log = open_log(directory, 4, config=SMALL)
        assert served(log) == without()
        assert (await log.append(client_batch(1, producer=(7, 0, 14)))).base_offset == 14
        await log.close()

    caplog.set_level(logging.ERROR)
    run(main())
    assert sum("takes no writes" in record.message for record in caplog.records) == 2


def test_a_damaged_tail_whose_loss_is_accepted(tmp_path: Path) -> None:
    async def main() -> None:
        directory = tmp_path / "t-0"
        await filled(directory)
        segment = segment_files(directory)[-1]
        damage(segment)
        await open_log(directory, 2, config=SMALL).close()
        (directory / f"{segment.name}.corrupt").rename(directory / f"{segment.name}.lost")
        log = open_log(directory, 3, config=SMALL)
        assert (await log.append(client_batch(1, producer=(7, 0, 12)))).base_offset == 14, "no offset is used twice"
        assert log.read(12, 1, at_least_one=True) == log.read(14, 1, at_least_one=True)
        await log.close()

    run(main())


def test_the_segment_that_is_written_to_is_found_corrupt(tmp_path: Path) -> None:
    async def main() -> None:
        directory = tmp_path / "t-0"
        log = await filled(directory)
        damage(segment_files(directory)[-1])
        assert served(log) == without(range(12, 14))
        with pytest.raises(StorageError, match="takes no writes"):
            log.enqueue(client_batch(1))
        await log.close()
        again = open_log(directory, 2, config=SMALL)
        assert served(again) == without(range(12, 14))
        await again.close()

    run(main())


def test_a_fenced_reader_renames_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        directory = tmp_path / "t-0"
        old = await filled(directory)
        new = open_log(directory, 2, config=SMALL)
        segment = segment_files(directory)[1]
        whole = segment.read_bytes()
        damage(segment, 80)
        with pytest.raises(StorageError):
            old.read(4, 1, at_least_one=True)
        assert segment.exists()
        segment.write_bytes(whole)
        assert served(new) == without()
        await old.close()
        await new.close()

    run(main())
