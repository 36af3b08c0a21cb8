"""Record batches as Arrow columns: the committed records of a Fetch response."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muster.actors.log.errors import CorruptMessage, LogError, MessageTooLarge
from muster.actors.log.format.arrow.fields import Slices, read_fields
from muster.actors.log.format.arrow.scanning import MAX_INT64, Batches, committed_batches
from muster.actors.log.format.arrow.schema import SCHEMA
from muster.actors.log.format.arrow.starts import MIN_RECORD_BYTES
from muster.actors.log.format.arrow.varints import PADDING_BYTES, Int64s
from muster.actors.log.format.batch import CODEC_MASK, HAS_LOG_APPEND_TIME, HEADER_BYTES
from muster.actors.log.format.compression import MAX_STORED_RECORDS_BYTES, NO_COMPRESSION, decompress_into
from muster.actors.wire.kafka.framing import Buffer

CREATE_TIME, LOG_APPEND_TIME = 1, 2
"""Values of ``timestamp_type``, as in librdkafka."""
MAX_BATCHES_BYTES = 1 << 30
"""Record batches that are read at once. With it, a column never exceeds Arrow's offsets of 32 bits."""
_T = TypeVar("_T", bound=np.generic)
_PIECE_BYTES = 64 << 20
"""Decompressed records after which a piece ends."""


def read_columns(
    batches: Buffer,
    topic: str,
    partition: int,
    first: int,
    end: int,
    aborted: Iterable[tuple[int, int]] = (),
    columns: Sequence[str] | None = None,
) -> tuple[Iterator[pa.RecordBatch], int]:
    """Return the committed records with offsets from ``first`` to before ``end``, and the offset to go on from.

    They come in pieces of about 64 MiB, which are decompressed when the iterator is asked for them; ``batches`` must
    not change before. The offset follows the last whole batch, as the last may be cut; it is ``first`` if there is
    none. ``aborted`` are the producer ids and first offsets of aborted transactions, as in the response. ``columns``
    are some of SCHEMA, in any order (KeyError for others); the rest is not made. Names of headers that are not UTF-8
    get replacement characters, as in Kafka's Java client.

    Batches must match their CRCs, as with Kafka's ``check.crcs``, and offsets must ascend. Raises, here or from the
    iterator: CorruptMessage for damage, for formats before Kafka 0.11, and for a batch that exceeds
    MAX_STORED_RECORDS_BYTES when decompressed; UnsupportedCompression; MessageTooLarge beyond MAX_BATCHES_BYTES.
    """
    view = memoryview(batches).cast("B")
    if len(view) > MAX_BATCHES_BYTES:
        raise MessageTooLarge(f"{len(view)} bytes of record batches, at most {MAX_BATCHES_BYTES} are read at once")
    schema = SCHEMA if columns is None else pa.schema([SCHEMA.field(name) for name in columns])
    found, next_offset = committed_batches(view, first, end, aborted)
    return _record_batches(view, found, _Selection(topic, partition, first, end, schema)), next_offset


class _Selection(NamedTuple):
    topic: str
    partition: int
    first: int
    end: int
    schema: pa.Schema


class _Piece(NamedTuple):
    """Some batches that have records, with these, decompressed."""

    batches: Batches
    counts: Int64s
    room: memoryview
    starts: Int64s
    """Positions of each batch's first record in the room."""
    size_bytes: int


def _pieces(view: memoryview, batches: Batches) -> Iterator[_Piece]:
    """Yield all batches; a piece is good until the next is asked for."""
    counts, codecs = np.maximum(batches.field("record_count"), 0), batches.field("attributes") & CODEC_MASK
    starts = batches.starts + HEADER_BYTES
    limits = np.where(codecs == NO_COMPRESSION, batches.ends - starts, MAX_STORED_RECORDS_BYTES)
    room_bytes = min(int(limits.sum()), _PIECE_BYTES + int(limits.max(initial=0))) + PADDING_BYTES
    room = np.empty(room_bytes, np.uint8).data  # only pages that are written take memory
    at, first, found = 0, 0, []
    rows = zip(starts.tolist(), batches.ends.tolist(), codecs.tolist(), limits.tolist(), counts.tolist(), strict=True)
    for index, (start, end, codec, limit, count) in enumerate(rows):
        try:
            size = decompress_into(room[at : at + limit], codec, view[start:end])
            if count * MIN_RECORD_BYTES > size or (size and not count):
                raise CorruptMessage(f"it cannot have {count} records in {size} bytes")
        except LogError as error:
            raise type(error)(f"the batch at offset {batches.headers['base_offset'][index]}: {error}") from error
        found.append(at)
        at += size
        if at >= _PIECE_BYTES or index == len(counts) - 1:
            has_records = counts[first : index + 1] > 0
            chosen = np.flatnonzero(has_records) + first
            yield _Piece(batches.some(chosen), counts[chosen], room, np.array(found)[has_records], at)
            at, first, found = 0, index + 1, []


def _record_batches(view: memoryview, found: Batches, selection: _Selection) -> Iterator[pa.RecordBatch]:
    for piece in _pieces(view, found):
        if not len(piece.counts):
            continue
        try:
            records = _Records(piece, selection)
            columns = [records.column(name) for name in selection.schema.names]
        except CorruptMessage as error:
            offsets = piece.batches.headers["base_offset"]
            raise CorruptMessage(f"a batch at one of the offsets {offsets[0]} to {offsets[-1]}: {error}") from error
        if records.count:
            yield _record_batch(columns, records.count, selection.schema)


def _record_batch(columns: list[pa.Array], count: int, schema: pa.Schema) -> pa.RecordBatch:
    if not columns:  # rows are counted all the same
        return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), count, [None]))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class _Records:
    """The records of a piece that are in the range."""

    def __init__(self, piece: _Piece, selection: _Selection) -> None:
        self._piece, self._selection = piece, selection
        self._fields = read_fields(piece.room, piece.size_bytes, piece.starts, piece.counts)
        self._offsets = self._offsets_in_order()
        low, high = np.searchsorted(self._offsets, (selection.first, min(selection.end, MAX_INT64))).tolist()
        self._range = slice(low, max(low, high))
        self.count = self._range.stop - low

    def _of_batches(self, values: NDArray[_T]) -> NDArray[_T]:
        """Return, for each record, the value of its batch."""
        return np.repeat(values, self._piece.counts)

    def _offsets_in_order(self) -> Int64s:
        batches, deltas = self._piece.batches, self._fields.offset_deltas
        offsets = self._of_batches(batches.field("base_offset")) + deltas
        is_beyond = deltas[np.cumsum(self._piece.counts) - 1] > batches.field("last_offset_delta")
        if is_beyond.any() or (deltas < 0).any() or (offsets[1:] <= offsets[:-1]).any():
            raise CorruptMessage("its records have other offsets than it says, or offsets that do not ascend")
        return offsets

    def column(self, name: str) -> pa.Array:
        match name:
            case "topic":
                return pa.repeat(pa.scalar(self._selection.topic, pa.string()), self.count)
            case "partition":
                return pa.array(np.full(self.count, self._selection.partition, np.int32))
            case "offset":
                return pa.array(self._offsets[self._range])
            case "timestamp":
                return pa.array(self._timestamps()[self._range])
            case "timestamp_type":
                kinds = np.where(self._has_append_time(), LOG_APPEND_TIME, CREATE_TIME)
                return pa.array(self._of_batches(kinds)[self._range].astype(np.int32))
            case "key":
                return self._binary(self._fields.keys, self._range)
            case "value":
                return self._binary(self._fields.values, self._range)
            case "headers":
                return self._headers()
        raise KeyError(name)

    def _has_append_time(self) -> NDArray[np.bool]:
        has_it: NDArray[np.bool] = self._piece.batches.field("attributes") & HAS_LOG_APPEND_TIME != 0
        return has_it

    def _timestamps(self) -> Int64s:
        batches, is_append = self._piece.batches, self._has_append_time()
        stamps = np.where(is_append, batches.field("max_timestamp_ms"), batches.field("base_timestamp_ms"))
        bases, deltas = self._of_batches(stamps), self._fields.timestamp_deltas
        if is_append.any():
            deltas = np.where(self._of_batches(is_append), 0, deltas)
        timestamps = bases + deltas
        if (((bases ^ timestamps) & (deltas ^ timestamps)) < 0).any():
            raise CorruptMessage("a timestamp of more than 64 bits")
        return timestamps

    def _binary(self, slices: Slices, chosen: slice) -> pa.Array:
        """Copy slices of the room: an array alternates between a slice and the gap behind it; then take no gap."""
        at, sizes = slices.at[chosen], slices.sizes[chosen]
        count = len(at)
        bounds = np.zeros(2 * count + 1, np.int32)
        bounds[0:-1:2] = at
        bounds[1::2] = at + np.maximum(sizes, 0)
        bounds[-1] = bounds[-2] if count else 0
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(self._piece.room)]
        alternating = pa.Array.from_buffers(pa.binary(), 2 * count, buffers)
        is_null = sizes < 0
        return alternating.take(pa.array(np.arange(0, 2 * count, 2), mask=is_null if is_null.any() else None))

    def _headers(self) -> pa.Array:
        headers = self._fields.headers
        stops = np.concatenate(([0], np.cumsum(headers.counts)))[self._range.start : self._range.stop + 1]
        chosen = slice(int(stops[0]), int(stops[-1]))
        names = self._binary(headers.names, chosen)
        try:
            names = names.cast(pa.string())
        except pa.ArrowInvalid:
            names = pa.array([name.decode(errors="replace") for name in names.to_pylist()], pa.string())
        offsets = pa.array((stops - stops[0]).astype(np.int32))
        return pa.MapArray.from_arrays(offsets, names, self._binary(headers.values, chosen))
