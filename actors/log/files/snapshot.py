"""The state of producers at the end of a segment: ``<name of the segment>.snapshot`` beside it.

It replaces the headers of all batches up to that offset, so opening a log only reads what came after. It is written
when the segment is closed, never synced, and valid only if its CRC-32C matches and its offset is the one at which the
segment ends. Big-endian::

    magic "MSNP" | version u16 | reserved u16 | offset i64 | producers u32
    crc of the producers u32 | crc of all before u32
    per producer: id i64 | epoch i16 | last offset i64 | last timestamp i64 | coordinator epoch i32
                  first offset of the open transaction i64 | batches u8
    per batch, oldest first: base sequence i32 | last sequence i32 | base offset i64 | last offset i64 | timestamp i64
"""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Mapping
from pathlib import Path

from crc32c import crc32c

from muster.actors.log.files.disk import Disk
from muster.actors.log.producers import ProducerEntry, WrittenBatch

SUFFIX = ".snapshot"
_MAGIC = b"MSNP"
_VERSION = 2
_HEAD = struct.Struct(">4sHHqII")
_CRC = struct.Struct(">I")
_PRODUCER = struct.Struct(">qhqqiqB")
_BATCH = struct.Struct(">iiqqq")

log = logging.getLogger(__name__)

Entries = Mapping[int, ProducerEntry]
"""By producer id."""


def path_of(segment: Path) -> Path:
    """Return the file beside that segment file."""
    return segment.with_suffix(SUFFIX)


def write(segment: Path, offset: int, entries: Entries, disk: Disk) -> None:
    """Store the state at ``offset``, where the segment ends. Raises OSError."""
    body = bytearray()
    for producer_id, entry in entries.items():
        epoch, batches, *rest = entry
        body += _PRODUCER.pack(producer_id, epoch, *rest, len(batches))
        for batch in batches:
            body += _BATCH.pack(*batch)
    head = _HEAD.pack(_MAGIC, _VERSION, 0, offset, len(entries), crc32c(body))
    disk.replace_unsynced(path_of(segment), head + _CRC.pack(crc32c(head)) + body, f"{os.getpid()}")


def read(segment: Path, offset: int) -> dict[int, ProducerEntry] | None:
    """Return the state stored for that offset; None if there is none, or if it is not valid. Raises OSError."""
    path = path_of(segment)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    entries = _parse(content, offset)
    if entries is None:
        log.warning("%s is torn, damaged or of another offset; the segments are read instead", path)
    return entries


def _parse(content: bytes, offset: int) -> dict[int, ProducerEntry] | None:
    body_at = _HEAD.size + _CRC.size
    if len(content) < body_at or crc32c(content[: _HEAD.size]) != _CRC.unpack_from(content, _HEAD.size)[0]:
        return None
    magic, version, _, known_offset, count, crc = _HEAD.unpack_from(content)
    body = content[body_at:]
    if (magic, version, known_offset) != (_MAGIC, _VERSION, offset) or crc32c(body) != crc:
        return None
    entries: dict[int, ProducerEntry] = {}
    at = 0
    for _ in range(count):
        producer_id, epoch, *rest, batches = _PRODUCER.unpack_from(body, at)
        at += _PRODUCER.size
        end = at + batches * _BATCH.size
        written = tuple(map(WrittenBatch._make, _BATCH.iter_unpack(body[at:end])))
        entries[producer_id] = ProducerEntry(epoch, written, *rest)
        at = end
    return entries
