"""The records inside a batch of format 2: reading them and building a batch, in every codec.

Record (Kafka documentation, "Record"), all lengths zigzag varints::

    length | attributes i8 | timestamp_delta | offset_delta | key_length key | value_length value
    header_count (key_length key value_length value)*

A length of -1 is null.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from muster.actors.log.errors import CorruptMessage, MessageTooLarge
from muster.actors.log.format.batch import (
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    NO_PRODUCER,
    NO_SEQUENCE,
    BatchHeader,
    seal,
)
from muster.actors.log.format.compression import (
    MAX_RECORDS_BYTES,
    MAX_STORED_RECORDS_BYTES,
    NO_COMPRESSION,
    compress,
    decompress,
)
from muster.actors.wire.kafka.framing import Buffer

Headers = tuple[tuple[bytes, bytes | None], ...]
_NO_HEADERS: Headers = ()


class Record(NamedTuple):
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def read_records(batch: Buffer, header: BatchHeader) -> Iterator[Record]:
    """Yield the records of one whole batch, in order.

    Raises CorruptMessage or UnsupportedCompression for unreadable ones.
    """
    payload = decompress(header.codec, memoryview(batch)[HEADER_BYTES : header.size_bytes], MAX_STORED_RECORDS_BYTES)
    append_ms = header.max_timestamp_ms if header.has_log_append_time else None
    at = 0
    for _ in range(header.record_count):
        try:
            record, at = _read_record(payload, at, header, append_ms)
        except IndexError:
            raise CorruptMessage(f"the batch at offset {header.base_offset} ends inside a record") from None
        yield record
    if at != len(payload):
        raise CorruptMessage(
            f"the batch at offset {header.base_offset} continues after its {header.record_count} records"
        )


def _read_record(payload: bytes, at: int, header: BatchHeader, append_ms: int | None) -> tuple[Record, int]:
    length, at = _read_varint(payload, at)
    end = at + length
    timestamp_delta, at = _read_varint(payload, at + 1)
    offset_delta, at = _read_varint(payload, at)
    key, at = _read_bytes(payload, at)
    value, at = _read_bytes(payload, at)
    count, at = _read_varint(payload, at)
    headers = _NO_HEADERS
    if count > 0:
        headers, at = _read_headers(payload, at, count)
    if at != end or count < 0:
        raise CorruptMessage(f"a record of {length} bytes in the batch at offset {header.base_offset} is not that long")
    timestamp_ms = header.base_timestamp_ms + timestamp_delta if append_ms is None else append_ms
    return Record(header.base_offset + offset_delta, timestamp_ms, key, value, headers), at


class RawRecord(NamedTuple):
    """Where a record lies in the decompressed records of its batch, and what the cleaner needs to know of it."""

    start: int
    end: int
    timestamp_delta: int
    rest_at: int
    """Position of the part after the timestamp, which does not depend on the batch's base timestamp."""
    offset: int
    key: bytes | None
    has_value: bool


def scan_records(payload: bytes, header: BatchHeader) -> Iterator[RawRecord]:
    """Yield the records of one batch, from the output of ``decompress``. Raises CorruptMessage."""
    at = 0
    for _ in range(header.record_count):
        start = at
        try:
            length, at = _read_varint(payload, at)
            end = at + length
            timestamp_delta, rest_at = _read_varint(payload, at + 1)
            offset_delta, at = _read_varint(payload, rest_at)
            key, at = _read_bytes(payload, at)
            value_bytes, at = _read_varint(payload, at)
        except IndexError:
            raise CorruptMessage(f"the batch at offset {header.base_offset} ends inside a record") from None
        if not at <= end <= len(payload):
            raise CorruptMessage(f"a record in the batch at offset {header.base_offset} is not as long as it says")
        yield RawRecord(start, end, timestamp_delta, rest_at, header.base_offset + offset_delta, key, value_bytes >= 0)
        at = end
    if at != len(payload):
        raise CorruptMessage(
            f"the batch at offset {header.base_offset} continues after its {header.record_count} records"
        )


def with_timestamp_delta(payload: bytes, record: RawRecord, timestamp_delta: int) -> bytes:
    """Return the record's bytes with another delta to the base timestamp."""
    body = bytearray(b"\x00")  # attributes: none are defined
    _write_varint(body, timestamp_delta)
    body += payload[record.rest_at : record.end]
    out = bytearray()
    _write_varint(out, len(body))
    return bytes(out + body)


def _read_headers(payload: bytes, at: int, count: int) -> tuple[Headers, int]:
    headers = []
    for _ in range(count):
        name, at = _read_bytes(payload, at)
        content, at = _read_bytes(payload, at)
        headers.append((name or b"", content))
    return tuple(headers), at


def _read_varint(payload: bytes, at: int) -> tuple[int, int]:
    byte = payload[at]
    if byte < 0x80:  # nearly always
        return (byte >> 1) ^ -(byte & 1), at + 1
    value = byte & 0x7F
    at += 1
    shift = 7
    while byte & 0x80:
        if shift > 63:
            raise CorruptMessage("a varint of more than ten bytes")
        byte = payload[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    return (value >> 1) ^ -(value & 1), at


def _read_bytes(payload: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = _read_varint(payload, at)
    if length == -1:
        return None, at
    end = at + length
    if length < 0 or end > len(payload):
        raise CorruptMessage(f"a field of {length} bytes does not fit into its record")
    return payload[at:end], end


class BatchProducer(NamedTuple):
    """The producer of a batch that is built here; such a batch has no sequence."""

    id: int
    epoch: int
    attributes: int
    """TRANSACTIONAL, or that and CONTROL."""


NOT_A_PRODUCER = BatchProducer(NO_PRODUCER, -1, 0)


def build_batch(
    records: Sequence[tuple[bytes | None, bytes | None]],
    timestamp_ms: int,
    base_offset: int,
    leader_epoch: int,
    codec: int = NO_COMPRESSION,
    producer: BatchProducer = NOT_A_PRODUCER,
    headers: Headers = _NO_HEADERS,
) -> bytearray:
    """One batch with create time. ``records``, at least one, are pairs of key and value; all have the ``headers``.

    Raises MessageTooLarge for more than is accepted compressed.
    """
    payload = b"".join(_parts(records, _headers(headers) if headers else b"\0"))
    if codec != NO_COMPRESSION and len(payload) > MAX_RECORDS_BYTES:
        raise MessageTooLarge(f"{len(payload)} bytes of records in one batch, the limit is {MAX_RECORDS_BYTES}")
    batch = bytearray(HEADER_BYTES) + compress(codec, payload)
    last = len(records) - 1
    length = len(batch) - LENGTH_OVERHEAD
    HEADER.pack_into(
        batch,
        0,
        *(base_offset, length, leader_epoch, 2, 0, codec | producer.attributes, last, timestamp_ms, timestamp_ms),
        *(producer.id, producer.epoch, NO_SEQUENCE, len(records)),
    )
    seal(batch)
    return batch


def _headers(headers: Headers) -> bytes:
    parts = [_long_varint(len(headers))]
    for field in (each for header in headers for each in header):
        parts += (_NULL,) if field is None else (_long_varint(len(field)), field)
    return b"".join(parts)


def _parts(records: Sequence[tuple[bytes | None, bytes | None]], headers: bytes) -> list[bytes]:
    """Return the records in pieces: it calls nothing for a record of usual size, of which a batch may have hundreds."""
    parts: list[bytes] = []
    short, end = _SHORT_VARINTS, len(_SHORT_VARINTS)
    for delta, (key, value) in enumerate(records):
        offset = short[delta] if delta < end else _long_varint(delta)
        if key is None:
            key_field = _NULL
        else:
            size = len(key)
            key_field = (short[size] if size < end else _long_varint(size)) + key
        if value is None:
            value_field = _NULL
        else:
            size = len(value)
            value_field = (short[size] if size < end else _long_varint(size)) + value
        # Attributes, timestamp (the batch's), offset, key, value, headers.
        size = 2 + len(offset) + len(key_field) + len(value_field) + len(headers)
        parts += ((short[size] if size < end else _long_varint(size)), b"\0\0", offset, key_field, value_field, headers)
    return parts


def _write_varint(out: bytearray, value: int) -> None:
    value = (value << 1) ^ (value >> 63)
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _long_varint(value: int) -> bytes:
    out = bytearray()
    _write_varint(out, value)
    return bytes(out)


_SHORT_VARINTS = tuple(_long_varint(value) for value in range(1 << 10))
_NULL = b"\x01"
"""The length -1, zigzag."""
