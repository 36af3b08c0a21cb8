"""Offsets and numbers of records, by kind, in the record batches that a gateway forwards."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from muster.actors.log.errors import CorruptMessage
from muster.actors.log.format.batch import (
    CONTROL,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    TRANSACTIONAL,
    BatchHeader,
    iter_headers,
)
from muster.actors.log.format.records import read_records
from muster.actors.wire.kafka.framing import Buffer

_SUMMARY = struct.Struct(">qi9xhi30xi")
"""Base offset, length, attributes, last offset delta and number of records, from a batch's header (magic 2)."""
_ATTRIBUTES, _ATTRIBUTES_AT = struct.Struct(">h"), 21
_COUNT_AT = HEADER_BYTES - 4
_PRODUCER, _PRODUCER_AT = struct.Struct(">qh"), 43
_MIN_LENGTH = HEADER_BYTES - LENGTH_OVERHEAD
_CONTROL_TYPE = struct.Struct(">2xh")
_ABORT = 0

AbortedTransaction = tuple[int, int]
"""Producer id and first offset, as in a Fetch response."""


class Summary(NamedTuple):
    """Summary of whole batches. Without any, the offsets are -1."""

    first_offset: int
    """Base offset of the first batch."""
    last_offset: int
    messages: int
    """All records, including the following two kinds."""
    batches: int
    control_records: int = 0
    """Markers of transactions."""
    aborted_records: int = 0
    """Records of aborted transactions, which a consumer that reads committed records skips."""


def summarize(parts: Sequence[Buffer], aborted: Sequence[AbortedTransaction] = ()) -> Summary:
    """Summarize a partition's batches. Each part consists of whole batches, in the order of their offsets.

    ``aborted`` is what the Fetch response says of the same batches. Raises CorruptMessage where no whole batch begins.
    """
    first_offset, last_offset, messages, batches, attributes = _scan(parts[0]) if parts else (-1, -1, 0, 0, 0)
    for part in parts[1:]:
        _, last_offset, more_messages, more_batches, more_attributes = _scan(part)
        messages += more_messages
        batches += more_batches
        attributes |= more_attributes
    if not aborted and not attributes & CONTROL:
        return Summary(first_offset, last_offset, messages, batches)
    return Summary(first_offset, last_offset, messages, batches, *_skipped(parts, aborted))


def _scan(records: Buffer) -> tuple[int, int, int, int, int]:
    """Return the first four fields of a summary, and the attributes that occur.

    One loop: all that is fetched passes it.
    """
    if not records:
        return -1, -1, 0, 0, 0
    at, size, unpack = 0, len(records), _SUMMARY.unpack_from
    try:
        first_offset, length, attributes, last_offset_delta, messages = unpack(records)
        at = LENGTH_OVERHEAD + length
        if at == size:
            return first_offset, first_offset + last_offset_delta, messages, 1, attributes
        batches, base_offset = 1, first_offset
        while at < size and length >= _MIN_LENGTH:
            base_offset, length, more_attributes, last_offset_delta, count = unpack(records, at)
            at += LENGTH_OVERHEAD + length
            attributes |= more_attributes
            messages += count
            batches += 1
    except struct.error:
        length = 0
    if at != size or length < _MIN_LENGTH:
        raise CorruptMessage(f"no whole record batch at byte {at} of {size}")
    return first_offset, base_offset + last_offset_delta, messages, batches, attributes


def record_count(records: Buffer) -> int:
    """Return the number of records of the one batch that a partition of a Produce has, which a log has accepted."""
    return int.from_bytes(records[_COUNT_AT:HEADER_BYTES], "big")


def transactional_producer(records: Buffer | None) -> tuple[int, int] | None:
    """Return producer id and epoch of a batch in a transaction; None for any other, or if it is cut off."""
    if records is None or len(records) < HEADER_BYTES:
        return None
    (attributes,) = _ATTRIBUTES.unpack_from(records, _ATTRIBUTES_AT)
    return _PRODUCER.unpack_from(records, _PRODUCER_AT) if attributes & TRANSACTIONAL else None


def _skipped(parts: Sequence[Buffer], aborted: Sequence[AbortedTransaction]) -> tuple[int, int]:
    """Control records and aborted records, distinguished as by Kafka's consumer (CompletedFetch)."""
    begin = sorted(aborted, key=lambda transaction: transaction[1])
    aborting: set[int] = set()
    control_records = aborted_records = 0
    for part in parts:
        for at, header in iter_headers(part):
            while begin and begin[0][1] <= header.last_offset:
                aborting.add(begin.pop(0)[0])
            if header.is_control:
                control_records += header.record_count
                if _is_abort(memoryview(part)[at:], header):
                    aborting.discard(header.producer_id)
            elif header.is_transactional and header.producer_id in aborting:
                aborted_records += header.record_count
    return control_records, aborted_records


def _is_abort(batch: Buffer, header: BatchHeader) -> bool:
    """Whether a control batch ends a transaction by aborting it (KIP-98)."""
    marker = next(iter(read_records(batch, header)), None)
    if marker is None or marker.key is None or len(marker.key) < _CONTROL_TYPE.size:
        return False
    (kind,) = _CONTROL_TYPE.unpack_from(marker.key)
    return bool(kind == _ABORT)
