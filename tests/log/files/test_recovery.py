"""Recovery after a crash, a bad disk, or another topic of the same name."""

from __future__ import annotations

import shutil
from pathlib import Path
from uuid import UUID

import pytest

from muster.actors.log.config import LogConfig
from muster.actors.log.errors import OutOfOrderSequence, StorageError
from tests.log.support import TOPIC_ID, client_batch, lose_what_is_not_synced, open_log, run, segment_files

pytestmark = pytest.mark.usefixtures("either_storage")

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=200)


def idempotent(sequence: int) -> bytes:
    return client_batch(2, producer=(9, 0, sequence), value=b"")


async def write(directory: Path, batches: list[bytes], config: LogConfig = SMALL) -> None:
    log = open_log(directory, 1, config=config)
    for content in batches:
        await log.append(content)
    await log.close()


async def reopened(directory: Path, epoch: int = 2) -> tuple[list[int], int]:
    """(offsets of all records, base offset of one more append)."""
    log = open_log(directory, epoch, config=SMALL)
    offsets = [record.offset for record in log.replay()]
    assert log.high_watermark == len(offsets)
    base_offset = (await log.append(client_batch(1))).base_offset
    await log.close()
    return offsets, base_offset


@pytest.mark.in_directory
def test_a_tail_torn_at_any_byte_ends_the_log_at_the_last_whole_batch(tmp_path: Path) -> None:
    async def main() -> None:
        original = tmp_path / "original"
        await write(original, [idempotent(0), idempotent(2), idempotent(4)])
        [segment] = segment_files(original)
        content = segment.read_bytes()
        last = len(content) // 3 * 2
        for cut in range(last, len(content)):
            directory = tmp_path / f"cut-{cut}"
            shutil.copytree(original, directory)
            (directory / segment.name).write_bytes(content[:cut])
            lose_what_is_not_synced(directory)
            log = open_log(directory, 2, config=SMALL)
            assert [record.offset for record in log.replay()] == [0, 1, 2, 3]
            assert (directory / segment.name).stat().st_size == last
            result = await log.append(idempotent(4))  # the producer repeats what was never acknowledged
            assert (result.base_offset, result.duplicate) == (4, False)
            await log.close()
            if cut % 10 == 0:
                assert await reopened(directory, 3) == ([0, 1, 2, 3, 4, 5], 6)
            shutil.rmtree(directory)

    run(main(), timeout_s=60)


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


@pytest.mark.in_directory
def test_a_corrupt_batch_behind_the_recovery_point_ends_the_log_there(tmp_path: Path) -> None:
    async def main() -> None:
        directory = tmp_path / "t-0"
        await write(directory, [client_batch(2)] * 3)
        lose_what_is_not_synced(directory)
        segment = segment_files(directory)[0]
        flip(segment, segment.stat().st_size // 3 + 80)
        assert await reopened(directory, 10) == ([0, 1], 2)
        assert await reopened(directory, 11) == ([0, 1, 2], 3)

    run(main())


def test_zeros_behind_the_tail_are_cut(tmp_path: Path) -> None:
    async def main() -> None:
        directory = tmp_path / "t-0"
        await write(directory, [client_batch(2)])
        with segment_files(directory)[0].open("ab") as file:
            file.write(bytes(4096))
        assert await reopened(directory) == ([0, 1], 2)

    run(main())


@pytest.mark.in_directory
def test_segments_without_a_manifest_are_not_taken_for_an_empty_log(tmp_path: Path) -> None:
    async def main() -> None:
        directory = tmp_path / "t-0"
        await write(directory, [client_batch(3)])
        manifest = directory / "segments-0000000001"
        for content in (b"garbage", b"", b"0\nno-segment 5"):
            manifest.write_bytes(content)
            with pytest.raises(StorageError, match="segments-0000000001"):
                open_log(directory, 2)
            (directory / "leader-epoch-0000000002").unlink()
        manifest.unlink()
        with pytest.raises(StorageError, match="manifest"):
            open_log(directory, 2)

    run(main())


def test_offsets_and_producers_are_there_after_reopening(tmp_path: Path) -> None:
    async def main() -> None:
        directory = tmp_path / "t-0"
        await write(directory, [idempotent(2 * number) for number in range(12)])
        log = open_log(directory, 2, config=SMALL)
        assert log.log_end_offset == 24
        for number in range(7, 12):
            result = await log.append(idempotent(2 * number))
            assert (result.base_offset, result.duplicate) == (2 * number, True)
        for sequence in (0, 26):
            with pytest.raises(OutOfOrderSequence):
                log.enqueue(idempotent(sequence))
        assert (await log.append(idempotent(24))).base_offset == 24
        await log.close()

    run(main())


@pytest.mark.in_directory
def test_activations_that_write_nothing_leave_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        directory = tmp_path / "t-0"
        await write(directory, [client_batch(2)])
        for epoch in range(2, 8):
            await open_log(directory, epoch).close()
        assert sorted(path.name for path in directory.iterdir()) == [
            "00000000000000000000.1.0.appended",
            "00000000000000000000.1.0.index",
            "00000000000000000000.1.0.log",
            "00000000000000000000.1.0.snapshot",
            "00000000000000000002.7.0.log",
            "leader-epoch-0000000007",
            "partition.metadata",
            "segments-0000000007",
        ]

    run(main())


@pytest.mark.in_directory
def test_the_directory_of_another_topic_is_set_aside(tmp_path: Path) -> None:
    name = "t" * 249 + "-99999"

    async def main() -> None:
        await write(tmp_path / name, [client_batch(2)])
        log = open_log(tmp_path / name, 1, topic_id=UUID(int=5))
        assert log.log_end_offset == 0
        await log.close()

    run(main())
    [aside] = [path for path in tmp_path.iterdir() if path.name != name]
    assert aside.name.endswith(f".{TOPIC_ID}-delete")
    assert len(aside.name) == 255
    assert segment_files(aside)[0].stat().st_size > 0


@pytest.mark.in_directory
def test_a_directory_that_cannot_be_made_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError):
        open_log(tmp_path / "file" / "t-0", 1)


@pytest.mark.in_directory
def test_metadata_that_make_no_sense_are_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / "partition.metadata").write_text("version: 0\n")
    with pytest.raises(StorageError):
        open_log(tmp_path / "t-0", 1)
