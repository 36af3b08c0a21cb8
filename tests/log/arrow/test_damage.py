"""Damaged batches, also with the right CRC: CorruptMessage, or what ``read_records`` makes of them."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.actors.log.errors import CorruptMessage, LogError, UnsupportedCompression
from muster.actors.log.format.arrow import fields, reading, starts
from muster.actors.log.format.arrow.reading import read_columns
from muster.actors.log.format.arrow.schema import SCHEMA
from muster.actors.log.format.batch import HAS_LOG_APPEND_TIME, HEADER_BYTES, read_header
from muster.actors.log.format.compression import CODECS, LZ4, compress
from tests.log.arrow.batches import (
    ALL,
    NOW_MS,
    Read,
    Row,
    batch_of,
    columns_as_rows,
    payload_of,
    resealed,
    rows_of,
    table_of,
    varint,
)

SOME = [
    Row(0, 0, b"key", b"value", ((b"name", b"content"), (b"", None))),
    Row(1, 70, None, b"x" * 70),
    Row(4, -1, b"", None),
    Row(5, 1 << 41, b"k" * 64, b"", ((b"a", b""),) * 3),
]
PLAIN = [row._replace(headers=()) for row in SOME]
WIDE, NARROW = 1, 1_000_000
"""Batches, headers and sections that numpy follows in step, or that a loop does."""


def expected(batches: list[bytes]) -> list[Read] | None:
    """Return the rows of batches that may be damaged; None if they are unreadable."""
    try:
        return rows_of(batches)
    except LogError:
        return None


def hold(batches: list[bytes]) -> bool:
    """Check that the batches are refused, or are read as ``read_records`` does. Return whether they are read."""
    content, wanted = b"".join(batches), expected(batches)
    try:
        table, _ = table_of(content, *ALL)
    except CorruptMessage:
        return False
    except UnsupportedCompression:
        assert wanted is None
        return False
    assert wanted is not None, "damage is read"
    assert columns_as_rows(table) == wanted
    return True


@pytest.fixture(params=[WIDE, NARROW], ids=["wide", "narrow"])
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fields, "_WIDE", request.param)
    monkeypatch.setattr(starts, "_WIDE", request.param)


@pytest.mark.usefixtures("width")
@pytest.mark.parametrize("change", [0x01, 0x02, 0x40, 0x80, 0xFF, 0x7F])
@pytest.mark.parametrize("some", [SOME, PLAIN], ids=["headers", "plain"])
def test_every_byte_of_the_records(some: list[Row], change: int) -> None:
    records = payload_of(some)
    neighbour = batch_of(6, [Row(0, 0, b"a", b"b")])
    read = 0
    for at in range(len(records)):
        damaged = bytearray(records)
        damaged[at] ^= change
        read += hold([batch_of(0, SOME, payload=bytes(damaged)), neighbour])
    assert 0 < read < len(records)  # contents are any bytes, sizes are not


@pytest.mark.usefixtures("width")
@pytest.mark.parametrize("some", [SOME, PLAIN], ids=["headers", "plain"])
def test_every_cut_and_every_insertion(some: list[Row]) -> None:
    records = payload_of(some)
    for at in range(len(records)):
        for damaged in (records[:at], records[:at] + records[at + 1 :], records[:at] + b"\0" + records[at:]):
            hold([batch_of(0, SOME, payload=damaged)])
            assert not hold([batch_of(0, SOME, payload=damaged), batch_of(9, [], count=1, last_offset_delta=0)])


def damage(draw: st.DrawFn, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(changed)))
        what = draw(st.sampled_from(["flip", "cut", "insert", "copy"]))
        if what == "flip" and at < len(changed):
            changed[at] = draw(st.integers(0, 255))
        elif what == "cut":
            del changed[at : at + draw(st.integers(1, 9))]
        elif what == "insert":
            changed[at:at] = draw(st.binary(min_size=1, max_size=9) | st.integers(-70, 1 << 66).map(varint))
        else:
            changed[at:at] = changed[draw(st.integers(0, at)) : at]
    return bytes(changed)


@st.composite
def damaged_records(draw: st.DrawFn) -> list[bytes]:
    """Return batches, one of which has damaged records."""
    records = damage(draw, payload_of(draw(st.sampled_from([SOME, PLAIN]))))
    codec, neighbours = (
        draw(st.sampled_from(CODECS)),
        [batch_of(6 + at, SOME[:1]) for at in range(draw(st.integers(0, 20)))],
    )
    return [batch_of(0, SOME, codec=codec, payload=records), *neighbours]


@settings(max_examples=500)
@given(batches=damaged_records())
def test_damaged_records(batches: list[bytes]) -> None:
    hold(batches)


@st.composite
def damaged_batches(draw: st.DrawFn) -> bytes:
    content = batch_of(0, SOME, codec=draw(st.sampled_from(CODECS)))
    changed = damage(draw, content)
    return resealed(changed) if len(changed) >= HEADER_BYTES and draw(st.integers(0, 3)) else changed


@settings(max_examples=500)
@given(damaged=damaged_batches())
def test_damaged_batches(damaged: bytes) -> None:
    """With any header: read as ``read_records`` does, or refused, or taken for a batch that is cut."""
    try:
        table, next_offset = table_of(damaged, *ALL)
    except (CorruptMessage, UnsupportedCompression):
        return
    whole = whole_batches(damaged)
    assert next_offset == (read_header(whole[-1]).next_offset if whole else 0)
    assert columns_as_rows(table) == expected([batch for batch in whole if not read_header(batch).is_control])


def whole_batches(content: bytes) -> list[bytes]:
    """Return the batches that are not cut. There may be two: a part of the bytes may have been copied."""
    found = []
    while len(content) >= HEADER_BYTES and (size := read_header(content).size_bytes) <= len(content):
        found.append(content[:size])
        content = content[size:]
    return found


@pytest.mark.parametrize("codec", CODECS)
def test_every_flipped_bit_that_the_crc_covers(codec: int) -> None:
    content = batch_of(0, SOME, codec=codec)
    for at in range(17, len(content)):
        damaged = bytearray(content)
        damaged[at] ^= 0x10
        with pytest.raises(CorruptMessage, match="offset 0 does not match its CRC"):
            read_columns(damaged, "t", 0, *ALL)


def test_damage_outside_of_the_range_and_in_markers_is_noticed() -> None:
    """The last offset, by which a batch would be skipped, may be what is damaged."""
    content = bytearray(batch_of(0, SOME) + batch_of(6, SOME))
    content[30] ^= 1
    with pytest.raises(CorruptMessage):
        read_columns(content, "t", 0, 6, 12)


FIRST = payload_of(SOME[:1])
NO_LOG_HAS = {
    "offsets that descend": payload_of([Row(1, 0, None, None), Row(0, 0, None, None)]),
    "an offset twice": payload_of([Row(1, 0, None, None), Row(1, 0, None, None)]),
    "an offset before the batch": payload_of([Row(-1, 0, None, None), Row(0, 0, None, None)]),
    "an offset after the batch": payload_of([Row(0, 0, None, None), Row(2, 0, None, None)]),
    "a timestamp of 65 bits": FIRST + payload_of([Row(1, (1 << 63) - 1, None, None)]),
    "a timestamp of 70 bits": FIRST + b"\x1e\0" + b"\x80" * 9 + b"\x7e\x02\x01\x01\0",
    "a null name": FIRST + b"\x10\0\0\x02\x01\x01\x02\x01\x01",
    "a length of six bytes": FIRST + b"\x8c\x80\x80\x80\x80\0\0\0\x02\x01\x01\0",
}
"""Two records that ``read_records`` accepts."""


@pytest.mark.usefixtures("width")
@pytest.mark.parametrize("what", NO_LOG_HAS)
def test_records_that_no_log_has(what: str) -> None:
    batch = batch_of(0, SOME, payload=NO_LOG_HAS[what], count=2, last_offset_delta=1)
    assert expected([batch]) is not None
    with pytest.raises(CorruptMessage):
        table_of(batch, *ALL)


@pytest.mark.parametrize("size", [-2, -1, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 34) - 1, -(1 << 34)])
@pytest.mark.parametrize("field", range(8))
@pytest.mark.usefixtures("width")
def test_sizes_of_any_field(field: int, size: int) -> None:
    """Length, timestamp, offset, key, value, number of headers, name, content."""
    parts = [
        b"",
        b"\0" + varint(0),
        varint(0),
        varint(1),
        b"k" + varint(1),
        b"v" + varint(1),
        varint(1),
        b"n" + varint(1),
    ]
    if field:
        parts[field] = parts[field][:-1] + varint(size)
    body = b"".join(parts) + b"c"
    hold([batch_of(0, SOME[:1], payload=(varint(len(body)) if field else varint(size)) + body)])
    hold([batch_of(0, SOME[:1]), batch_of(1, SOME[:1], payload=varint(len(body)) + body), batch_of(2, SOME[:1])])


@pytest.mark.parametrize("count", [-(1 << 31), -1, 0, 1, 3, 5, 1_000_000, (1 << 31) - 1])
@pytest.mark.parametrize("codec", CODECS)
def test_a_wrong_number_of_records(codec: int, count: int) -> None:
    with pytest.raises(CorruptMessage):
        table_of(batch_of(0, SOME, codec=codec, count=count), *ALL)


@pytest.mark.parametrize(
    ("base_offset", "next_base_offset"), [(-1, 5), (0, 5), (1 << 40, 0), ((1 << 63) - 6, 0), ((1 << 63) - 1, 0)]
)
def test_offsets_of_batches(base_offset: int, next_base_offset: int) -> None:
    with pytest.raises(CorruptMessage, match="a batch with offsets"):
        read_columns(batch_of(base_offset, SOME) + batch_of(next_base_offset, SOME), "t", 0, *ALL)


@pytest.mark.parametrize("length", [-(1 << 31), -1, 0, HEADER_BYTES - 12 - 1])
def test_a_length_that_no_batch_has(length: int) -> None:
    batch = bytearray(batch_of(0, SOME))
    batch[8:12] = struct.pack(">i", length)
    with pytest.raises(CorruptMessage, match="no record batch at byte 0"):
        read_columns(batch, "t", 0, *ALL)


def test_a_length_beyond_the_end_is_of_a_batch_that_is_cut() -> None:
    batch = bytearray(batch_of(0, SOME))
    batch[8:12] = struct.pack(">i", (1 << 31) - 1)
    pieces, next_offset = read_columns(batch, "t", 0, 0, 100)
    assert (list(pieces), next_offset) == ([], 0)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_records_that_decompress_to_too_much(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    some = [Row(0, 0, None, bytes(99_990))]
    size = len(payload_of(some))
    monkeypatch.setattr(reading, "MAX_STORED_RECORDS_BYTES", size)
    assert table_of(batch_of(0, some, codec=codec), *ALL)[0].num_rows == 1
    monkeypatch.setattr(reading, "MAX_STORED_RECORDS_BYTES", size - 1)
    with pytest.raises(CorruptMessage, match="the batch at offset 0: "):
        table_of(batch_of(0, some, codec=codec), *ALL)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_an_empty_payload_with_a_codec(codec: int) -> None:
    hold([batch_of(0, SOME, codec=codec, count=0, payload=b"")])
    empty = batch_of(0, SOME, count=0, payload=b"", attributes=codec)
    hold([empty])


def test_zeros_are_no_records() -> None:
    """A megabyte of them has a few kilobytes when compressed."""
    zeros = bytes(1 << 20)
    for count in (1 << 20, (1 << 20) // 7, 1):
        with pytest.raises(CorruptMessage):
            table_of(batch_of(0, SOME, codec=LZ4, payload=zeros, count=count, last_offset_delta=count), *ALL)


def test_a_record_with_many_headers() -> None:
    some = [Row(0, 0, None, None, ((b"", None),) * 50_000)]
    batch = batch_of(0, some)
    assert columns_as_rows(table_of(batch, *ALL)[0]) == rows_of([batch])


@pytest.mark.parametrize("names", [[name] for name in SCHEMA.names if name != "headers"])
def test_headers_are_checked_also_if_they_are_not_wanted(names: list[str]) -> None:
    records = payload_of(SOME[:1])
    damaged = records.replace(varint(4) + b"name", varint(5) + b"name")
    assert damaged != records
    with pytest.raises(CorruptMessage):
        table_of(batch_of(0, SOME[:1], payload=damaged), *ALL, columns=names)


def test_names_that_are_not_utf8_get_replacements() -> None:
    some = [Row(0, 0, None, None, ((b"\xff\xc3(", b"\xff"), ("ä".encode(), b"")))]
    assert table_of(batch_of(0, some), *ALL)[0]["headers"].to_pylist() == [[("��(", b"\xff"), ("ä", b"")]]


def test_deltas_do_not_count_with_log_append_time() -> None:
    some = [Row(0, (1 << 63) - 1, None, None), Row(1, -(1 << 63), None, None)]
    batch = batch_of(0, some, attributes=HAS_LOG_APPEND_TIME, max_ms=NOW_MS + 1)
    assert table_of(batch, *ALL)[0]["timestamp"].to_pylist() == [NOW_MS + 1] * 2


def test_garbage_for_each_codec() -> None:
    for codec in CODECS[1:]:
        for garbage in (b"", b"\0", b"garbage" * 20, compress(codec, payload_of(SOME))[:-3]):
            batch = bytearray(batch_of(0, SOME))[:HEADER_BYTES] + garbage
            batch[22] = codec
            hold([resealed(bytes(batch))])
