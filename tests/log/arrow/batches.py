"""Record batches made field by field, and their records as ``read_records`` has them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from muster.actors.log.format.arrow.reading import CREATE_TIME, LOG_APPEND_TIME, read_columns
from muster.actors.log.format.arrow.schema import SCHEMA
from muster.actors.log.format.batch import HAS_LOG_APPEND_TIME, HEADER, HEADER_BYTES, crc_matches, read_header, seal
from muster.actors.log.format.compression import compress
from muster.actors.log.format.records import Headers, read_records

NOW_MS = 1_700_000_000_000
ALL = (0, 1 << 64)
"""First offset and end of everything."""


class Row(NamedTuple):
    """A record, relative to its batch."""

    offset_delta: int
    timestamp_delta: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def varint(value: int) -> bytes:
    encoded = (value << 1) ^ (value >> 63)
    out = bytearray()
    while encoded > 0x7F:
        out.append(encoded & 0x7F | 0x80)
        encoded >>= 7
    return bytes([*out, encoded])


def _field(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content


def payload_of(rows: Iterable[Row]) -> bytes:
    out: list[bytes] = []
    for row in rows:
        headers = b"".join(_field(name) + _field(value) for name, value in row.headers)
        numbers = b"\0" + varint(row.timestamp_delta) + varint(row.offset_delta)
        body = numbers + _field(row.key) + _field(row.value) + varint(len(row.headers)) + headers
        out += (varint(len(body)), body)
    return b"".join(out)


def batch_of(
    base_offset: int,
    rows: Sequence[Row],
    *,
    codec: int = 0,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    base_ms: int = NOW_MS,
    max_ms: int = NOW_MS,
    producer_id: int = -1,
    payload: bytes | None = None,
    count: int | None = None,
) -> bytes:
    """Return the batch of these rows, or of another ``payload`` or ``count``."""
    records = compress(codec, payload_of(rows) if payload is None else payload)
    last = rows[-1].offset_delta if last_offset_delta is None else last_offset_delta
    batch = bytearray(HEADER_BYTES) + records
    fields = (base_offset, len(batch) - 12, 5, 2, 0, attributes | codec, last, base_ms, max_ms, producer_id)
    HEADER.pack_into(batch, 0, *fields, 0 if producer_id >= 0 else -1, -1, len(rows) if count is None else count)
    seal(batch)
    return bytes(batch)


def resealed(batch: bytes) -> bytes:
    """Return the batch with its length and its CRC right."""
    changed = bytearray(batch)
    changed[8:12] = (len(batch) - 12).to_bytes(4, "big")
    seal(changed)
    return bytes(changed)


Read = tuple[int, int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""Offset, timestamp, type of the timestamp, key, value, headers."""


def rows_of(batches: Iterable[bytes], first: int = 0, end: int = 1 << 64) -> list[Read]:
    """Return what ``read_records`` gives of whole batches. Raises LogError."""
    found: list[Read] = []
    for batch in batches:
        header = read_header(batch)
        assert crc_matches(batch, header)
        kind = LOG_APPEND_TIME if header.attributes & HAS_LOG_APPEND_TIME else CREATE_TIME
        found += [
            (
                record.offset,
                record.timestamp_ms,
                kind,
                record.key,
                record.value,
                [(name.decode(errors="replace"), content) for name, content in record.headers],
            )
            for record in read_records(batch, header)
            if first <= record.offset < end
        ]
    return found


def table_of(content: Any, first: int, end: int, **options: Any) -> tuple[pa.Table, int]:
    """Return the pieces of ``read_columns`` in one, each of which must be valid."""
    pieces, next_offset = read_columns(content, "topic", 3, first, end, **options)
    found = list(pieces)
    for piece in found:
        piece.validate(full=True)
        assert piece.num_rows
    names = options.get("columns")
    schema = SCHEMA if names is None else pa.schema([SCHEMA.field(name) for name in names])
    return pa.Table.from_batches(found, schema), next_offset


def columns_as_rows(table: pa.Table) -> list[Read]:
    names = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))
