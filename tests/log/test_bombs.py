"""Batches of some kilobytes that decompress to a lot more, sent by many clients at once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from muster.actors.log.committer import acknowledged
from muster.actors.log.config import LogConfig
from muster.actors.log.errors import CorruptMessage, InvalidRecord, MessageTooLarge
from muster.actors.log.format import compression, recompression, records
from muster.actors.log.format.batch import MAX_BATCH_RECORDS, check_client_batch, read_header
from muster.actors.log.format.client_batch import ClientBatch, Rules
from muster.actors.log.format.compression import (
    GZIP,
    LZ4,
    MAX_RECORDS_BYTES,
    MAX_STORED_RECORDS_BYTES,
    SNAPPY,
    ZSTD,
)
from muster.actors.log.format.compression import NO_COMPRESSION as NONE
from muster.actors.log.format.recompression import recompressed
from muster.actors.log.format.records import build_batch, read_records
from muster.actors.log.transactions.aborted import AbortedRanges
from muster.actors.log.upkeep.compaction import Compactor, KeyMap
from tests.fuzz.batches import bomb, changed
from tests.log.support import NOW_MS, client_batch, open_log, run

BOMB_BYTES = 4 * MAX_RECORDS_BYTES
AT_ONCE = 8
MAX_MESSAGE_BYTES = 64 << 20
"""More than a bomb has: that of snappy is a twentieth of what it decompresses to."""
CONFIGS = {
    "plain": LogConfig(max_message_bytes=MAX_MESSAGE_BYTES),
    "compact": LogConfig(cleanup_policy="compact", max_message_bytes=MAX_MESSAGE_BYTES),
    "recompress": LogConfig(compression_type="uncompressed", max_message_bytes=MAX_MESSAGE_BYTES),
}


def reset_peak() -> int:
    """Resident bytes of this process, its peak from now on."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak_bytes()


def peak_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    raise AssertionError("no VmHWM")


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("use", CONFIGS)
def test_many_bombs_at_once_take_the_memory_of_one(tmp_path: Path, use: str, codec: int) -> None:
    content = bomb(codec, BOMB_BYTES)
    assert len(content) < BOMB_BYTES / 15

    async def main() -> None:
        log = open_log(tmp_path / "t-0", 1, config=CONFIGS[use])
        before_bytes = reset_peak()
        results = await asyncio.gather(*(log.append(content) for _ in range(AT_ONCE)), return_exceptions=True)
        grown_bytes = peak_bytes() - before_bytes
        assert [type(each) for each in results] == [MessageTooLarge] * AT_ONCE
        assert grown_bytes < 2.5 * MAX_RECORDS_BYTES
        assert (await log.append(client_batch(1))).base_offset == 0
        await log.close()

    run(main())


def test_a_batch_that_is_not_compressed_may_be_larger() -> None:
    """The limit is on what is decompressed; ``max.message.bytes`` is that of a batch."""
    value = bytes(MAX_RECORDS_BYTES + 1)
    batch = client_batch(value=value)
    ClientBatch(batch).check(Rules("t-0", 2 * MAX_RECORDS_BYTES, needs_keys=False))
    (record,) = read_records(batch, read_header(batch))
    assert record.value == value
    stored = bytes(recompressed(batch, read_header(batch), ZSTD, None))
    assert len(stored) < len(batch)
    (record,) = read_records(stored, read_header(stored))
    assert record.value == value


def test_records_that_would_be_too_many_compressed_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client's, whose codec is changed, and a coordinator's: they could not be read again."""
    monkeypatch.setattr(recompression, "_MAX_COMPRESSED_BYTES", 1_000)
    monkeypatch.setattr(records, "MAX_RECORDS_BYTES", 1_000)
    batch = client_batch(value=bytes(1_000))
    with pytest.raises(MessageTooLarge):
        recompressed(batch, read_header(batch), ZSTD, None)
    assert recompressed(batch, read_header(batch), NONE, None) == batch
    with pytest.raises(MessageTooLarge):
        build_batch([(b"k", bytes(1_000))], 0, 0, 0, ZSTD)
    assert build_batch([(b"k", bytes(1_000))], 0, 0, 0)


def test_what_a_coordinator_writes_is_stored_as_it_is_if_it_is_too_much_to_be_compressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MAX_RECORDS_BYTES", 1_000)

    async def write() -> None:
        log = open_log(tmp_path, 1, config=LogConfig(own_codec=ZSTD))
        for size, codec in ((900, ZSTD), (1_000, NONE)):
            written = log.enqueue_records([(b"k", bytes(size))], NOW_MS)
            await acknowledged(written.done)
            assert written.header.codec == codec
        await log.close()

    run(write())


def test_what_the_cleaner_makes_longer_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each record gets another distance to the base timestamp, of five bytes instead of one."""
    tombstones = [(b"%060d" % number, None) for number in range(1_000)]
    batch = bytes(build_batch(tombstones, 0, 0, 0, ZSTD))
    monkeypatch.setattr(compression, "MAX_RECORDS_BYTES", 70_000)
    ClientBatch(batch).check(Rules("t-0", MAX_MESSAGE_BYTES, needs_keys=True))
    keys = KeyMap(1 << 20)
    compactor = Compactor(keys, 0, 86_400_000, frozenset(), AbortedRanges([]))
    changed = compactor.compact(batch, read_header(batch), set(), is_last=True)
    assert changed is not None
    assert changed != batch
    assert len(list(read_records(changed, read_header(changed)))) == 1_000
    assert compactor.compact(changed, read_header(changed), set(), is_last=True) == changed


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_stored_batch_that_unpacks_to_too_much_is_refused(codec: int) -> None:
    """The batch is well-formed: without the limit, its record would be read."""
    batch = client_batch(1, value=bytes(MAX_STORED_RECORDS_BYTES), codec=codec)
    with pytest.raises(CorruptMessage):
        list(read_records(batch, read_header(batch)))


def test_the_number_of_records_in_a_batch_is_limited() -> None:
    """They are read one by one where a batch has to be looked into."""
    count = MAX_BATCH_RECORDS
    check_client_batch(changed(client_batch(1), record_count=count, last_offset_delta=count - 1), 1 << 20)
    with pytest.raises(InvalidRecord, match="1000001 records in one batch, the limit is 1000000"):
        check_client_batch(changed(client_batch(1), record_count=count + 1, last_offset_delta=count), 1 << 20)
