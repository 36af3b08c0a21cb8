"""Kafka record batches, format 2: the header, the checks of a client's batch, and the fields that the log stamps.

Layout (Kafka documentation, "Record Batch"), big-endian, 61 bytes before the records::

    base_offset i64 | length i32 | partition_leader_epoch i32 | magic i8 | crc u32 | attributes i16
    last_offset_delta i32 | base_timestamp i64 | max_timestamp i64
    producer_id i64 | producer_epoch i16 | base_sequence i32 | count i32

``length`` counts what follows it. The CRC-32C covers everything from ``attributes`` on, which lets a broker stamp
offset and leader epoch without changing it. The records inside a batch are read in
``muster.actors.log.format.records``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from muster.actors.log.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    UnsupportedCompression,
)
from muster.actors.wire.kafka.framing import Buffer

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size
LENGTH_OVERHEAD = 12
"""Bytes of a batch that its ``length`` does not include."""
MAGIC = 2
"""The version of the format."""
MAGIC_AT = 16
CRC_FROM = 21
"""First byte that the CRC covers: the attributes."""
NO_PRODUCER = -1
MAX_BATCH_RECORDS = 1_000_000
"""Kafka has no limit; but records that compress well would keep the event loop, and the cleaner's memory, busy."""
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
MAX_SEQUENCE = 0x7FFFFFFF

_EPOCH_AT = 12
_CRC_AT = 17
_ATTRIBUTES_AT = CRC_FROM
_MAX_TIMESTAMP_AT = 35
CODEC_MASK = 0x07
HAS_LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
_LAST_CODEC = 4

_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_CHECKED = struct.Struct(">qi4xbI2xi")
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_TIMESTAMP = struct.Struct(">q")
_new = tuple.__new__  # a call of the class is one in Python


class BatchHeader(NamedTuple):
    base_offset: int
    length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        return self.length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & CODEC_MASK

    @property
    def has_log_append_time(self) -> bool:
        return bool(self.attributes & HAS_LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; 2^31-1 is followed by 0. -1 without a producer id."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & MAX_SEQUENCE


def read_header(buffer: Buffer, at: int = 0) -> BatchHeader:
    """Return the header at that index.

    Raises CorruptMessage if fewer than 61 bytes are left; nothing else is checked.
    """
    if len(buffer) - at < HEADER_BYTES:
        raise CorruptMessage(f"{max(len(buffer) - at, 0)} bytes are too few for a record batch header")
    return _new(BatchHeader, HEADER.unpack_from(buffer, at))


def is_plausible(header: BatchHeader) -> bool:
    """Whether the header's length can be used to find the next batch."""
    return header.magic == 2 and header.length >= HEADER_BYTES - LENGTH_OVERHEAD and header.last_offset_delta >= 0


def iter_headers(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """(index, header) of each batch. Raises CorruptMessage at the first incomplete one."""
    at = 0
    while at < len(buffer):
        header = read_header(buffer, at)
        if not is_plausible(header) or at + header.size_bytes > len(buffer):
            raise CorruptMessage(f"no whole record batch at byte {at} of {len(buffer)}")
        yield at, header
        at += header.size_bytes


def find_damage(content: Buffer, first_offset: int, end_offset: int) -> tuple[int, str] | None:
    """(index, what is wrong there) of the first byte where no sound batch begins; None if all are whole and sound.

    Offsets must ascend from ``first_offset`` and end at ``end_offset`` or before. This is a single loop because all
    fetched data passes through it.
    """
    view, at, size = memoryview(content), 0, len(content)
    unpack, offset = _CHECKED.unpack_from, first_offset
    while at < size:
        if at + HEADER_BYTES > size:
            return at, "no batch begins there"
        base_offset, length, magic, crc, last_offset_delta = unpack(content, at)
        end = at + LENGTH_OVERHEAD + length
        if magic != 2 or end < at + HEADER_BYTES or end > size or last_offset_delta < 0:
            return at, "no batch begins there"
        if crc32c(view[at + _ATTRIBUTES_AT : end]) != crc:
            return at, "the batch does not match its CRC"
        if base_offset < offset or base_offset + last_offset_delta >= end_offset:
            return at, f"a batch with offset {base_offset} lies there"
        at, offset = end, base_offset + last_offset_delta + 1
    return None


def crc_matches(batch: Buffer, header: BatchHeader) -> bool:
    """Whether the bytes of a batch match its CRC."""
    return bool(crc32c(memoryview(batch)[_ATTRIBUTES_AT:]) == header.crc)


def check_client_batch(records: Buffer, max_message_bytes: int) -> BatchHeader:
    """Check the one batch that a Produce request may carry per partition (v3 and later). Returns its header.

    As Kafka's ProduceRequest.validateRecords, UnifiedLog.analyzeAndValidateRecords and
    LogValidator.validateBatch: raises InvalidRecord, CorruptMessage, UnsupportedCompression,
    MessageTooLarge or InvalidTimestamp. ``client_batch`` looks at the records.
    """
    size = len(records)
    if not size:
        raise InvalidRecord("produce requests have exactly one record batch per partition, this one has none")
    if size <= MAGIC_AT or records[MAGIC_AT] != MAGIC:
        raise _other_format(records)
    header = read_header(records)
    batch_bytes = header.length + LENGTH_OVERHEAD
    if not HEADER_BYTES <= batch_bytes <= size:
        raise CorruptMessage(f"a record batch of {batch_bytes} bytes in {size} bytes")
    if batch_bytes > max_message_bytes:
        raise MessageTooLarge(f"a record batch of {batch_bytes} bytes, max.message.bytes is {max_message_bytes}")
    if batch_bytes < size:
        raise InvalidRecord("produce requests have exactly one record batch per partition, this one has more")
    if crc32c(memoryview(records)[_ATTRIBUTES_AT:]) != header.crc:
        raise CorruptMessage(f"the record batch does not match its CRC {header.crc:#010x}")
    _check_fields(header)
    return header


def _other_format(records: Buffer) -> InvalidRecord | CorruptMessage:
    if len(records) <= MAGIC_AT:
        return CorruptMessage(f"{len(records)} bytes are too few for a record batch header")
    magic = records[MAGIC_AT]
    if magic < MAGIC:
        return InvalidRecord(f"message format {magic}, only {MAGIC} is stored")
    return CorruptMessage(f"message format {magic} does not exist")


def _check_fields(header: BatchHeader) -> None:
    attributes, producer_id, count = header.attributes, header.producer_id, header.record_count
    if attributes & CODEC_MASK > _LAST_CODEC:
        raise UnsupportedCompression(f"compression codec {header.codec} does not exist")
    if attributes & CONTROL:
        raise InvalidRecord("clients may not write control batches")
    if attributes & HAS_LOG_APPEND_TIME:
        raise InvalidTimestamp("clients may not set the timestamp type LogAppendTime")
    if producer_id == NO_PRODUCER:
        if attributes & TRANSACTIONAL:
            raise InvalidRecord("a transactional batch without a producer id")
    elif header.base_sequence < 0 or header.producer_epoch < 0:
        raise InvalidRecord(
            f"producer {producer_id} with epoch {header.producer_epoch} and sequence {header.base_sequence}"
        )
    if count > MAX_BATCH_RECORDS:
        raise InvalidRecord(f"{count} records in one batch, the limit is {MAX_BATCH_RECORDS}")
    if count <= 0 or header.last_offset_delta != count - 1:
        raise InvalidRecord(f"{count} records with a last offset delta of {header.last_offset_delta}")


def stamp(batch: bytearray, base_offset: int, leader_epoch: int) -> None:
    """Write the two fields that the log assigns."""
    _OFFSET.pack_into(batch, 0, base_offset)
    _EPOCH.pack_into(batch, _EPOCH_AT, leader_epoch)


def stamp_log_append_time(batch: bytearray, now_ms: int) -> None:
    """Make ``now_ms`` the timestamp of every record of the batch, as message.timestamp.type=LogAppendTime requires."""
    attributes = _ATTRIBUTES.unpack_from(batch, _ATTRIBUTES_AT)[0]
    _ATTRIBUTES.pack_into(batch, _ATTRIBUTES_AT, attributes | HAS_LOG_APPEND_TIME)
    _TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_AT, now_ms)
    seal(batch)


def stamp_max_timestamp(batch: bytearray, timestamp_ms: int) -> None:
    """Correct what the client says: retention and look-ups by time rely on it."""
    _TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_AT, timestamp_ms)
    seal(batch)


def seal(batch: bytearray) -> None:
    """Write the CRC."""
    _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[_ATTRIBUTES_AT:]))
