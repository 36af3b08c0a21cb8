"""compression.type: a client's batch is stored in the log's codec, and is otherwise unchanged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from muster.actors.log.config import LogConfig
from muster.actors.log.errors import InvalidRecord, MessageTooLarge, OutOfOrderSequence, RecordListTooLarge
from muster.actors.log.format.batch import HEADER_BYTES, BatchHeader, crc_matches, read_header, seal
from muster.actors.log.format.compression import CODEC_OF
from muster.actors.log.format.records import Record, read_records
from muster.actors.log.partition import PartitionLog
from tests.log.support import GZIP, LZ4, NONE, NOW_MS, SNAPPY, ZSTD, client_batch, open_log, run

pytestmark = pytest.mark.usefixtures("either_storage")

SOURCES = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
PRODUCER = (4711, 3, 0)
LONG = b"the same again " * 100


def stored(log: PartitionLog, offset: int = 0) -> tuple[BatchHeader, list[Record]]:
    """Return the only batch at that offset, with its CRC checked."""
    batch = log.read(offset, 1, at_least_one=True)
    header = read_header(batch)
    assert len(batch) == header.size_bytes
    assert crc_matches(batch, header)
    return header, list(read_records(batch, header))


def without_codec(header: BatchHeader) -> BatchHeader:
    return header._replace(attributes=header.attributes & ~7, length=0, crc=0)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("wanted", CODEC_OF)
def test_a_batch_is_the_same_but_for_its_codec(tmp_path: Path, source: str, wanted: str) -> None:
    async def main() -> None:
        log = open_log(tmp_path / "t-0", 5, config=LogConfig(compression_type=wanted))
        await log.append(client_batch(3))
        sent = client_batch(9, codec=SOURCES[source], producer=PRODUCER, value=LONG)
        assert (await log.append(sent)).base_offset == 3
        header, records = stored(log, 3)
        assert header.codec == CODEC_OF[wanted]
        before = read_header(sent)._replace(base_offset=3, partition_leader_epoch=5)
        assert without_codec(header) == without_codec(before)
        assert records == list(read_records(sent, before))
        if header.codec == SOURCES[source]:
            assert log.read(3, 1, at_least_one=True)[HEADER_BYTES:] == sent[HEADER_BYTES:]
        await log.close()

    run(main())


def test_idempotence_and_append_times_go_on(tmp_path: Path) -> None:
    async def main() -> None:
        config = LogConfig(compression_type="zstd", message_timestamp_type="LogAppendTime")
        log = open_log(tmp_path / "t-0", 1, config=config)
        sent = client_batch(2, codec=GZIP, producer=PRODUCER, first_ms=5)
        first = await log.append(sent)
        again = await log.append(sent)
        assert (again.duplicate, again.base_offset, again.log_append_time_ms) == (True, 0, NOW_MS)
        assert (first.log_append_time_ms, log.high_watermark) == (NOW_MS, 2)
        header, records = stored(log)
        assert (header.codec, header.has_log_append_time) == (ZSTD, True)
        assert {record.timestamp_ms for record in records} == {NOW_MS}
        with pytest.raises(OutOfOrderSequence):
            await log.append(client_batch(1, producer=(4711, 3, 7)))
        await log.close()
        reopened = open_log(tmp_path / "t-0", 2, config=config)
        assert (await reopened.append(sent)).duplicate
        await reopened.close()

    run(main())


def test_what_is_too_large_in_the_logs_codec_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        config = LogConfig(compression_type="uncompressed", max_message_bytes=2_000)
        log = open_log(tmp_path / "t-0", 1, config=config)
        sent = client_batch(9, codec=GZIP, value=LONG, producer=PRODUCER)
        assert len(sent) < 2_000
        with pytest.raises(MessageTooLarge, match=r"with compression\.type=uncompressed"):
            await log.append(sent)
        log.config = replace(config, max_message_bytes=1 << 20, segment_bytes=2_000)
        with pytest.raises(RecordListTooLarge):
            await log.append(sent)
        log.config = replace(config, compression_type="producer")
        assert (await log.append(sent)).base_offset == 0  # the producer's sequence did not change
        await log.close()

    run(main())


def test_what_cannot_be_decompressed_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        log = open_log(tmp_path / "t-0", 1, config=LogConfig(compression_type="zstd"))
        broken = bytearray(client_batch(3, codec=GZIP))
        broken[HEADER_BYTES:] = b"x" * (len(broken) - HEADER_BYTES)
        seal(broken)
        with pytest.raises(InvalidRecord):
            await log.append(bytes(broken))
        assert log.high_watermark == 0
        await log.close()

    run(main())


@pytest.mark.parametrize(("wanted", "fast", "small"), [("gzip", 1, 9), ("lz4", 9, 12), ("zstd", -100, 19)])
def test_a_batch_is_as_small_as_its_level_makes_it(tmp_path: Path, wanted: str, fast: int, small: int) -> None:
    """With lz4, 9 is the fast compressor, as in Kafka."""

    async def main() -> None:
        sizes = []
        for level in (fast, small):
            config = LogConfig(compression_type=wanted).override({f"compression.{wanted}.level": str(level)})
            log = open_log(tmp_path / f"t-{level}", 1, config=config)
            await log.append(client_batch(50, value=LONG))
            header, records = stored(log)
            sizes.append(header.size_bytes)
            assert len(records) == 50
            await log.close()
        assert sizes[0] > sizes[1]

    run(main())
