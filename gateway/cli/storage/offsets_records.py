"""The records of ``__consumer_offsets``, in words and as JSON."""

from __future__ import annotations

from typing import Any

from muster.actors.group.codec.consumer_protocol import PROTOCOL_TYPE, assigned_partitions, subscribed_topics
from muster.actors.group.codec.consumer_records import ConsumerKey
from muster.actors.group.codec.records import (
    CommittedOffset,
    GroupMetadata,
    MemberMetadata,
    OffsetKey,
    RecordKey,
    UnknownKey,
    Value,
    decode_key,
    decode_value,
)
from muster.actors.group.errors import CorruptRecord
from muster.gateway.cli.storage.consumer_group_records import (
    consumer_in_words,
    consumer_key_as_json,
    consumer_value_as_json,
)
from muster.gateway.client.groups import assignments


def in_words(key: bytes | None, value: bytes | None) -> str | None:
    """Return one line; None if the bytes are none of Kafka's records for groups."""
    read = _read(key, value)
    if read is None:
        return None
    what, held = read
    if isinstance(what, ConsumerKey):
        return consumer_in_words(what, held)
    if isinstance(what, OffsetKey):
        place = f"group {what.group}, {what.topic}-{what.partition}"
        if not isinstance(held, CommittedOffset):
            return f"{place}: offset deleted"
        metadata = f', metadata "{held.metadata}"' if held.metadata else ""
        return f"{place}: offset {held.offset}, leader epoch {held.leader_epoch}{metadata}"
    if not isinstance(held, GroupMetadata):
        return f"group {what.group}: deleted"
    protocol = f"{held.protocol_type or '-'} {held.protocol or '-'}"
    members = "; ".join(_member_in_words(held, member) for member in held.members) or "no members"
    return f"group {what.group}: generation {held.generation}, {protocol}, leader {held.leader or '-'}: {members}"


def decoded(key: bytes | None, value: bytes | None) -> dict[str, Any] | None:
    """Return ``key`` and ``value`` for JSON, where the value of a tombstone is None."""
    read = _read(key, value)
    if read is None:
        return None
    what, held = read
    if isinstance(what, ConsumerKey):
        return {"key": consumer_key_as_json(what), "value": consumer_value_as_json(held)}
    return {"key": what._asdict(), "value": _value_as_json(held)}


def _read(key: bytes | None, value: bytes | None) -> tuple[RecordKey, Value | None] | None:
    if key is None:
        return None
    try:
        what = decode_key(key)
        if isinstance(what, UnknownKey):
            return None
        return what, None if value is None else decode_value(what, value)
    except CorruptRecord:
        return None


def _value_as_json(held: Value | None) -> dict[str, Any] | None:
    if held is None:
        return None
    if isinstance(held, CommittedOffset):
        return {
            "offset": held.offset,
            "leader_epoch": held.leader_epoch,
            "metadata": held.metadata,
            "commit_timestamp": held.commit_timestamp_ms,
            "expire_timestamp": held.expire_timestamp_ms,
        }
    assert isinstance(held, GroupMetadata)
    return {
        "protocol_type": held.protocol_type,
        "generation": held.generation,
        "protocol": held.protocol,
        "leader": held.leader,
        "state_timestamp": held.state_timestamp_ms,
        "members": [_member_as_json(held, member) for member in held.members],
    }


def _member_as_json(group: GroupMetadata, member: MemberMetadata) -> dict[str, Any]:
    topics = assigned = None
    if group.protocol_type == PROTOCOL_TYPE:
        topics, assigned = subscribed_topics(member.subscription), assigned_partitions(member.assignment)
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "subscription": None if topics is None else sorted(topics),
        "assignment": None if assigned is None else sorted(map(list, assigned)),
    }


def _member_in_words(group: GroupMetadata, member: MemberMetadata) -> str:
    holds = assignments.in_words(group.protocol_type, member) or "nothing"
    instance = f", instance {member.group_instance_id}" if member.group_instance_id else ""
    return (
        f"{member.member_id} (client {member.client_id} on {member.client_host}{instance}, "
        f"session {member.session_timeout_ms} ms) has {holds}"
    )
