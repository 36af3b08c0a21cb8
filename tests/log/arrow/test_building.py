"""Batches from columns: byte for byte as ``build_batch`` and aiokafka make them, cut at the size that is allowed."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from muster.actors.log.errors import MessageTooLarge
from muster.actors.log.format.arrow import building
from muster.actors.log.format.arrow.building import build_columns, stamp
from muster.actors.log.format.batch import HEADER_BYTES, NO_TIMESTAMP, check_client_batch, crc_matches, read_header
from muster.actors.log.format.compression import CODECS, LZ4, NO_COMPRESSION
from muster.actors.log.format.records import build_batch, read_records
from tests.log.arrow.batches import ALL, NOW_MS, columns_as_rows, table_of

LIMIT = 1 << 30
CONTENT = st.none() | st.binary(max_size=20) | st.sampled_from([bytes(63), bytes(64), bytes(8191), b"x" * 20_000])
PAIRS = st.lists(st.tuples(CONTENT, CONTENT), max_size=100)
Pairs = list[tuple[bytes | None, bytes | None]]
HEADERS = pa.map_(pa.string(), pa.binary())


def columns(pairs: Pairs) -> tuple[pa.Array, pa.Array]:
    return pa.array([key for key, _ in pairs], pa.binary()), pa.array([value for _, value in pairs], pa.binary())


def counts_of(batches: list[bytearray]) -> list[int]:
    return [check_client_batch(batch, LIMIT).record_count for batch in batches]


@pytest.mark.parametrize("codec", CODECS)
@given(pairs=PAIRS, max_bytes=st.integers(0, 3_000) | st.just(LIMIT), timestamp_ms=st.sampled_from([-1, 0, NOW_MS]))
def test_batches_equal_to_those_of_build_batch(codec: int, pairs: Pairs, max_bytes: int, timestamp_ms: int) -> None:
    batches = build_columns(*columns(pairs), timestamp_ms, max_bytes=max_bytes, codec=codec)
    start = 0
    for batch, count in zip(batches, counts_of(batches), strict=True):
        some = pairs[start : start + count]
        plain = build_batch(some, timestamp_ms, 0, -1)
        assert batch in (build_batch(some, timestamp_ms, 0, -1, codec), plain)
        assert len(plain) <= max_bytes or count == 1
        assert len(batch) <= max_bytes or count == 1
        start += count
    assert start == len(pairs)
    assert max_bytes < LIMIT or len(batches) == bool(pairs)


@given(
    rows=st.lists(
        st.tuples(
            st.integers(-1, 1 << 42) | st.integers(NOW_MS - 100, NOW_MS + 100) | st.just((1 << 63) - 2),
            CONTENT,
            CONTENT,
            st.lists(st.tuples(st.text(max_size=5), CONTENT), max_size=3),
        ),
        min_size=1,
        max_size=20,
    ),
    max_bytes=st.integers(0, 3_000) | st.just(LIMIT),
)
def test_timestamps_and_headers_of_each_record(rows: list[Any], max_bytes: int) -> None:
    timestamps, keys, values, headers = zip(*rows, strict=True)
    batches = build_columns(
        *columns(list(zip(keys, values, strict=True))),
        pa.array(timestamps, pa.int64()),
        pa.array(headers, HEADERS),
        max_bytes,
    )
    start = 0
    for batch, count in zip(batches, counts_of(batches), strict=True):
        builder = DefaultRecordBatchBuilder(2, NO_COMPRESSION, False, -1, -1, -1, LIMIT)
        some = rows[start : start + count]
        for index, (timestamp, key, value, fields) in enumerate(some):
            builder.append(index, timestamp, key, value, fields)
        theirs, header = builder.build(), read_header(batch)
        if some[0][0] != NO_TIMESTAMP:  # it takes the first other one for the batch's
            assert batch == theirs
        assert (header.base_timestamp_ms, header.max_timestamp_ms) == (some[0][0], max(row[0] for row in some))
        assert [(record.timestamp_ms, record.key, record.value) for record in read_records(batch, header)] == [
            row[:3] for row in some
        ]
        assert len(batch) <= max_bytes or count == 1
        start += count
    assert start == len(rows)


@pytest.mark.parametrize("max_records", [building.MAX_RECORDS, 1_000, 999])
def test_batches_are_full(max_records: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that begin among the rows that are looked at together, and end after these."""
    monkeypatch.setattr(building, "MAX_RECORDS", max_records)
    pairs: Pairs = [(b"k%05d" % index, b"v" * (index % 300)) for index in range(10_000)]
    batches = build_columns(*columns(pairs), NOW_MS, max_bytes=100_000)
    records = [list(read_records(batch, read_header(batch))) for batch in batches]
    assert [record[2:4] for some in records for record in some] == pairs
    for (batch, some), (_, others) in pairwise(zip(batches, records, strict=True)):
        may_be_smaller = 2 * len(some)  # each offset may have taken three bytes
        assert len(batch) <= 100_000 < len(batch) + len(others[0].value or b"") + 15 + may_be_smaller


def test_batches_have_a_limit_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "MAX_RECORDS", 3)
    assert counts_of(build_columns(None, pa.array([b""] * 8), NOW_MS)) == [3, 3, 2]


def test_what_is_built_is_read() -> None:
    pairs: Pairs = [
        (b"%d" % index if index % 7 else None, b"x" * index if index % 5 else None) for index in range(2_000)
    ]
    content, base = bytearray(), 0
    for batch in build_columns(*columns(pairs), NOW_MS, max_bytes=50_000, codec=LZ4):
        batch[:8] = base.to_bytes(8, "big")
        base += read_header(batch).record_count
        content += batch
    table, next_offset = table_of(content, *ALL)
    assert next_offset == base == 2_000
    assert columns_as_rows(table) == [(index, NOW_MS, 1, *pair, []) for index, pair in enumerate(pairs)]


TEXTS = ["ä", None, "", "text"]
TYPES = [
    (pa.string(), TEXTS),
    (pa.large_string(), TEXTS),
    (pa.string_view(), TEXTS),
    (pa.binary(), [b"\xff", None, b"", b"bytes"]),
    (pa.large_binary(), [b"\xff", None, b"", b"bytes"]),
    (pa.binary_view(), [b"\xff", None, b"", b"bytes"]),
    (pa.binary(2), [b"\xff\0", None, b"ab", b"cd"]),
    (pa.null(), [None, None, None, None]),
]


@pytest.mark.parametrize(("kind", "content"), TYPES, ids=[str(kind) for kind, _ in TYPES])
def test_types_of_columns(kind: pa.DataType, content: list[Any]) -> None:
    column = pa.array(content, kind)
    as_bytes = [each.encode() if isinstance(each, str) else each for each in content]
    wanted = [build_batch([(each, each) for each in as_bytes], NOW_MS, 0, -1)]
    assert build_columns(column, column, NOW_MS) == wanted
    chunked = pa.chunked_array([column[:1], column[1:1], column[1:]])
    assert build_columns(chunked, chunked, NOW_MS) == wanted
    longer = pa.array([content[-1], *content, content[0]], kind)
    assert build_columns(longer[1:-1], longer[1:-1], NOW_MS) == wanted
    assert build_columns(None, column, NOW_MS) == [build_batch([(None, each) for each in as_bytes], NOW_MS, 0, -1)]


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (pa.int64(), [1]),
        (pa.float64(), [1.0]),
        (pa.list_(pa.uint8()), [[1]]),
        (pa.struct([("a", pa.int8())]), [{"a": 1}]),
    ],
    ids=str,
)
def test_other_types_are_refused_in_words(kind: pa.DataType, content: list[Any]) -> None:
    good, bad = pa.array([b""]), pa.array(content, kind)
    with pytest.raises(TypeError, match=rf"the key column has the type {kind}".replace("[", r"\[")):
        build_columns(bad, good, NOW_MS)
    with pytest.raises(TypeError, match="the value column has the type"):
        build_columns(good, bad, NOW_MS)
    with pytest.raises(TypeError, match="the headers column has the type"):
        build_columns(good, good, NOW_MS, bad)
    with pytest.raises(TypeError, match="the header values column has the type"):
        build_columns(good, good, NOW_MS, pa.array([[("a", content[0])]], pa.map_(pa.string(), kind)))
    if not pa.types.is_integer(kind):
        with pytest.raises(TypeError, match="the timestamp column has the type"):
            build_columns(good, good, bad)


def test_columns_of_headers() -> None:
    """Sliced, in chunks, null, of other types."""
    content = [[("a", b"1")], None, [], [("b", None), ("b", b"2")], [("c", b"")]]
    wanted = [tuple((name.encode(), value) for name, value in fields or ()) for fields in content]
    keys = pa.nulls(5)
    whole = pa.array([[("before", b"")], *content, [("after", b"")]], HEADERS)
    (batch,) = build_columns(None, keys[:2], NOW_MS, pa.array([[], content[0], *content[2:4]], HEADERS)[2:])
    assert [record.headers for record in read_records(batch, read_header(batch))] == wanted[2:4]
    as_text = pa.array(
        [fields and [(k, v and v.decode()) for k, v in fields] for fields in content], pa.map_(pa.binary(), pa.string())
    )
    for column in (whole[1:-1], pa.chunked_array([whole[1:3], whole[3:6]]), pa.chunked_array([whole[1:6]]), as_text):
        (batch,) = build_columns(keys, keys, NOW_MS, column)
        assert [record.headers for record in read_records(batch, read_header(batch))] == wanted


def test_headers_that_are_null_may_have_a_content() -> None:
    fields = pa.array(
        [{"key": "a", "value": b"1"}, {"key": "b", "value": b"2"}], pa.struct([HEADERS.key_field, HEADERS.item_field])
    )
    assert fields.type.names == ["key", "value"]
    buffers = [pa.py_buffer(bytes([0b10])), pa.py_buffer(np.array([0, 1, 2], np.int32))]
    column = pa.Array.from_buffers(HEADERS, 2, buffers, children=[fields])
    (batch,) = build_columns(None, pa.nulls(2), NOW_MS, column)
    assert [record.headers for record in read_records(batch, read_header(batch))] == [(), ((b"b", b"2"),)]


@pytest.mark.parametrize("step_ms", [0, 1, 3_600_000, -1])
@pytest.mark.parametrize("max_bytes", range(500, 530))
def test_timestamps_take_room(max_bytes: int, step_ms: int) -> None:
    timestamps = pa.array(NOW_MS + np.arange(200) * step_ms)
    batches = build_columns(None, pa.array([b"v"] * 200), timestamps, max_bytes=max_bytes)
    assert sum(counts_of(batches)) == 200
    assert max(map(len, batches)) <= max_bytes


@pytest.mark.parametrize(
    "timestamps",
    [
        pa.array([NOW_MS, NOW_MS + 1]),
        pa.array([NOW_MS, NOW_MS + 1], pa.uint64()),
        pa.chunked_array([[NOW_MS], [NOW_MS + 1]]),
        pa.array([NOW_MS, NOW_MS + 1], pa.timestamp("ms", "UTC")),
        pa.array([NOW_MS * 1_000, NOW_MS * 1_000 + 1_999], pa.timestamp("us")),
    ],
    ids=lambda column: str(column.type),
)
def test_columns_of_timestamps(timestamps: pa.Array) -> None:
    (batch,) = build_columns(None, pa.array([b"", b""]), timestamps)
    assert [record.timestamp_ms for record in read_records(batch, read_header(batch))] == [NOW_MS, NOW_MS + 1]


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ((pa.nulls(2), pa.nulls(3), NOW_MS), "2 keys, 3 values, 3 headers, 3 timestamps"),
        ((None, pa.nulls(3), pa.array([NOW_MS])), "1 timestamps"),
        ((None, pa.nulls(1), NOW_MS, pa.array([[], []], HEADERS)), "2 headers"),
        ((None, pa.nulls(1), pa.array([None], pa.int64())), "1 timestamps are null"),
        ((None, pa.nulls(1), -2), "-2 is out of range"),
        ((None, pa.nulls(1), pa.array([-2])), "-2 is out of range"),
        ((None, pa.nulls(2), pa.array([(1 << 63) - 1, 0])), "9223372036854775807 is out of range"),
    ],
)
def test_columns_that_do_not_fit_are_refused_in_words(columns: tuple[Any, ...], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        build_columns(*columns)


def test_no_rows_are_no_batches() -> None:
    assert build_columns(None, pa.array([], pa.binary()), NOW_MS) == []
    assert build_columns(pa.chunked_array([], pa.string()), pa.chunked_array([], pa.string()), NOW_MS) == []


def test_what_compression_makes_larger_is_not_compressed() -> None:
    noise = np.random.default_rng(1).bytes(100_000)
    plain = build_batch([(None, noise)], NOW_MS, 0, -1)
    assert build_columns(None, pa.array([noise]), NOW_MS, max_bytes=len(plain), codec=LZ4) == [plain]


def test_records_that_may_not_be_compressed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "MAX_RECORDS_BYTES", 100)
    with pytest.raises(MessageTooLarge):
        build_columns(None, pa.array([bytes(100)]), NOW_MS, codec=LZ4)
    with pytest.raises(KeyError):
        build_columns(None, pa.array([b""]), NOW_MS, codec=5)


def test_a_record_that_no_batch_can_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "_MAX_RECORDS_BYTES", 100)
    with pytest.raises(MessageTooLarge):
        build_columns(None, pa.array([bytes(100)]), NOW_MS)


@pytest.mark.parametrize("codec", CODECS)
def test_a_stamped_batch_is_the_producers(codec: int) -> None:
    (batch,) = build_columns(None, pa.array([b"a", b"b"]), NOW_MS, codec=codec)
    before, content = read_header(batch), batch[HEADER_BYTES:]
    stamp(batch, 1 << 40, 3, 70_000, transactional=True)
    assert crc_matches(batch, header := check_client_batch(batch, LIMIT))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1 << 40, 3, 70_000)
    assert header.is_transactional
    assert header.codec == codec
    theirs = DefaultRecordBatch(bytes(batch))
    assert theirs.validate_crc()
    assert theirs.is_transactional
    assert batch[HEADER_BYTES:] == content
    stamp(batch, -1, -1, -1, transactional=False)
    assert read_header(batch) == before
