"""Arrow columns as record batches, byte for byte as ``build_batch`` makes them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muster.actors.log.errors import MessageTooLarge
from muster.actors.log.format.arrow.binary import as_binary, content_of
from muster.actors.log.format.arrow.varints import Int64s, UInt64s, sizes_of, write_varints, zigzag
from muster.actors.log.format.batch import (
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MAGIC,
    NO_PRODUCER,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    read_header,
    seal,
)
from muster.actors.log.format.compression import MAX_RECORDS_BYTES, NO_COMPRESSION, compress

MAX_BYTES = 1 << 20
"""Batches of this size are accepted with Kafka's default of ``max.message.bytes``."""
MAX_RECORDS = 1 << 17
"""Records of a batch, and rows whose numbers are in memory at once."""
_NO_EPOCH = -1
_MAX_TIMESTAMP_MS = (1 << 63) - 2
"""Its difference to NO_TIMESTAMP still fits into 64 bits."""
_MAX_RECORDS_BYTES = (1 << 31) - 1 - (HEADER_BYTES - LENGTH_OVERHEAD)
"""The length of a batch has 32 bits."""


def build_columns(
    key: pa.Array | pa.ChunkedArray | None,
    value: pa.Array | pa.ChunkedArray,
    timestamps_ms: int | pa.Array | pa.ChunkedArray,
    headers: pa.MapArray | pa.ChunkedArray | None = None,
    max_bytes: int = MAX_BYTES,
    codec: int = NO_COMPRESSION,
) -> list[bytearray]:
    """Return batches of the rows in their order, without a producer. Each begins with offset 0.

    A batch has at most ``max_bytes``, its header included and before compression, unless its only record is larger;
    and at most MAX_RECORDS. Nulls are null, strings count as UTF-8. ``timestamps_ms`` is one for all, or a column of
    integers or timestamps; -1 is none.

    Raises TypeError for a column of another type; ValueError for columns of unequal length, and for a timestamp that is
    null or out of range; KeyError for a codec that does not exist; MessageTooLarge for a batch that exceeds
    MAX_RECORDS_BYTES and is to be compressed, and for a record that no batch can have.
    """
    columns, count = _columns(key, value, timestamps_ms, headers), len(value)
    found: list[bytearray] = []
    start = 0
    while start < count:
        rows = columns.part(start, start + MAX_RECORDS)
        batches, taken = _some_batches(rows, max_bytes, codec, are_last=start + MAX_RECORDS >= count)
        found += batches
        start += taken
    return found


class _Columns(NamedTuple):
    keys: pa.LargeBinaryArray
    key_sizes: Int64s
    values: pa.LargeBinaryArray
    value_sizes: Int64s
    headers: pa.LargeBinaryArray
    """In the format of records, with their number before them."""
    header_sizes: Int64s
    timestamps_ms: Int64s

    def part(self, start: int, stop: int) -> _Columns:
        return _Columns(*(column[start:stop] for column in self))


def _columns(
    key: pa.Array | pa.ChunkedArray | None,
    value: pa.Array | pa.ChunkedArray,
    timestamps_ms: int | pa.Array | pa.ChunkedArray,
    headers: pa.MapArray | pa.ChunkedArray | None,
) -> _Columns:
    count = len(value)
    keys = as_binary("key", pa.nulls(count) if key is None else key)
    values = as_binary("value", value)
    fields = _no_headers(count) if headers is None else _headers(headers)
    timestamps = _timestamps(count, timestamps_ms)
    if not len(keys) == len(fields) == len(timestamps) == count:
        raise ValueError(
            f"{len(keys)} keys, {count} values, {len(fields)} headers, {len(timestamps)} timestamps: unequal columns"
        )
    sizes = [content_of(each).sizes for each in (keys, values, fields)]
    return _Columns(keys, sizes[0], values, sizes[1], fields, sizes[2], timestamps)


def _timestamps(count: int, timestamps_ms: int | pa.Array | pa.ChunkedArray) -> Int64s:
    if isinstance(timestamps_ms, (pa.Array, pa.ChunkedArray)):
        kind = timestamps_ms.type
        if pa.types.is_timestamp(kind):
            timestamps_ms = timestamps_ms.cast(pa.timestamp("ms"), safe=False)
        elif not pa.types.is_integer(kind):
            raise TypeError(f"the timestamp column has the type {kind}: cast it to int64 (ms) or to a timestamp")
        if timestamps_ms.null_count:
            raise ValueError(f"{timestamps_ms.null_count} timestamps are null: fill them, with {NO_TIMESTAMP} for none")
        found = np.asarray(timestamps_ms.cast(pa.int64()), np.int64)
    else:
        found = np.full(count, timestamps_ms, np.int64)
    for bound in (found.min(initial=0), found.max(initial=0)):
        if not NO_TIMESTAMP <= bound <= _MAX_TIMESTAMP_MS:
            raise ValueError(f"the timestamp {bound} is out of range: ms since 1970, {NO_TIMESTAMP} for none")
    return found


def _no_headers(count: int) -> pa.LargeBinaryArray:
    offsets = np.arange(count + 1)
    return pa.Array.from_buffers(pa.large_binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(bytes(count))])


def _headers(headers: pa.MapArray | pa.ChunkedArray) -> pa.LargeBinaryArray:
    if not pa.types.is_map(headers.type):
        raise TypeError(f"the headers column has the type {headers.type}: cast it to map<string, binary>")
    if isinstance(headers, pa.ChunkedArray):
        headers = headers.combine_chunks()
    if headers.null_count:
        headers = pa.array([fields or [] for fields in headers.to_pylist()], headers.type)
    stops = np.asarray(headers.offsets, np.int64)
    names = as_binary("header names", headers.keys[stops[0] : stops[-1]])
    values = as_binary("header values", headers.items[stops[0] : stops[-1]])
    sizes = [zigzag(content_of(each).sizes) for each in (names, values)]
    each = _joined(_varints(sizes[:1]), names, _varints(sizes[1:]), values)
    _, bounds, data = each.buffers()
    offsets = np.frombuffer(bounds, np.int64)[stops - stops[0]]
    of_rows = pa.Array.from_buffers(pa.large_binary(), len(headers), [None, pa.py_buffer(offsets), data])
    return _joined(_varints([zigzag(np.diff(stops))]), of_rows)


def _some_batches(rows: _Columns, max_bytes: int, codec: int, *, are_last: bool) -> tuple[list[bytearray], int]:
    """Return batches of the first rows, and the number of these: of all rows, or of those before the last cut."""
    cuts = _cuts(rows, max_bytes)
    if len(cuts) > 2 and not are_last:
        cuts.pop()  # the next rows may fit into the same batch
    rows = rows.part(0, cuts[-1])
    records, bounds = _records(rows, np.repeat(cuts[:-1], np.diff(cuts)))
    max_timestamps = np.maximum.reduceat(rows.timestamps_ms, cuts[:-1])
    batches = [
        _batch(
            *_compressed(records[bounds[start] : bounds[stop]], codec, max_bytes - HEADER_BYTES),
            *(stop - start, int(rows.timestamps_ms[start]), int(max_ms)),
        )
        for (start, stop), max_ms in zip(pairwise(cuts), max_timestamps, strict=True)
    ]
    return batches, cuts[-1]


def _cuts(rows: _Columns, max_bytes: int) -> list[int]:
    """Return the rows with which batches begin, and the number of rows.

    Each row counts with the longest timestamp and offset that it can get.
    """
    room, fixed, stamps = max(max_bytes - HEADER_BYTES, 0), _fixed_bytes(rows), rows.timestamps_ms
    max_offset = min(len(fixed), room // int(fixed.min()))
    longest = zigzag(np.array([max_offset, stamps.max() - stamps.min()]))
    lengths = fixed + sizes_of(longest).sum()
    stops = np.cumsum(lengths + sizes_of(zigzag(lengths)))
    cuts = [0]
    while cuts[-1] < len(fixed):
        before = int(stops[cuts[-1] - 1]) if cuts[-1] else 0
        cuts.append(max(int(np.searchsorted(stops, before + room, "right")), cuts[-1] + 1))
    return cuts


def _fixed_bytes(rows: _Columns) -> Int64s:
    """Bytes of a record that do not depend on its place in the batch."""
    total = 1 + rows.header_sizes
    for sizes in (rows.key_sizes, rows.value_sizes):
        total += sizes_of(zigzag(sizes)) + np.maximum(sizes, 0)
    return total


def _records(rows: _Columns, firsts: Int64s) -> tuple[memoryview, Int64s]:
    """Return all records, and where each begins and the last ends. ``firsts``: the first row of each one's batch."""
    timestamps = zigzag(rows.timestamps_ms - rows.timestamps_ms[firsts])
    offsets = zigzag(np.arange(len(firsts)) - firsts)
    lengths = zigzag(_fixed_bytes(rows) + sizes_of(timestamps) + sizes_of(offsets))
    attributes = np.zeros(len(firsts), np.uint64)
    before_key = _varints((lengths, attributes, timestamps, offsets, zigzag(rows.key_sizes)))
    joined = _joined(before_key, rows.keys, _varints((zigzag(rows.value_sizes),)), rows.values, rows.headers)
    content = content_of(joined)
    return content.data.data, np.append(content.starts, content.starts[-1] + content.sizes[-1])


def _compressed(records: memoryview, codec: int, room: int) -> tuple[memoryview, int]:
    """Return the records of a batch and their codec: none if only the compressed ones would be larger than the room."""
    if codec == NO_COMPRESSION:
        return records, codec
    if len(records) > MAX_RECORDS_BYTES:
        raise MessageTooLarge(f"{len(records)} bytes of records, the limit with compression is {MAX_RECORDS_BYTES}")
    compressed = memoryview(compress(codec, bytes(records)))
    return (records, NO_COMPRESSION) if len(records) <= room < len(compressed) else (compressed, codec)


def _batch(records: memoryview, codec: int, count: int, base_ms: int, max_ms: int) -> bytearray:
    if len(records) > _MAX_RECORDS_BYTES:
        raise MessageTooLarge(f"a record of {len(records)} bytes does not fit into a batch")
    batch = bytearray(HEADER_BYTES + len(records))
    batch[HEADER_BYTES:] = records
    length, nobody = len(batch) - LENGTH_OVERHEAD, (NO_PRODUCER, _NO_EPOCH, NO_SEQUENCE)
    HEADER.pack_into(batch, 0, 0, length, _NO_EPOCH, MAGIC, 0, codec, count - 1, base_ms, max_ms, *nobody, count)
    seal(batch)
    return batch


def _varints(columns: Sequence[UInt64s]) -> pa.LargeBinaryArray:
    """Return the varints of each row, one after the other."""
    sizes = [sizes_of(column) for column in columns]
    offsets = np.concatenate(([0], np.cumsum(sum(sizes))))
    out = np.zeros(int(offsets[-1]), np.uint8)
    at = offsets[:-1]
    for column in columns:
        at = write_varints(out, at, column)
    return pa.Array.from_buffers(pa.large_binary(), len(at), [None, pa.py_buffer(offsets), pa.py_buffer(out)])


def _joined(*columns: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Return the bytes of each row in one; null is nothing."""
    return pc.binary_join_element_wise(*columns, pa.scalar(b"", pa.large_binary()), null_handling="skip")


def stamp(batch: bytearray, producer_id: int, epoch: int, base_sequence: int, *, transactional: bool) -> None:
    """Write the producer into a batch of ``build_columns``, and its CRC."""
    header = read_header(batch)
    attributes = header.attributes | TRANSACTIONAL if transactional else header.attributes & ~TRANSACTIONAL
    changed = header._replace(
        attributes=attributes, producer_id=producer_id, producer_epoch=epoch, base_sequence=base_sequence
    )
    HEADER.pack_into(batch, 0, *changed)
    seal(batch)
