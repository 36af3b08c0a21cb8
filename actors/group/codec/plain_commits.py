"""Reads the OffsetCommit that nearly all consumers send, without kio.

That is v8 or v9 of names and partitions without metadata, tagged fields or names of more than 126 bytes. The
partitions of a topic then have a fixed size, and one struct reads all of them: 50 partitions take 9 us, and 75 us
through kio and :mod:`muster.actors.group.codec.adapters`, which read all other commits.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

VERSIONS = (8, 9)
_PARTITION = "iqi2x"
"""Index, offset, leader epoch, metadata (a length of 0 or 1: null or empty), tagged fields (none)."""
_PARTITION_BYTES = struct.calcsize(">" + _PARTITION)
_METADATA_AT, _TAGS_AT = _PARTITION_BYTES - 2, _PARTITION_BYTES - 1
_NO_METADATA = b"\0\1"
_generation = struct.Struct(">i").unpack_from


class PlainTopic(NamedTuple):
    name: str
    indexes: tuple[int, ...]
    """Indexes of the partitions, at least one."""
    offsets: tuple[int, ...]
    leader_epochs: tuple[int, ...]


class PlainCommit(NamedTuple):
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    topics: tuple[PlainTopic, ...]
    """At least one."""


def read_plain_commit(version: int, frame: bytes, at: int) -> PlainCommit | None:
    """Return the OffsetCommit whose body begins at that index; None if it is not plain, or no OffsetCommit.

    Bytes behind the body are ignored. For bytes of clients: no length is trusted.
    """
    if version not in VERSIONS:
        return None
    try:
        group_id, at = plain_string(frame, at)
        generation_id = _generation(frame, at)[0]
        member_id, at = plain_string(frame, at + 4)
        instance_id: str | None = None
        if frame[at]:
            instance_id, at = plain_string(frame, at)
        else:
            at += 1
        count = frame[at] - 1
        at += 1
        if not 0 < count < 0x7F:
            return None
        topics = []
        for _ in range(count):
            name, at = plain_string(frame, at)
            topic, at = _topic(name, frame, at)
            topics.append(topic)
        if frame[at]:  # tagged fields
            return None
    except (IndexError, ValueError, struct.error):  # a UnicodeDecodeError is a ValueError
        return None
    return PlainCommit(group_id, generation_id, member_id, instance_id, tuple(topics))


def _topic(name: str, frame: bytes, at: int) -> tuple[PlainTopic, int]:
    """Return the partitions of a topic, and the index behind it. Raises ValueError if they are not plain."""
    count, at = plain_count(frame, at)
    end = at + count * _PARTITION_BYTES
    if not count or frame[end]:  # tagged fields
        raise ValueError
    if frame[at + _TAGS_AT : end : _PARTITION_BYTES].strip(b"\0"):
        raise ValueError
    if frame[at + _METADATA_AT : end : _PARTITION_BYTES].strip(_NO_METADATA):
        raise ValueError
    fields = _partitions(count).unpack_from(frame, at)
    return PlainTopic(name, fields[0::3], fields[1::3], fields[2::3]), end + 1


@lru_cache(maxsize=256)
def _partitions(count: int) -> struct.Struct:
    return struct.Struct(">" + count * _PARTITION)


def plain_count(frame: bytes, at: int) -> tuple[int, int]:
    """Return the size of a compact array of less than 8,192 elements, and the index behind it.

    Raises ValueError or IndexError.
    """
    count = frame[at]
    at += 1
    if count >= 0x80:
        count += (frame[at] << 7) - 0x80
        at += 1
    if not 0 < count <= 1 << 13:
        raise ValueError
    return count - 1, at


def plain_string(frame: bytes, at: int) -> tuple[str, int]:
    """Return a compact string of at most 126 bytes, and the index behind it.

    Raises ValueError or IndexError for others.
    """
    size = frame[at]
    end = at + size
    if not 0 < size < 0x80 or end > len(frame):
        raise ValueError
    return frame[at + 1 : end].decode(), end
