"""The objects of a write-ahead log: their names and their encoding.

Big-endian. Header: magic "MWAL", version u8, kind u8, epoch i64, writer 16 bytes, number u64, count of entries u32,
CRC-32C of all else u32. Entry: topic id 16 bytes, partition i32, leader epoch i32, append time i64 in ms or -1, size
u32, and the record batch as it is in the segment.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from crc32c import crc32c

from muster.actors.log.errors import StorageError
from muster.actors.wire.kafka.framing import Buffer

_HEADER = struct.Struct(">4sBBq16sQII")
_ENTRY = struct.Struct(">16siiqI")
_MAGIC, _VERSION = b"MWAL", 1
_DIGITS = 20
FENCE_BYTES = _HEADER.size
"""Size of a fence: an object with entries is larger."""


class Kind(IntEnum):
    DATA = 0
    FENCE = 1


class Entry(NamedTuple):
    """One record batch."""

    topic_id: UUID
    partition: int
    leader_epoch: int
    appended_ms: int | None
    """None if the batch itself holds the time."""
    batch: bytes | bytearray

    @property
    def size_bytes(self) -> int:
        return _ENTRY.size + len(self.batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class WalObject:
    kind: Kind
    epoch: int
    """Epoch of the role."""
    writer: bytes
    """16 random bytes of the process and its opening, so that no two writers write the same."""
    number: int
    entries: Sequence[Entry] = ()

    def encode(self) -> bytes:
        fields = (_MAGIC, _VERSION, self.kind, self.epoch, self.writer, self.number, len(self.entries))
        parts: list[Buffer] = []
        for topic_id, partition, leader_epoch, appended_ms, batch in self.entries:
            time_ms = -1 if appended_ms is None else appended_ms
            parts.append(_ENTRY.pack(topic_id.bytes, partition, leader_epoch, time_ms, len(batch)))
            parts.append(batch)
        crc = crc32c(_HEADER.pack(*fields, 0))
        for part in parts:
            crc = crc32c(part, crc)
        return b"".join([_HEADER.pack(*fields, crc), *parts])

    @classmethod
    def decode(cls, name: str, content: bytes) -> WalObject:
        """Raise StorageError if it is none, or damaged."""
        try:
            magic, version, kind, epoch, writer, number, count, crc = _HEADER.unpack_from(content)
            if magic != _MAGIC or version != _VERSION:
                raise StorageError(f"{name} is no object of a write-ahead log, or of a newer version")
            before_crc = content[: _HEADER.size - 4]
            if crc32c(memoryview(content)[_HEADER.size :], crc32c(before_crc + bytes(4))) != crc:
                raise StorageError(f"{name} is damaged: its checksum is wrong")
            return cls(
                kind=Kind(kind), epoch=epoch, writer=writer, number=number, entries=list(_entries(content, count))
            )
        except (struct.error, ValueError) as error:
            raise StorageError(f"{name} is damaged: {error}") from error


def _entries(content: bytes, count: int) -> Iterable[Entry]:
    position = _HEADER.size
    for _ in range(count):
        topic_id, partition, leader_epoch, time_ms, size = _ENTRY.unpack_from(content, position)
        position += _ENTRY.size
        batch = content[position : position + size]
        position += size
        yield Entry(UUID(bytes=topic_id), partition, leader_epoch, None if time_ms < 0 else time_ms, batch)


def folder_of(role: str) -> str:
    """Return what the names of its objects begin with."""
    return f"wal/{role}/"


def name_of(role: str, number: int) -> str:
    return f"{folder_of(role)}{number:0{_DIGITS}d}"


def number_in(name: str) -> int:
    """Return the number in an object's name. Raises StorageError if it has none."""
    digits = name.rpartition("/")[2]
    if len(digits) != _DIGITS or not (digits.isascii() and digits.isdigit()):
        raise StorageError(f"{name} does not belong into a write-ahead log")
    return int(digits)


def boundary_of(role: str) -> str:
    """Return the name of its boundary, an object that is not among the others."""
    return f"boundaries/{role}"
