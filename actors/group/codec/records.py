"""Kafka's records of ``__consumer_offsets``: decoding and encoding. ``consumer_records`` has those of consumer groups.

A key is an int16 type and its message, a value an int16 version and its message (OffsetCommitKey, OffsetCommitValue,
GroupMetadataKey, GroupMetadataValue of Apache Kafka). Written are key types 1 and 2, OffsetCommitValue v1 with an
expire timestamp and else v3, and GroupMetadataValue v3. Every version is read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from sys import intern
from typing import NamedTuple

from muster.actors.group.codec import consumer_records
from muster.actors.group.codec.consumer_records import ConsumerKey, ConsumerValue
from muster.actors.group.codec.primitives import Reader, Writer
from muster.actors.group.errors import CorruptRecord
from muster.actors.group.types import GroupId, MemberId, Record, new_record

OFFSET_KEY_TYPES = (0, 1)
GROUP_KEY_TYPE = 2
NO_TIMESTAMP = -1
_FLEXIBLE_FROM = 4

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_OFFSET_V3_HEAD = struct.Struct(">hqih")
"""Version, offset, leader epoch, length of the metadata; metadata and commit timestamp follow."""
_OFFSET_V3_BARE = struct.Struct(">hqihq")
"""Layout with empty metadata: version, offset, leader epoch, length of the metadata, commit timestamp."""
_INT64 = struct.Struct(">q")


class OffsetKey(NamedTuple):
    group: GroupId
    topic: str
    partition: int


class GroupKey(NamedTuple):
    group: GroupId


class UnknownKey(NamedTuple):
    """A record type of groups that are not served (share groups, streams groups)."""

    key_type: int


class CommittedOffset(NamedTuple):
    offset: int
    commit_timestamp_ms: int
    leader_epoch: int = -1
    metadata: str = ""
    expire_timestamp_ms: int | None = None
    """Set only by commits with their own retention time (OffsetCommit v2-4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadata:
    member_id: MemberId
    group_instance_id: str | None = None
    client_id: str
    client_host: str
    """With Java's leading slash."""
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    """Metadata of the selected protocol; the member's other protocols are not stored."""
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadata:
    protocol_type: str
    """"" until the first member joins."""
    generation: int
    protocol: str | None
    leader: MemberId | None
    state_timestamp_ms: int = NO_TIMESTAMP
    members: tuple[MemberMetadata, ...] = ()


RecordKey = OffsetKey | GroupKey | ConsumerKey
Value = CommittedOffset | GroupMetadata | ConsumerValue


def offset_record(key: OffsetKey, value: CommittedOffset | None) -> Record:
    """Return the record of a committed offset, or its tombstone."""
    start = _offset_key_start(key.group, key.topic)
    return Record(start + _INT32.pack(key.partition), None if value is None else _encode_offset(value))


def offset_records(
    group: GroupId, topic: str, partitions: Iterable[int], offsets: Iterable[CommittedOffset]
) -> list[Record]:
    """Return the records of committed offsets of these partitions of one topic."""
    start = _offset_key_start(group, topic)
    pack_key, pack_value = _INT32.pack, _OFFSET_V3_BARE.pack
    records = []
    for partition, value in zip(partitions, offsets, strict=True):
        offset, at_ms, leader_epoch, metadata, expire_ms = value
        if metadata or expire_ms is not None:
            data = _encode_offset(value)
        else:
            data = pack_value(3, offset, leader_epoch, 0, at_ms)
        records.append(new_record((start + pack_key(partition), data)))
    return records


@lru_cache(maxsize=8192)
def _offset_key_start(group: GroupId, topic: str) -> bytes:
    return Writer().int16(1).string(group).string(topic).bytes()


def group_record(key: GroupKey, value: GroupMetadata | None) -> Record:
    """Return the record of a classic group, or its tombstone."""
    out = Writer().int16(GROUP_KEY_TYPE).string(key.group)
    return Record(out.bytes(), None if value is None else _encode_group(value))


def decode_key(data: bytes) -> RecordKey | UnknownKey:
    """Decode a key. Raises CorruptRecord if the bytes do not match their type."""
    if (plain := _plain_offset_key(data)) is not None:
        return plain
    source = Reader(data)
    key_type = source.int16()
    if key_type in OFFSET_KEY_TYPES:
        return OffsetKey(GroupId(source.string()), source.string(), source.int32())
    if key_type == GROUP_KEY_TYPE:
        return GroupKey(GroupId(source.string()))
    if key_type in consumer_records.KEY_TYPES:
        return consumer_records.read_key(key_type, source)
    return UnknownKey(key_type)


def decode_value(key: RecordKey, data: bytes) -> Value:
    """Decode a key's value. Raises CorruptRecord if the bytes are none, or have an unknown version."""
    if isinstance(key, OffsetKey) and (plain := _plain_offset(data)) is not None:
        return plain
    if isinstance(key, ConsumerKey):
        return consumer_records.read_value(key, data)
    source = Reader(data)
    version = source.int16()
    if not 0 <= version <= _FLEXIBLE_FROM:
        raise CorruptRecord(f"{key}: value version {version}")
    source.flexible = version >= _FLEXIBLE_FROM
    return _decode_offset(source, version) if isinstance(key, OffsetKey) else _decode_group(source, version)


def _plain_offset_key(data: bytes) -> OffsetKey | None:
    """Read the most common key fast. None: use the slow path, which also finds out what is wrong with it."""
    try:
        if data[1] not in OFFSET_KEY_TYPES or data[0]:
            return None
        topic_at = 6 + _INT16.unpack_from(data, 2)[0]
        end = topic_at + _INT16.unpack_from(data, topic_at - 2)[0]
        if not 6 <= topic_at <= end:
            return None
        partition = _INT32.unpack_from(data, end)[0]
        group, topic = data[4 : topic_at - 2].decode(), data[topic_at:end].decode()
    except (IndexError, struct.error, UnicodeDecodeError):
        return None
    return OffsetKey(GroupId(group), intern(topic), partition)


def _plain_offset(data: bytes) -> CommittedOffset | None:
    """Like ``_plain_offset_key``, for OffsetCommitValue v3."""
    try:
        version, offset, leader_epoch, size = _OFFSET_V3_HEAD.unpack_from(data)
        end = _OFFSET_V3_HEAD.size + size
        if version != 3 or size < 0:
            return None
        commit_timestamp_ms = _INT64.unpack_from(data, end)[0]
        metadata = data[_OFFSET_V3_HEAD.size : end].decode()
    except (struct.error, UnicodeDecodeError):
        return None
    return CommittedOffset(
        offset=offset, leader_epoch=leader_epoch, metadata=metadata, commit_timestamp_ms=commit_timestamp_ms
    )


def _encode_offset(value: CommittedOffset) -> bytes:
    if value.expire_timestamp_ms is not None:
        out = Writer().int16(1).int64(value.offset).string(value.metadata)
        return out.int64(value.commit_timestamp_ms).int64(value.expire_timestamp_ms).bytes()
    if not value.metadata:
        return _OFFSET_V3_BARE.pack(3, value.offset, value.leader_epoch, 0, value.commit_timestamp_ms)
    metadata = value.metadata.encode()
    head = _OFFSET_V3_HEAD.pack(3, value.offset, value.leader_epoch, len(metadata))
    return head + metadata + _INT64.pack(value.commit_timestamp_ms)


def _decode_offset(source: Reader, version: int) -> CommittedOffset:
    offset = source.int64()
    leader_epoch = source.int32() if version >= 3 else -1
    metadata = source.string()
    commit_timestamp_ms = source.int64()
    expire_timestamp_ms = source.int64() if version == 1 else NO_TIMESTAMP
    return CommittedOffset(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_timestamp_ms=commit_timestamp_ms,
        expire_timestamp_ms=None if expire_timestamp_ms == NO_TIMESTAMP else expire_timestamp_ms,
    )


def _encode_group(value: GroupMetadata) -> bytes:
    out = Writer().int16(3).string(value.protocol_type).int32(value.generation)
    out.nullable_string(value.protocol).nullable_string(value.leader).int64(value.state_timestamp_ms)
    out.int32(len(value.members))
    for member in value.members:
        out.string(member.member_id).nullable_string(member.group_instance_id)
        out.string(member.client_id).string(member.client_host)
        out.int32(member.rebalance_timeout_ms).int32(member.session_timeout_ms)
        out.blob(member.subscription).blob(member.assignment)
    return out.bytes()


def _decode_group(source: Reader, version: int) -> GroupMetadata:
    protocol_type = source.string()
    generation = source.int32()
    protocol = source.nullable_string()
    leader = source.nullable_string()
    state_timestamp_ms = source.int64() if version >= 2 else NO_TIMESTAMP
    members = tuple(_decode_member(source, version) for _ in range(source.array_length()))
    return GroupMetadata(
        protocol_type=protocol_type,
        generation=generation,
        protocol=protocol,
        leader=None if leader is None else MemberId(leader),
        state_timestamp_ms=state_timestamp_ms,
        members=members,
    )


def _decode_member(source: Reader, version: int) -> MemberMetadata:
    member_id = MemberId(source.string())
    group_instance_id = source.nullable_string() if version >= 3 else None
    client_id, client_host = source.string(), source.string()
    rebalance_timeout_ms = source.int32() if version >= 1 else -1
    session_timeout_ms = source.int32()
    subscription, assignment = source.blob(), source.blob()
    source.tagged_fields()
    return MemberMetadata(
        member_id=member_id,
        group_instance_id=group_instance_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout_ms=session_timeout_ms if rebalance_timeout_ms == -1 else rebalance_timeout_ms,
        session_timeout_ms=session_timeout_ms,
        subscription=subscription,
        assignment=assignment,
    )
