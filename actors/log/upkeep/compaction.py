"""Compacts a single batch. Nothing here touches files.

The rules are those of Kafka's Cleaner.shouldRetainRecord and MemoryRecords.filterTo: a record stays if no later one
has its key. A tombstone (a record without value) stays until its batch's delete horizon (KIP-534): the first run that
sees it puts ``now + delete.retention.ms`` into the batch's base timestamp and sets bit 6 of the attributes, which gives
a client that reads from the beginning that long to see it. A record without key is removed.

A batch keeps its offsets, producer, sequence and codec. With no record left, it stays as a header alone where it is
needed: as one of the last batches of its producer, and at the end of a segment.

Records of aborted transactions go, whatever their keys, and supersede nothing. A control batch stays while its
transaction has records in the log; the run that finds none gives it a delete horizon, as to a tombstone: a client that
reads slowly may still need it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from muster.actors.log.format.batch import CODEC_MASK, HEADER, HEADER_BYTES, LENGTH_OVERHEAD, BatchHeader, seal
from muster.actors.log.format.compression import MAX_STORED_RECORDS_BYTES, NO_COMPRESSION, compress, decompress
from muster.actors.log.format.records import RawRecord, scan_records, with_timestamp_delta
from muster.actors.log.transactions.aborted import AbortedRanges

BYTES_PER_KEY = 160
"""Measured memory of a key in a :class:`KeyMap`: the dict's slot, 16 bytes of key, the offset."""
_DIGEST_BYTES = 16
_DELETE_HORIZON = 0x40


def delete_horizon_ms(header: BatchHeader) -> int | None:
    """When the batch's tombstones may be removed; None if the cleaner has not seen them yet."""
    return header.base_timestamp_ms if header.attributes & _DELETE_HORIZON else None


class KeyMap:
    """The last offset of each key in a part of the log, in bounded memory.

    Long keys are represented by 16 bytes of BLAKE2b, just as Kafka represents all keys by their MD5.
    """

    def __init__(self, buffer_bytes: int) -> None:
        self._room = max(buffer_bytes // BYTES_PER_KEY, 1)
        self._offsets: dict[bytes, int] = {}

    def add_batch(self, batch: bytes, header: BatchHeader) -> bool:
        """Add the next batch. Returns False, and adds nothing, if there is no room for all its keys.

        The first batch always fits. Raises CorruptMessage.
        """
        if self._offsets and len(self._offsets) + header.record_count > self._room:
            return False
        for record in scan_records(_payload(batch, header), header):
            if record.key is not None:
                self._offsets[_token(record.key)] = record.offset
        return True

    def __len__(self) -> int:
        return len(self._offsets)

    def is_superseded(self, key: bytes, offset: int) -> bool:
        """Whether a later record has the key."""
        return offset < self._offsets.get(_token(key), -1)


def _token(key: bytes) -> bytes:
    return key if len(key) < _DIGEST_BYTES else hashlib.blake2b(key, digest_size=_DIGEST_BYTES).digest()


def _payload(batch: bytes, header: BatchHeader) -> bytes:
    return decompress(header.codec, memoryview(batch)[HEADER_BYTES : header.size_bytes], MAX_STORED_RECORDS_BYTES)


@dataclass(frozen=True, slots=True)
class Compactor:
    """A single run over a log."""

    keys: KeyMap
    now_ms: int
    delete_retention_ms: int
    producers_batches: AbstractSet[int]
    """Base offsets of the batches that idempotence and the fencing of producers require."""
    aborted: AbortedRanges

    def compact(self, batch: bytes, header: BatchHeader, with_records: set[int], *, is_last: bool) -> bytes | None:
        """Return the part of the batch that stays: all (the same object), less, or None. ``is_last``: of its segment.

        ``with_records``: the producers whose transaction has records before this batch; it is changed with each batch
        of the log. Raises CorruptMessage.
        """
        payload = _payload(batch, header)
        horizon_ms = delete_horizon_ms(header)
        everything = list(scan_records(payload, header))
        if header.is_control:
            is_needed = header.producer_id in with_records
            with_records.discard(header.producer_id)
            is_needed = is_needed or header.base_offset in self.producers_batches
            kept = everything if is_needed or horizon_ms is None or self.now_ms < horizon_ms else []
            sets_horizon = not is_needed and horizon_ms is None and bool(kept)
        else:
            if header.is_transactional and everything:
                with_records.add(header.producer_id)
            kept = [] if self.aborted.hold(header) else [each for each in everything if self._stays(each, horizon_ms)]
            sets_horizon = horizon_ms is None and any(not record.has_value for record in kept)
        if not kept and not is_last and header.base_offset not in self.producers_batches:
            return None
        if len(kept) == header.record_count and not sets_horizon:
            return batch
        return _rebuilt(header, payload, kept, self.now_ms + self.delete_retention_ms if sets_horizon else None)

    def _stays(self, record: RawRecord, horizon_ms: int | None) -> bool:
        if record.key is None or self.keys.is_superseded(record.key, record.offset):
            return False
        return record.has_value or horizon_ms is None or self.now_ms < horizon_ms


def _rebuilt(header: BatchHeader, payload: bytes, kept: list[RawRecord], horizon_ms: int | None) -> bytes:
    """Return the batch with these of its records, and with a delete horizon if one is given."""
    base_ms, attributes = header.base_timestamp_ms, header.attributes
    codec = header.codec if kept else NO_COMPRESSION
    attributes = attributes & ~CODEC_MASK | codec
    if horizon_ms is None:
        parts = [payload[record.start : record.end] for record in kept]
    else:
        shift_ms = base_ms - horizon_ms
        parts = [with_timestamp_delta(payload, record, record.timestamp_delta + shift_ms) for record in kept]
        attributes |= _DELETE_HORIZON
    max_timestamp_ms = header.max_timestamp_ms
    if kept and not header.has_log_append_time:
        max_timestamp_ms = max(base_ms + record.timestamp_delta for record in kept)
    content = compress(codec, b"".join(parts)) if kept else b""
    rebuilt = bytearray(HEADER_BYTES) + content
    changed = header._replace(
        length=len(rebuilt) - LENGTH_OVERHEAD,
        crc=0,
        attributes=attributes,
        base_timestamp_ms=base_ms if horizon_ms is None else horizon_ms,
        max_timestamp_ms=max_timestamp_ms,
        record_count=len(kept),
    )
    HEADER.pack_into(rebuilt, 0, *changed)
    seal(rebuilt)
    return bytes(rebuilt)
