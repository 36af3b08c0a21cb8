"""Records of ``__consumer_offsets`` in the scenario language. Times are ms since the start of the scenario."""

from __future__ import annotations

from collections.abc import Iterable

from muster.actors.group.codec.consumer_records import (
    ConsumerKey,
    CurrentAssignment,
    GroupEpoch,
    ResolvedRegex,
    Target,
    TargetEpoch,
    TopicIdPartition,
)
from muster.actors.group.codec.consumer_records import MemberMetadata as ConsumerMemberMetadata
from muster.actors.group.codec.records import (
    NO_TIMESTAMP,
    CommittedOffset,
    GroupMetadata,
    MemberMetadata,
    OffsetKey,
    UnknownKey,
    decode_key,
    decode_value,
)
from muster.actors.group.types import Record, TxnMarker
from tests.group.transactions.logged import InTransaction, Logged


def describe(entry: Logged, began_ms: int) -> str:
    """One line: the producer of a transaction, the key, the content of the record."""
    if isinstance(entry, TxnMarker):
        producer_id, epoch = entry.producer
        verdict = "commit" if entry.commit else "abort"
        return f"producer {producer_id}/{epoch} {verdict} by coordinator epoch {entry.coordinator_epoch}"
    if isinstance(entry, InTransaction):
        producer_id, epoch = entry.producer
        return f"producer {producer_id}/{epoch} {_record(entry.record, began_ms)}"
    return _record(entry, began_ms)


def _record(record: Record, began_ms: int) -> str:
    key = decode_key(record.key)
    if isinstance(key, UnknownKey):
        return f"key of type {key.key_type}"
    if isinstance(key, ConsumerKey):
        return _consumer(key, record, began_ms)
    where = f"offset {key.group} {key.topic}/{key.partition}" if isinstance(key, OffsetKey) else f"group {key.group}"
    if record.value is None:
        return f"{where} tombstone"
    value = decode_value(key, record.value)
    version = int.from_bytes(record.value[:2], "big")
    if isinstance(value, CommittedOffset):
        return f"{where} v{version} {_offset(value, began_ms)}"
    assert isinstance(value, GroupMetadata)
    return f"{where} v{version} {_group(value, began_ms)}"


def _consumer(key: ConsumerKey, record: Record, began_ms: int) -> str:
    where = " ".join(filter(None, ("consumer group", key.group, key.kind.name.lower(), key.name)))
    if record.value is None:
        return f"{where} tombstone"
    match value := decode_value(key, record.value):
        case GroupEpoch():
            return f"{where} epoch={value.epoch} hash={'yes' if value.metadata_hash else 'none'}"
        case TargetEpoch():
            at = value.timestamp_ms - began_ms if value.timestamp_ms else "unknown"
            return f"{where} epoch={value.epoch} at={at}"
        case Target():
            return f"{where} [{_indexes(value.partitions)}]"
        case CurrentAssignment():
            held = f"[{_indexes(value.assigned)}] revoking=[{_indexes(value.revoking)}]"
            return f"{where} epoch={value.epoch} before={value.previous_epoch} {value.state.name} {held}"
        case ResolvedRegex():
            return f"{where} topics=[{' '.join(value.topics)}]"
        case ConsumerMemberMetadata():
            classic = "" if value.classic is None else f" classic={value.classic.session_timeout_ms}"
            said = f"client={value.client_id} topics=[{' '.join(value.topics)}] timeout={value.rebalance_timeout_ms}"
            return f"{where} {said}{classic}"
    return f"{where} {len(record.value)} bytes"


def _indexes(partitions: Iterable[TopicIdPartition]) -> str:
    return " ".join(str(index) for _, index in sorted(partitions))


def _at(timestamp_ms: int, began_ms: int) -> str:
    return "none" if timestamp_ms == NO_TIMESTAMP else str(timestamp_ms - began_ms)


def _offset(value: CommittedOffset, began_ms: int) -> str:
    said = f"{value.offset} epoch={value.leader_epoch} at={_at(value.commit_timestamp_ms, began_ms)}"
    if value.metadata:
        said += f' metadata="{value.metadata}"'
    if value.expire_timestamp_ms is not None:
        said += f" expires={_at(value.expire_timestamp_ms, began_ms)}"
    return said


def _group(value: GroupMetadata, began_ms: int) -> str:
    said = (
        f'type="{value.protocol_type}" generation={value.generation} protocol={value.protocol or "null"} '
        f"leader={value.leader or 'null'} at={_at(value.state_timestamp_ms, began_ms)}"
    )
    members = " ".join(_member(member) for member in value.members)
    return f"{said} members=[{members}]"


def _member(member: MemberMetadata) -> str:
    instance = f"({member.group_instance_id})" if member.group_instance_id is not None else ""
    return (
        f"{member.member_id}{instance}:{member.session_timeout_ms}/{member.rebalance_timeout_ms}:"
        f"{len(member.subscription)}+{len(member.assignment)} bytes"
    )
