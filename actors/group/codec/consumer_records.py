"""Kafka's records of consumer groups in ``__consumer_offsets`` (KIP-848): decoding and encoding.

Keys are never flexible, values are from version 0. Of ConsumerGroupPartitionMetadata, which Kafka replaced by the hash
in ConsumerGroupMetadata (KIP-1101), only tombstones are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from muster.actors.group.codec.primitives import Reader, Writer
from muster.actors.group.errors import CorruptRecord
from muster.actors.group.types import GroupId, Record

TopicIdPartition = tuple[UUID, int]
NO_TIMESTAMP = 0
_VERSION = 0


class ConsumerRecord(IntEnum):
    """Key types, by the names of Kafka's schemas without ``ConsumerGroup``."""

    METADATA = 3
    PARTITION_METADATA = 4
    MEMBER_METADATA = 5
    TARGET_ASSIGNMENT_METADATA = 6
    TARGET_ASSIGNMENT_MEMBER = 7
    CURRENT_MEMBER_ASSIGNMENT = 8
    REGULAR_EXPRESSION = 16


_NAMED = frozenset(
    {
        ConsumerRecord.MEMBER_METADATA,
        ConsumerRecord.TARGET_ASSIGNMENT_MEMBER,
        ConsumerRecord.CURRENT_MEMBER_ASSIGNMENT,
        ConsumerRecord.REGULAR_EXPRESSION,
    }
)
KEY_TYPES = frozenset(int(kind) for kind in ConsumerRecord)


class ConsumerKey(NamedTuple):
    kind: ConsumerRecord
    group: GroupId
    name: str = ""
    """The member id, or the regular expression; "" for a record of the whole group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEpoch:
    epoch: int
    metadata_hash: int = 0
    """Hash of the topics that members subscribe to; a signed 64-bit number, 0 without such topics."""


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """The topics that members subscribe to, as Kafka 4.0 wrote them. The content is not used."""

    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMember:
    """Fields that only members with the classic protocol have."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """(name, subscription), most preferred first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadata:
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str
    client_host: str
    """With Java's leading slash."""
    topics: tuple[str, ...] = ()
    """Sorted."""
    regex: str | None = ""
    """"" for none; null in records of Kafka 4.0."""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMember | None = None
    """None: the member has the consumer protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEpoch:
    epoch: int
    timestamp_ms: int = NO_TIMESTAMP
    """When the assignment was computed (KIP-1263)."""


@dataclass(frozen=True, slots=True)
class Target:
    partitions: frozenset[TopicIdPartition] = frozenset()


class MemberState(IntEnum):
    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentAssignment:
    epoch: int
    previous_epoch: int
    state: MemberState = MemberState.STABLE
    assigned: Mapping[TopicIdPartition, int]
    """The epoch of the member at which it got each partition (KIP-1251)."""
    revoking: Mapping[TopicIdPartition, int]
    """Partitions that the member has to give up first; in the same form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRegex:
    topics: tuple[str, ...]
    """Sorted."""
    version: int
    timestamp_ms: int


ConsumerValue = (
    GroupEpoch | PartitionMetadata | MemberMetadata | TargetEpoch | Target | CurrentAssignment | ResolvedRegex
)


def consumer_record(key: ConsumerKey, value: ConsumerValue | None) -> Record:
    """Return the record, or its tombstone."""
    out = Writer().int16(key.kind).string(key.group)
    if key.kind in _NAMED:
        out.string(key.name)
    return Record(out.bytes(), None if value is None else _encode(value))


def read_key(kind: int, source: Reader) -> ConsumerKey:
    """Return the rest of a key after its type, one of ``KEY_TYPES``. Raises CorruptRecord."""
    named = ConsumerRecord(kind)
    return ConsumerKey(named, GroupId(source.string()), source.string() if named in _NAMED else "")


def read_value(key: ConsumerKey, data: bytes) -> ConsumerValue:
    """Read a key's value. Raises CorruptRecord if the bytes are none, or have an unknown version."""
    if key.kind is ConsumerRecord.PARTITION_METADATA:
        return PartitionMetadata(data)
    source = Reader(data)
    version = source.int16()
    if version != _VERSION:
        raise CorruptRecord(f"{key}: value version {version}")
    source.flexible = True
    return _READERS[key.kind](source)


def _encode(value: ConsumerValue) -> bytes:
    out = Writer().int16(_VERSION)
    out.flexible = True
    match value:
        case GroupEpoch():
            out.int32(value.epoch).tagged_fields(_int64_field(value.metadata_hash))
        case TargetEpoch():
            out.int32(value.epoch).tagged_fields(_int64_field(value.timestamp_ms))
        case MemberMetadata():
            _write_member(out, value)
        case Target():
            _write_target(out, value)
        case CurrentAssignment():
            out.int32(value.epoch).int32(value.previous_epoch).int8(value.state)
            _write_held(out, value.assigned)
            _write_held(out, value.revoking)
            out.tagged_fields()
        case ResolvedRegex():
            out.strings(value.topics).int64(value.version).int64(value.timestamp_ms).tagged_fields()
        case PartitionMetadata():
            return value.data
    return out.bytes()


def _int64_field(value: int) -> dict[int, bytes]:
    """Field 0, which is left out if it is 0."""
    return {0: Writer().int64(value).bytes()} if value else {}


def _read_int64_field(source: Reader) -> int:
    data = source.tagged_fields().get(0)
    return 0 if data is None else Reader(data).int64()


def _write_member(out: Writer, value: MemberMetadata) -> None:
    out.nullable_string(value.instance_id).nullable_string(value.rack_id)
    out.string(value.client_id).string(value.client_host)
    out.strings(value.topics).nullable_string(value.regex)
    out.int32(value.rebalance_timeout_ms).nullable_string(value.assignor)
    out.tagged_fields({0: b"\0" if value.classic is None else _classic_bytes(value.classic)})


def _classic_bytes(value: ClassicMember) -> bytes:
    out = Writer()
    out.flexible = True
    out.int8(1).int32(value.session_timeout_ms).array_length(len(value.protocols))
    for name, metadata in value.protocols:
        out.string(name).blob(metadata).tagged_fields()
    return out.tagged_fields().bytes()


def _read_member(source: Reader) -> MemberMetadata:
    instance_id, rack_id = source.nullable_string(), source.nullable_string()
    client_id, client_host = source.string(), source.string()
    topics, regex = source.strings(), source.nullable_string()
    rebalance_timeout_ms, assignor = source.int32(), source.nullable_string()
    classic = source.tagged_fields().get(0)
    return MemberMetadata(
        instance_id=instance_id,
        rack_id=rack_id,
        client_id=client_id,
        client_host=client_host,
        topics=topics,
        regex=regex,
        rebalance_timeout_ms=rebalance_timeout_ms,
        assignor=assignor,
        classic=None if classic is None else _read_classic(classic),
    )


def _read_classic(data: bytes) -> ClassicMember | None:
    source = Reader(data)
    source.flexible = True
    if source.int8() <= 0:
        return None
    session_timeout_ms = source.int32()
    protocols = []
    for _ in range(source.array_length()):
        protocols.append((source.string(), source.blob()))
        source.tagged_fields()
    return ClassicMember(session_timeout_ms=session_timeout_ms, protocols=tuple(protocols))


def by_topic(partitions: Iterable[TopicIdPartition]) -> dict[UUID, list[int]]:
    """Return the partitions of each topic; both sorted."""
    topics: dict[UUID, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return topics


def _write_target(out: Writer, value: Target) -> None:
    topics = by_topic(value.partitions)
    out.array_length(len(topics))
    for topic, indexes in topics.items():
        out.uuid(topic).int32s(indexes).tagged_fields()
    out.tagged_fields()


def _read_target(source: Reader) -> Target:
    found: list[TopicIdPartition] = []
    for _ in range(source.array_length()):
        topic = source.uuid()
        found += [(topic, index) for index in source.int32s()]
        source.tagged_fields()
    return Target(frozenset(found))


def _write_held(out: Writer, held: Mapping[TopicIdPartition, int]) -> None:
    topics = by_topic(held)
    out.array_length(len(topics))
    for topic, indexes in topics.items():
        epochs = Writer()
        epochs.flexible = True
        epochs.int32s(held[topic, index] for index in indexes)
        out.uuid(topic).int32s(indexes).tagged_fields({0: epochs.bytes()})


def _read_held(source: Reader, epoch: int) -> dict[TopicIdPartition, int]:
    """Read partitions and their epochs; without epochs (before KIP-1251), each has the member's."""
    held: dict[TopicIdPartition, int] = {}
    for _ in range(source.array_length()):
        topic, indexes = source.uuid(), source.int32s()
        data = source.tagged_fields().get(0)
        epochs: Iterable[int] = (max(epoch, 0),) * len(indexes)
        if data is not None:
            reader = Reader(data)
            reader.flexible = True
            epochs = reader.int32s()
        held |= {(topic, index): each for index, each in zip(indexes, epochs, strict=False)}
    return held


def _read_current(source: Reader) -> CurrentAssignment:
    epoch, previous_epoch, state = source.int32(), source.int32(), source.int8()
    return CurrentAssignment(
        epoch=epoch,
        previous_epoch=previous_epoch,
        state=MemberState(state) if state in (0, 1, 2) else MemberState.UNKNOWN,
        assigned=_read_held(source, epoch),
        revoking=_read_held(source, epoch),
    )


_READERS: dict[ConsumerRecord, Callable[[Reader], ConsumerValue]] = {
    ConsumerRecord.METADATA: lambda source: GroupEpoch(epoch=source.int32(), metadata_hash=_read_int64_field(source)),
    ConsumerRecord.MEMBER_METADATA: _read_member,
    ConsumerRecord.TARGET_ASSIGNMENT_METADATA: lambda source: TargetEpoch(
        epoch=source.int32(), timestamp_ms=_read_int64_field(source)
    ),
    ConsumerRecord.TARGET_ASSIGNMENT_MEMBER: _read_target,
    ConsumerRecord.CURRENT_MEMBER_ASSIGNMENT: _read_current,
    ConsumerRecord.REGULAR_EXPRESSION: lambda source: ResolvedRegex(
        topics=source.strings(), version=source.int64(), timestamp_ms=source.int64()
    ),
}
