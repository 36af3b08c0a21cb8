"""A client's batch on its way into a log: its header, and what its records are.

As Kafka's LogValidator, all records are looked at, because a consumer that cannot read one of them fails at its offset
for ever. Their lengths are, not their contents: keys, values and headers are passed over.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from muster.actors.log.errors import CorruptMessage, InvalidRecord, InvalidRecords, LogError, MessageTooLarge
from muster.actors.log.format.batch import CODEC_MASK, HEADER_BYTES, NO_TIMESTAMP, BatchHeader, check_client_batch
from muster.actors.log.format.compression import AT_ONCE_BYTES, NO_COMPRESSION, DecompressedTooLarge, decompress
from muster.actors.log.format.records import scan_records
from muster.actors.wire.internal.produce import RecordError
from muster.actors.wire.kafka.codec import ErrorCode
from muster.actors.wire.kafka.framing import Buffer

AT_ONCE_RECORDS = 4_000
"""Batches of up to so many records, and AT_ONCE_BYTES when decompressed, are checked in the event loop."""
MAX_RECORD_ERRORS = 1_000
"""Errors of a batch that is refused; Kafka lists all. A batch of some kilobytes could have a million of them."""
_SHOWN = 3
_MIN_INT64, _MAX_INT64 = -(1 << 63), (1 << 63) - 1
_EVER_MS = 1 << 65
"""More than a timestamp and a delta together can be."""
_NULL = 1
"""The length -1 as it is encoded."""
_SHORT, _SHORT_AT = struct.Struct(">h34xi"), 21
"""Attributes and number of records, from a batch's header."""
_INT_SHIFT, _LONG_SHIFT = 28, 63
"""The last shifts of a varint of 32 and 64 bits."""


class Rules(NamedTuple):
    """Requirements of a log on the batches of clients."""

    partition: str
    """Topic and partition, such as ``topic-0``."""
    max_message_bytes: int
    needs_keys: bool
    """With cleanup.policy=compact."""
    earliest_ms: int = -_EVER_MS
    latest_ms: int = _EVER_MS
    """Limits of records that have a timestamp. With message.timestamp.type=LogAppendTime, any will do."""


class Checked(NamedTuple):
    """A batch that a log can take."""

    header: BatchHeader
    max_timestamp_ms: int
    """That of its records, whatever the header says; -1 without any."""


class ClientBatch:
    """The one batch of a partition in a Produce request. It is checked once, in whichever thread."""

    __slots__ = ("_checked", "_is_short", "_payload", "records")

    def __init__(self, records: Buffer) -> None:
        self.records = records
        self._payload: bytes | None = None
        """The records, decompressed, from :meth:`is_short` to :meth:`check`."""
        self._checked: Checked | None = None
        self._is_short: bool | None = None

    def is_short(self) -> bool:
        """Whether :meth:`check` takes no longer than an event loop may be kept from its other work. Raises nothing."""
        if self._is_short is None:
            self._is_short = self._looks_short()
        return self._is_short

    def _looks_short(self) -> bool:
        if len(self.records) < HEADER_BYTES:
            return True
        attributes, record_count = _SHORT.unpack_from(self.records, _SHORT_AT)
        if codec := attributes & CODEC_MASK:
            try:
                self._payload = decompress(codec, memoryview(self.records)[HEADER_BYTES:], AT_ONCE_BYTES)
            except DecompressedTooLarge:
                return False
            except LogError:
                return True
        return bool(record_count <= AT_ONCE_RECORDS)

    def check(self, rules: Rules) -> Checked:
        """Check it, unless that has been done.

        The errors of ``batch.check_client_batch``, InvalidRecord and InvalidRecords.
        """
        if self._checked is None:
            header = check_client_batch(self.records, rules.max_message_bytes)
            payload = self._payload if self._payload is not None else _payload(self.records, header)
            self._payload = None
            has_keyless, least_ms, greatest_ms = survey(payload, header.record_count)
            least_ms, greatest_ms = header.base_timestamp_ms + least_ms, header.base_timestamp_ms + greatest_ms
            is_late = least_ms < rules.earliest_ms or greatest_ms > rules.latest_ms
            if is_late or (has_keyless and rules.needs_keys):  # some may follow the rules all the same
                refused = _invalid_records(payload, header, rules)
                if refused is not None:
                    raise refused
            self._checked = Checked(header, max(greatest_ms, NO_TIMESTAMP))
        return self._checked

    def forget(self) -> None:
        """Release what is kept for :meth:`check`: many batches may wait, each of which decompresses to a lot more."""
        self._payload = None


def _payload(records: Buffer, header: BatchHeader) -> bytes:
    codec, packed = header.attributes & CODEC_MASK, memoryview(records)[HEADER_BYTES:]
    if codec == NO_COMPRESSION:
        return bytes(packed)
    try:
        return decompress(codec, packed)
    except DecompressedTooLarge as error:  # producers divide a batch that is too large
        raise MessageTooLarge(str(error)) from error
    except CorruptMessage as error:  # its CRC is right: to send it again does not help
        raise InvalidRecord(str(error)) from error


def _invalid_records(payload: bytes, header: BatchHeader, rules: Rules) -> InvalidRecords | None:
    """Return the error of a sound batch, with Kafka's texts (LogValidator); None if its records follow the rules."""
    errors, count, are_late = [], 0, False
    for index, record in enumerate(scan_records(payload, header)):
        timestamp_ms = header.base_timestamp_ms + record.timestamp_delta
        if rules.needs_keys and record.key is None:
            message = f"Compacted topic cannot accept message without key in topic partition {rules.partition}"
        elif timestamp_ms != NO_TIMESTAMP and not rules.earliest_ms <= timestamp_ms <= rules.latest_ms:
            are_late = True
            message = (
                f"Timestamp {timestamp_ms} of message with offset {index} is out of range. "
                f"The timestamp should be within [{rules.earliest_ms}, {rules.latest_ms}]"
            )
        else:
            continue
        count += 1
        if count <= MAX_RECORD_ERRORS:
            errors.append(RecordError(index, message))
    if not errors:
        return None
    if are_late:
        text = "One or more records have been rejected due to invalid timestamp"
        return InvalidRecords(ErrorCode.invalid_timestamp, text, tuple(errors))
    first = ", ".join(f"RecordError(batchIndex={index}, message='{message}')" for index, message in errors[:_SHOWN])
    text = (
        f"One or more records have been rejected due to {count} record errors in total, "
        f"and only showing the first three errors at most: [{first}]"
    )
    return InvalidRecords(ErrorCode.invalid_record, text, tuple(errors))


class Survey(NamedTuple):
    """Summary of all records."""

    has_keyless: bool
    """Whether any has no key."""
    least_delta_ms: int
    """Timestamps, relative to the batch's."""
    greatest_delta_ms: int


def survey(payload: bytes, count: int) -> Survey:
    """Go over the records. Raises InvalidRecord unless they are ``count`` records that all clients can read.

    That is: every length is right, and offsets are 0, 1, 2 and so on. Kafka ignores the offsets of records that are not
    compressed, and some wrong lengths of those that are. Lengths below -1 are refused, too; Kafka reads them as -1.
    One loop with everything in it, since all that is produced passes it.
    """
    at, keyless, before = 0, False, -1
    least, greatest = _MAX_INT64, _MIN_INT64
    try:
        for offset in range(0, 2 * count, 2):  # as it is encoded
            length = payload[at]
            if length < 0x80:
                at += 1
            elif (more := payload[at + 1]) < 0x80:
                length += (more << 7) - 0x80
                at += 2
            else:
                length, at = _long_varint(payload, at, _INT_SHIFT)
            end = at + (length >> 1)
            time = payload[at + 1]  # behind the attributes
            if time < 0x80:
                at += 2
            elif (more := payload[at + 2]) < 0x80:
                time += (more << 7) - 0x80
                at += 3
            else:
                time, at = _long_varint(payload, at + 1, _LONG_SHIFT)
            if time != before:  # it often is the one before
                before = time
                delta_ms = (time >> 1) ^ -(time & 1)
                if delta_ms > greatest:
                    greatest = delta_ms
                if delta_ms < least:
                    least = delta_ms
            found = payload[at]
            if found < 0x80:
                at += 1
            elif (more := payload[at + 1]) < 0x80:
                found += (more << 7) - 0x80
                at += 2
            else:
                found, at = _long_varint(payload, at, _INT_SHIFT)
            if found != offset:
                raise InvalidRecord(f"record {offset >> 1} has the offset {(found >> 1) ^ -(found & 1)} in its batch")
            size = payload[at]
            if size == _NULL:
                keyless = True
                at += 1
            elif size < 0x80 and not size & 1:
                at += 1 + (size >> 1)
            else:
                at = _end_of_field(payload, at)
            size = payload[at]
            if size < 0x80 and not size & 1:
                at += 1 + (size >> 1)
            elif (more := payload[at + 1]) < 0x80 and not size & 1:
                at += 2 + ((size + (more << 7) - 0x80) >> 1)
            else:
                at = _end_of_field(payload, at)
            at = at + 1 if payload[at] == 0 else _end_of_headers(payload, at)
            if at != end or length & 1:  # odd: it is below 0
                raise InvalidRecord(f"record {offset >> 1} is not as long as it says")
    except IndexError:
        raise InvalidRecord(f"the batch ends inside one of its {count} records") from None
    if at != len(payload):
        raise InvalidRecord(f"the batch has {len(payload) - at} bytes after its {count} records")
    return Survey(keyless, least, greatest)


def _end_of_field(payload: bytes, at: int, *, may_be_null: bool = True) -> int:
    size, at = _long_varint(payload, at, _INT_SHIFT)
    if size & 1:
        if size == _NULL and may_be_null:
            return at
        raise InvalidRecord(f"a field of {-(size >> 1) - 1} bytes")
    return at + (size >> 1)


def _end_of_headers(payload: bytes, at: int) -> int:
    count, at = _long_varint(payload, at, _INT_SHIFT)
    if count & 1:
        raise InvalidRecord(f"{-(count >> 1) - 1} headers in a record")
    for _ in range(count >> 1):
        size = payload[at]
        at = at + 1 + (size >> 1) if size < 0x80 and not size & 1 else _end_of_field(payload, at, may_be_null=False)
        size = payload[at]
        at = at + 1 + (size >> 1) if size < 0x80 and not size & 1 else _end_of_field(payload, at)
    return at


def _long_varint(payload: bytes, at: int, last_shift: int) -> tuple[int, int]:
    """Return a varint as it is encoded, before zigzag, and the position behind it."""
    value, shift = 0, 0
    while True:
        byte = payload[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > last_shift:
            raise InvalidRecord("a varint is too long")
    if value >> (last_shift + 1 if last_shift == _LONG_SHIFT else 32):
        raise InvalidRecord("a varint is too large")
    return value, at
