"""Index and snapshot files: never used without their checksum, never required."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.actors.log.config import LogConfig
from muster.actors.log.errors import OutOfOrderSequence
from muster.actors.log.files import snapshot
from muster.actors.log.files.disk import DISK, Disk
from muster.actors.log.files.index import CACHE, Head, IndexCache, SparseIndex, read_entries
from muster.actors.log.files.segment import Segment
from muster.actors.log.partition import PartitionLog
from muster.actors.log.producers import ProducerEntry, WrittenBatch
from tests.log.support import NOW_MS, client_batch, open_log, run, segment_files

SMALL = LogConfig(segment_bytes=700, index_interval_bytes=150)
BATCHES = 14
Contents = tuple[object, ...]


async def filled(directory: Path) -> None:
    log = open_log(directory, 1, config=SMALL)
    for number in range(BATCHES):
        await log.append(client_batch(2, producer=(number % 2, 0, number // 2 * 2), first_ms=NOW_MS + number * 10))
    await log.close()


def contents(log: PartitionLog) -> Contents:
    """Everything that an index or a snapshot affects."""
    reads = tuple(log.read(offset, 300, at_least_one=True) for offset in range(log.high_watermark + 1))
    available = tuple(log.bytes_available(offset) for offset in range(log.high_watermark + 1))
    times = tuple(log.offset_for_time(NOW_MS + ms) for ms in range(0, 10 * BATCHES, 3))
    return log.high_watermark, reads, available, times, log.offset_of_max_timestamp(), producers(log)


def producers(log: PartitionLog) -> tuple[object, ...]:
    again = [client_batch(2, producer=(number % 2, 0, number // 2 * 2)) for number in range(BATCHES - 10, BATCHES)]
    known = tuple(log.enqueue(batch).result.base_offset for batch in again)
    with pytest.raises(OutOfOrderSequence):
        log.enqueue(client_batch(2, producer=(0, 0, 2)))
    return known


def variants(content: bytes, every: int = 1) -> Iterator[bytes]:
    """Yield the content truncated, and with one flipped bit, at regular positions."""
    for at in range(0, len(content), every):
        yield content[:at]
        yield content[:at] + bytes([content[at] ^ (1 << at % 8)]) + content[at + 1 :]
    yield content + b"\0"


@pytest.fixture
def original(tmp_path: Path) -> Path:
    directory = tmp_path / "original"
    run(filled(directory))
    return directory


def test_every_byte_of_an_index_counts(original: Path) -> None:
    for path in original.glob("*.index"):
        content = path.read_bytes()
        head = Head.read(path)
        assert head is not None
        assert read_entries(path, head) is not None
        for damaged in variants(content):
            path.write_bytes(damaged)
            found = Head.read(path)
            assert found is None or (found == head and read_entries(path, found) is None), damaged
        path.write_bytes(content)


def test_every_byte_of_a_snapshot_counts(original: Path) -> None:
    [path] = [path for path in original.glob("*.snapshot") if path.stem == segment_files(original)[-1].stem]
    assert set(snapshot.read(path, 2 * BATCHES) or {}) == {0, 1}
    assert snapshot.read(path, 2 * BATCHES - 2) is None, "it is of another offset"
    for damaged in variants(path.read_bytes()):
        path.write_bytes(damaged)
        assert snapshot.read(path, 2 * BATCHES) is None, damaged


@pytest.mark.parametrize("suffix", [".index", ".snapshot"])
def test_a_log_reads_the_same_whatever_lies_beside_its_segments(original: Path, tmp_path: Path, suffix: str) -> None:
    async def opened(directory: Path, epoch: int) -> Contents:
        log = open_log(directory, epoch, config=SMALL)
        found = contents(log)
        await log.close()
        return found

    files = sorted(original.glob(f"*{suffix}"))
    assert files

    async def main() -> None:
        expected = await opened(shutil.copytree(original, tmp_path / "whole"), 2)
        for number, file in enumerate(files):
            whole = file.read_bytes()
            for damaged in (*variants(whole, every=23), None):
                directory = shutil.copytree(original, tmp_path / "damaged")
                path = directory / file.name
                path.unlink() if damaged is None else path.write_bytes(damaged)
                assert await opened(directory, 2) == expected
                assert suffix == ".snapshot" or path.read_bytes() == whole, "it is made anew"
                if number == 0:
                    assert await opened(directory, 3) == expected
                shutil.rmtree(directory)

    run(main(), timeout_s=120)


def remove(directory: Path, pattern: str) -> None:
    for path in directory.glob(pattern):
        path.unlink()


def test_without_snapshot_without_indexes_and_without_both(original: Path) -> None:
    async def main() -> None:
        log = open_log(original, 2, config=SMALL)
        expected = contents(log)
        await log.close()
        for epoch, patterns in ((3, ["*.snapshot"]), (4, ["*.index"]), (5, ["*.snapshot", "*.index"])):
            for pattern in patterns:
                remove(original, pattern)
            log = open_log(original, epoch, config=SMALL)
            assert contents(log) == expected
            await log.close()

    run(main())


def test_a_closed_segment_is_not_read_when_its_log_is_opened(original: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Segment, "load")

    async def main() -> None:
        log = open_log(original, 2, config=SMALL)
        assert log.high_watermark == 2 * BATCHES
        await log.close()

    run(main())


def test_a_disk_that_is_full_costs_the_files_and_nothing_else(tmp_path: Path) -> None:
    class Full(Disk):
        def replace_unsynced(self, path: Path, content: bytes, temporary_suffix: str) -> None:
            raise OSError(28, "No space left on device")

    async def main() -> None:
        log = open_log(tmp_path / "t-0", 1, config=SMALL, disk=Full())
        for _ in range(BATCHES):
            await log.append(client_batch(2))
        assert log.read(3, 1, at_least_one=True)
        await log.close()
        assert not list((tmp_path / "t-0").glob("*.index*"))

    run(main())


def test_what_did_not_come_to_be_whole_is_removed(original: Path) -> None:
    left = [original / f"{segment_files(original)[0].stem}{suffix}.4711.tmp" for suffix in (".index", ".snapshot")]
    for path in left:
        path.write_bytes(b"MIDX")

    async def main() -> None:
        await open_log(original, 2, config=SMALL).close()

    run(main())
    assert not [path for path in left if path.exists()]


def test_a_snapshot_holds_what_the_headers_said(tmp_path: Path) -> None:
    entries = {
        -5: ProducerEntry(3, (WrittenBatch(0, 4, 100, 104, NOW_MS),), 104, NOW_MS),
        2**62: ProducerEntry(0, tuple(WrittenBatch(n, n, n, n, -1) for n in range(5)), 2**50, -1, 2**31 - 1, 2**40),
        2: ProducerEntry(7, (), 90, NOW_MS, 4),
    }
    segment = tmp_path / "00000000000000000000.1.0.log"
    snapshot.write(segment, 105, entries, DISK)
    assert snapshot.read(segment, 105) == entries


def test_indexes_of_closed_segments_take_bounded_memory() -> None:
    def index(entries: int) -> SparseIndex:
        made = SparseIndex()
        for number in range(entries):
            made.grow(number, number, 0, 1)
        return made

    cache = IndexCache(max_bytes=24 * 1000)
    for number in range(50):
        cache.get(Path(str(number)), lambda: index(100))
        assert cache.memory_bytes <= 24 * 1000
    held = [number for number in range(50) if cache.get(Path(str(number)), SparseIndex).memory_bytes]
    assert held == list(range(40, 50))
    cache.get(Path("large"), lambda: index(2000))
    assert cache.memory_bytes == 24 * 2000, "one that is larger is held alone"
    assert CACHE.memory_bytes <= 64 << 20
