"""Record batches as columns: equal to what ``read_records`` gives of the committed batches."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.actors.log.errors import CorruptMessage, MessageTooLarge, UnsupportedCompression
from muster.actors.log.format.arrow import reading
from muster.actors.log.format.arrow.reading import read_columns
from muster.actors.log.format.arrow.schema import SCHEMA
from muster.actors.log.format.batch import CONTROL, HAS_LOG_APPEND_TIME, TRANSACTIONAL, read_header
from muster.actors.log.format.compression import CODECS
from muster.actors.log.format.control import EndOfTransaction, control_batch
from tests.log.arrow.batches import ALL, NOW_MS, Row, batch_of, columns_as_rows, rows_of, table_of

CONTENT = st.none() | st.binary(max_size=20) | st.sampled_from([bytes(63), bytes(64), bytes(8192), b"x" * 20_000])
NAMES = st.binary(max_size=5) | st.text(max_size=5).map(str.encode)
HEADERS = st.just(()) | st.lists(st.tuples(NAMES, CONTENT), max_size=4).map(tuple)
DELTAS_MS = st.just(0) | st.integers(-200, 200) | st.integers(-NOW_MS - 1, 1 << 42)
ROWS = st.lists(
    st.tuples(st.integers(1, 3) | st.integers(1, 20_000), DELTAS_MS, CONTENT, CONTENT, HEADERS), min_size=1, max_size=8
)
"""The first element is the distance to the offset before."""


@st.composite
def rows(draw: st.DrawFn) -> list[Row]:
    found: list[Row] = []
    for step, timestamp_delta, key, value, headers in draw(ROWS):
        before = found[-1].offset_delta if found else -1
        found.append(Row(before + step, timestamp_delta, key, value, headers))
    return found


@st.composite
def batches(draw: st.DrawFn, /, base_offset: int, **fields: Any) -> tuple[bytes, int]:
    """Return a batch and the offset after it. Compaction may have removed all its records, or the last ones."""
    some = draw(rows())
    last = some[-1].offset_delta + draw(st.sampled_from([0, 0, 1, 70]))
    attributes = fields.pop("attributes", 0) | draw(st.sampled_from([0, 0, HAS_LOG_APPEND_TIME]))
    base_ms = draw(st.sampled_from([NOW_MS, NOW_MS, -1, 0]))
    some = [row._replace(timestamp_delta=0) for row in some] if base_ms == -1 else some
    if not draw(st.integers(0, 9)):
        some = []
    codec = draw(st.sampled_from(CODECS)) if some else 0
    batch = batch_of(
        base_offset,
        some,
        codec=codec,
        attributes=attributes,
        last_offset_delta=last,
        base_ms=base_ms,
        max_ms=NOW_MS + 7,
        **fields,
    )
    return batch, base_offset + last + 1


class Log:
    """A partition with transactions: what is in it, and what of that is committed."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw, self.end = draw, draw(st.sampled_from([0, 1 << 40]))
        self.batches: list[bytes] = []
        self.committed: list[bytes] = []
        self.aborted: list[tuple[int, int]] = []
        self._open: dict[int, tuple[int, list[bytes]]] = {}

    def add(self) -> None:
        self.committed.append(self._append())

    def add_to_transaction(self, producer_id: int) -> None:
        batch = self._append(attributes=TRANSACTIONAL, producer_id=producer_id)
        self._open.setdefault(producer_id, (read_header(batch).base_offset, []))[1].append(batch)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Also without any: a coordinator may write a marker twice."""
        first, content = self._open.pop(producer_id, (self.end, []))
        if commit:
            self.committed += content
        elif content:
            self.aborted.append((producer_id, first))
        self.batches.append(bytes(control_batch(producer_id, 0, EndOfTransaction(commit, 3), NOW_MS, self.end, 5)))
        self.end += 1

    def end_all(self) -> None:
        for producer_id in list(self._open):
            self.end_transaction(producer_id, commit=self._draw(st.booleans()))

    def _append(self, **fields: Any) -> bytes:
        batch, self.end = self._draw(batches(self.end + self._draw(st.sampled_from([0, 0, 1, 50])), **fields))
        self.batches.append(batch)
        return batch


@st.composite
def logs(draw: st.DrawFn) -> Log:
    log = Log(draw)
    for step in draw(st.lists(st.sampled_from(["add", "add", "transaction", "commit", "abort"]), max_size=20)):
        producer_id = draw(st.integers(1, 3))
        if step == "add":
            log.add()
        elif step == "transaction":
            log.add_to_transaction(producer_id)
        else:
            log.end_transaction(producer_id, commit=step == "commit")
    log.end_all()
    return log


@settings(max_examples=300)
@given(log=logs(), data=st.data())
def test_committed_records_of_a_log(log: Log, data: st.DataObject) -> None:
    content = b"".join(log.batches)
    table, next_offset = table_of(content, *ALL, aborted=data.draw(st.permutations(log.aborted)))
    everything = sorted(rows_of(log.committed))
    assert columns_as_rows(table) == everything
    assert next_offset == (log.end if log.batches else 0)
    assert table["topic"].to_pylist() == ["topic"] * len(everything)
    assert table["partition"].to_pylist() == [3] * len(everything)
    first = data.draw(st.integers(0, 1).map(log.end.__add__) | st.sampled_from([row[0] for row in everything] or [0]))
    end = data.draw(st.integers(first, log.end + 1) | st.just(1 << 70))
    table, next_offset = table_of(content, first, end, aborted=log.aborted)
    assert columns_as_rows(table) == [row for row in everything if first <= row[0] < end]
    assert next_offset == max(first, log.end if log.batches else 0)


def test_every_range() -> None:
    """Batches of one, two and three records, with gaps."""
    rows = [Row(0, 0, None, b"a"), Row(1, 0, None, b"b"), Row(2, 0, None, b"c")]
    content = b"".join((batch_of(2, rows[:1]), batch_of(4, rows[:2]), batch_of(6, rows)))
    for first in range(11):
        for end in range(11):
            table, next_offset = table_of(content, first, end, columns=["offset"])
            assert table["offset"].to_pylist() == [at for at in (2, 4, 5, 6, 7, 8) if first <= at < end]
            assert next_offset == max(first, 9)


@given(log=logs(), data=st.data())
def test_the_last_batch_may_be_cut(log: Log, data: st.DataObject) -> None:
    content = b"".join(log.batches)
    cut = data.draw(st.integers(0, len(content)))
    whole, size = [], 0
    for batch in log.batches:
        size += len(batch)
        if size <= cut:
            whole.append(batch)
    table, next_offset = table_of(memoryview(content)[:cut], *ALL, aborted=log.aborted)
    kept = {id(batch) for batch in whole}
    assert columns_as_rows(table) == sorted(rows_of(batch for batch in log.committed if id(batch) in kept))
    complete, end = table_of(b"".join(whole), *ALL, aborted=log.aborted)
    assert (table, next_offset) == (complete, end)


@settings(max_examples=50)
@given(log=logs(), names=st.lists(st.sampled_from(SCHEMA.names), unique=True))
def test_only_the_chosen_columns(log: Log, names: list[str]) -> None:
    content = b"".join(log.batches)
    table, next_offset = table_of(content, *ALL, aborted=log.aborted)
    chosen, end = table_of(content, *ALL, aborted=log.aborted, columns=names)
    assert end == next_offset
    assert chosen.column_names == names
    assert chosen.num_rows == table.num_rows
    assert [chosen[name] for name in names] == [table[name] for name in names]


def varied(codec: int, counts: list[int], sizes: list[int]) -> list[bytes]:
    """Return batches of so many records each, with values of these sizes, and headers in one of ten."""
    draw, found, base = random.Random(codec), [], 0
    for count in counts:
        some = [
            Row(
                index,
                draw.choice([0, index, -index]),
                None if draw.random() < 0.1 else b"k%d" % index,
                None if draw.random() < 0.1 else draw.randbytes(draw.choice(sizes)),
                tuple((b"h%d" % at, b"v") for at in range(draw.choice([1, 2, 5]))) if draw.random() < 0.1 else (),
            )
            for index in range(count)
        ]
        found.append(batch_of(base, some, codec=codec))
        base += count
    return found


@pytest.mark.parametrize("piece_bytes", [1, 5_000, reading._PIECE_BYTES])
@pytest.mark.parametrize("codec", CODECS)
def test_many_batches_in_pieces(codec: int, piece_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty are followed in step, until only some have more records."""
    monkeypatch.setattr(reading, "_PIECE_BYTES", piece_bytes)
    content = varied(codec, [*range(1, 21), 100, 1, 300, 300], [0, 1, 60, 61, 62, 63, 64, 200, 8_150, 9_000])
    table, next_offset = table_of(b"".join(content), *ALL)
    assert columns_as_rows(table) == rows_of(content)
    assert next_offset == sum([*range(1, 21), 100, 1, 300, 300])
    pieces, _ = read_columns(b"".join(content), "topic", 3, *ALL)
    assert (len(list(pieces)) == 1) == (piece_bytes > 5_000)


def test_mixed_codecs_and_large_records() -> None:
    content = [
        batch_of(0, [Row(0, 0, b"k", b"x" * 3_000_000), Row(1, 1 << 40, None, b"")], codec=4),
        batch_of(2, [Row(0, 0, b"y" * 70_000, b"z" * 70_000, ((b"n" * 9_000, b"c" * 20_000),))]),
        batch_of(3, [Row(index, 0, b"", b"") for index in range(20_000)], codec=3),
    ]
    table, _ = table_of(b"".join(content), *ALL)
    assert columns_as_rows(table) == rows_of(content)


def test_the_columns_are_those_of_rays_read_kafka() -> None:
    from ray.data._internal.datasource.kafka_datasource import KAFKA_MSG_SCHEMA  # loads pandas

    assert {field.name: field.type for field in SCHEMA} == {field.name: field.type for field in KAFKA_MSG_SCHEMA}


def test_no_columns_are_rows_all_the_same() -> None:
    pieces, _ = read_columns(batch_of(0, [Row(0, 0, None, None), Row(1, 0, None, None)]), "t", 0, *ALL, columns=())
    assert [piece.num_rows for piece in pieces] == [2]


def test_an_unknown_column_is_refused() -> None:
    with pytest.raises(KeyError, match="values"):
        read_columns(b"", "t", 0, *ALL, columns=("values",))


@pytest.mark.parametrize("content", [b"", bytearray(), memoryview(b""), pa.py_buffer(b"")])
def test_nothing_is_no_records(content: Any) -> None:
    pieces, next_offset = read_columns(content, "t", 0, 17, 30)
    assert (list(pieces), next_offset) == ([], 17)


def test_any_buffer_is_read() -> None:
    batch = batch_of(0, [Row(0, 0, b"\xff" * 200, b"value")])
    for content in (bytearray(batch), memoryview(b"--" + batch)[2:], pa.py_buffer(batch)):
        assert table_of(content, *ALL)[0]["key"].to_pylist() == [b"\xff" * 200]


def test_a_transaction_that_an_unknown_marker_follows_is_still_aborted() -> None:
    """Markers of other types end nothing, as in Kafka's CompletedFetch."""
    unknown = Row(0, 0, b"\0\0\0\7", b"\0\0\0\0\0\0")
    content = [
        batch_of(0, [Row(0, 0, None, b"a")], attributes=TRANSACTIONAL, producer_id=7),
        batch_of(1, [unknown], attributes=CONTROL | TRANSACTIONAL, producer_id=7),
        batch_of(2, [Row(0, 0, None, b"b")], attributes=TRANSACTIONAL, producer_id=7),
        bytes(control_batch(7, 0, EndOfTransaction(False, 3), NOW_MS, 3, 5)),
        batch_of(4, [Row(0, 0, None, b"c")], attributes=TRANSACTIONAL, producer_id=7),
        bytes(control_batch(7, 0, EndOfTransaction(True, 3), NOW_MS, 5, 5)),
    ]
    table, next_offset = table_of(b"".join(content), *ALL, aborted=[(7, 0)])
    assert (table["value"].to_pylist(), next_offset) == ([b"c"], 6)


def test_what_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_BATCHES_BYTES", 100)
    with pytest.raises(MessageTooLarge):
        read_columns(bytes(101), "t", 0, *ALL)


def test_a_codec_that_does_not_exist() -> None:
    batch = batch_of(0, [Row(0, 0, None, None)], attributes=5)
    pieces, _ = read_columns(batch, "t", 0, *ALL)
    with pytest.raises(UnsupportedCompression):
        next(pieces)


@pytest.mark.parametrize("magic", [0, 1, 3])
@pytest.mark.parametrize("size", [17, 40, 200])
def test_other_formats_are_refused_in_words(magic: int, size: int) -> None:
    with pytest.raises(CorruptMessage, match=f"format {magic} at byte 0"):
        read_columns(bytes(16) + bytes([magic]) + bytes(size - 17), "t", 0, *ALL)


def test_an_end_before_the_beginning_has_no_records() -> None:
    content = batch_of(6, [Row(0, 0, None, b"a"), Row(1, 0, None, b"b"), Row(2, 0, None, b"c")])
    table, next_offset = table_of(content, 8, 7)
    assert table.num_rows == 0
    assert next_offset == 9
