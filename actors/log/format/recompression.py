"""Converts a client's batch to the codec of compression.type."""

from __future__ import annotations

from muster.actors.log.errors import MessageTooLarge
from muster.actors.log.format.batch import CODEC_MASK, HEADER, HEADER_BYTES, LENGTH_OVERHEAD, BatchHeader, seal
from muster.actors.log.format.compression import MAX_STORED_RECORDS_BYTES, NO_COMPRESSION, compress, decompress
from muster.actors.wire.kafka.framing import Buffer

_MAX_COMPRESSED_BYTES = MAX_STORED_RECORDS_BYTES // 2
"""The rest is for the cleaner, which makes each record some bytes longer."""


def recompressed(batch: Buffer, header: BatchHeader, codec: int, level: int | None) -> bytearray:
    """Return the batch in another codec, with equal records and header fields.

    Raises CorruptMessage for unreadable records, MessageTooLarge for more than may be stored compressed.
    """
    payload = decompress(header.codec, memoryview(batch)[HEADER_BYTES : header.size_bytes])
    if codec != NO_COMPRESSION and len(payload) > _MAX_COMPRESSED_BYTES:
        raise MessageTooLarge(f"{len(payload)} bytes of records, of which {_MAX_COMPRESSED_BYTES} may be compressed")
    changed = bytearray(HEADER_BYTES) + compress(codec, payload, level)
    attributes = header.attributes & ~CODEC_MASK | codec
    HEADER.pack_into(changed, 0, *header._replace(length=len(changed) - LENGTH_OVERHEAD, attributes=attributes))
    seal(changed)
    return changed
