"""Record batches: bytes of real clients in every codec, every truncation, and damage of all sorts."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Any

import cramjam
import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from muster.actors.log.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    LogError,
    MessageTooLarge,
    UnsupportedCompression,
)
from muster.actors.log.format import batch, compression
from muster.actors.log.format.batch import HEADER, HEADER_BYTES, check_client_batch, iter_headers, read_header
from muster.actors.log.format.records import build_batch, read_records
from tests.log.support import GZIP, LZ4, NONE, NOW_MS, SNAPPY, ZSTD, client_batch

LIMIT = 1 << 20
CODECS = [NONE, GZIP, SNAPPY, LZ4, ZSTD]


def changed(original: bytes, **fields: int) -> bytes:
    """Return the batch with other header fields and a matching CRC."""
    header = read_header(original)._replace(**fields)
    content = bytearray(original)
    HEADER.pack_into(content, 0, *header)
    batch.seal(content)
    return bytes(content)


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_aiokafka(codec: int) -> None:
    content = client_batch(100, codec=codec, value=b"some value " * 20)
    header = check_client_batch(content, LIMIT)
    assert (header.record_count, header.codec, header.size_bytes) == (100, codec, len(content))
    assert list(read_records(content, header)) == [
        (index, NOW_MS + index, b"key-%d" % index, b"some value " * 20, ((b"header", b"content"),))
        for index in range(100)
    ]


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_records_of_kafka_python(codec: int) -> None:
    builder = KafkaPythonBuilder(2, codec, False, 7, 1, 40, 1 << 20)
    for index in range(3):
        builder.append(index, NOW_MS, None, b"" if index else None, [])
    content = bytes(builder.build())
    header = check_client_batch(content, LIMIT)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (7, 1, 40, 42)
    assert [(record.key, record.value) for record in read_records(content, header)] == [
        (None, None),
        (None, b""),
        (None, b""),
    ]


def test_snappy_with_and_without_xerial_framing() -> None:
    raw = cramjam.snappy.compress_raw
    payload = b"payload " * 1000
    framed = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    for at in range(0, len(payload), 3000):
        block = bytes(raw(payload[at : at + 3000]))
        framed += struct.pack(">i", len(block)) + block
    assert compression.decompress(SNAPPY, bytes(raw(payload))) == payload
    assert compression.decompress(SNAPPY, framed) == payload
    for cut in (17, 19, 25, len(framed) - 1):
        with pytest.raises(CorruptMessage):
            compression.decompress(SNAPPY, framed[:cut])


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_payload_that_unpacks_to_too_much_is_refused(codec: int) -> None:
    value = bytes(1 << 20)
    packed = compression.compress(codec, value)
    assert compression.decompress(codec, packed, len(value)) == value
    with pytest.raises(CorruptMessage):
        compression.decompress(codec, packed, len(value) - 1)


@pytest.mark.parametrize("codec", CODECS)
def test_a_room_for_records_is_the_limit(codec: int) -> None:
    value = bytes(range(256)) * 100
    packed, room = memoryview(compression.compress(codec, value)), memoryview(bytearray(len(value) + 10))
    assert compression.decompress_into(room, codec, packed) == len(value)
    assert room == value + bytes(10)
    assert compression.decompress_into(room[: len(value)], codec, packed) == len(value)
    with pytest.raises(compression.DecompressedTooLarge):
        compression.decompress_into(room[: len(value) - 1], codec, packed)
    if codec != NONE:
        with pytest.raises(CorruptMessage):
            compression.decompress_into(room, codec, packed[:-9])
    with pytest.raises(UnsupportedCompression):
        compression.decompress_into(room, 5, packed)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", InvalidRecord),
        (client_batch(2) + client_batch(1), InvalidRecord),
        (changed(client_batch(2), record_count=3), InvalidRecord),
        (changed(client_batch(2), last_offset_delta=2), InvalidRecord),
        (changed(client_batch(2), record_count=0, last_offset_delta=-1), InvalidRecord),
        (changed(client_batch(2), attributes=0x20), InvalidRecord),
        (changed(client_batch(2), producer_id=5), InvalidRecord),
        (client_batch(2, transactional=True, producer=(-1, -1, -1)), InvalidRecord),
        (changed(client_batch(2), attributes=0x08), InvalidTimestamp),
        (changed(client_batch(2), attributes=0x05), UnsupportedCompression),
        (changed(client_batch(2), magic=1), InvalidRecord),
        (changed(client_batch(2), magic=3), CorruptMessage),
        (changed(client_batch(2), length=-1), CorruptMessage),
        (changed(client_batch(2), length=10), CorruptMessage),
        (client_batch(1, value=bytes(LIMIT)), MessageTooLarge),
    ],
)
def test_what_no_client_may_send(content: bytes, error: type[LogError]) -> None:
    with pytest.raises(error):
        check_client_batch(content, LIMIT)


def test_every_truncation_is_corrupt() -> None:
    content = client_batch(3)
    for cut in range(1, len(content)):
        with pytest.raises(CorruptMessage):
            check_client_batch(content[:cut], LIMIT)
        with pytest.raises(CorruptMessage):
            list(iter_headers(content[:cut]))


def test_every_flipped_byte_that_the_crc_covers_is_noticed() -> None:
    content = client_batch(3)
    for at in range(17, len(content)):
        damaged = bytearray(content)
        damaged[at] ^= 0x40
        with pytest.raises(CorruptMessage):
            check_client_batch(bytes(damaged), LIMIT)


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.data())
def test_damaged_records_raise_nothing_but_typed_errors(codec: int, data: st.DataObject) -> None:
    content = bytearray(client_batch(3, codec=codec))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(HEADER_BYTES, len(content) - 1))] = data.draw(st.integers(0, 255))
    header = read_header(content)
    with suppress(CorruptMessage):
        list(read_records(content, header))


def test_stamps_leave_the_crc_valid() -> None:
    content = bytearray(client_batch(3))
    batch.stamp(content, 1 << 40, 17)
    header = read_header(content)
    assert (header.base_offset, header.partition_leader_epoch, header.length) == (1 << 40, 17, len(content) - 12)
    assert batch.crc_matches(content, header)
    batch.stamp_log_append_time(content, 99)
    header = read_header(content)
    assert batch.crc_matches(content, header)
    assert {record.timestamp_ms for record in read_records(content, header)} == {99}


PAIRS = st.lists(st.tuples(st.none() | st.binary(max_size=200), st.none() | st.binary(max_size=300)), min_size=1)


@given(pairs=PAIRS, offset=st.integers(0, 1 << 50), codec=st.sampled_from(CODECS))
def test_a_batch_that_we_build_reads_the_same_here_and_in_aiokafka(pairs: list[Any], offset: int, codec: int) -> None:
    content = bytes(build_batch(pairs, NOW_MS, offset, 3, codec))
    header = check_client_batch(content, 1 << 30)
    assert header.codec == codec
    expected = [(offset + index, NOW_MS, key, value) for index, (key, value) in enumerate(pairs)]
    assert [record[:4] for record in read_records(content, header)] == expected
    theirs = DefaultRecordBatch(content)
    assert theirs.validate_crc()
    assert [(record.offset, record.timestamp, record.key, record.value) for record in theirs] == expected


def test_a_large_batch_that_we_build_in_every_codec() -> None:
    pairs: list[tuple[bytes | None, bytes | None]] = [(b"key-%d" % index, b"a value " * 50) for index in range(500)]
    plain = len(build_batch(pairs, NOW_MS, 0, 3))
    for codec in CODECS[1:]:
        content = bytes(build_batch(pairs, NOW_MS, 0, 3, codec))
        assert len(content) < plain // 4
        assert [record[2:4] for record in read_records(content, read_header(content))] == pairs
        assert [(record.key, record.value) for record in DefaultRecordBatch(content)] == pairs


def test_javas_client_reads_our_lz4_frames_and_snappy_blocks() -> None:
    """Its lz4 reader refuses dependent blocks (bit 5 of the frame's flags says that there are none)."""
    magic, flags = (compress := compression.compress)(LZ4, b"x" * 200_000)[:4], compress(LZ4, b"x" * 200_000)[4]
    assert (magic, flags >> 6, flags & 0x20) == (b"\x04\x22\x4d\x18", 1, 0x20)
    assert compress(SNAPPY, b"x" * 200_000).startswith(b"\x82SNAPPY\x00" + bytes((0, 0, 0, 1)) * 2)
