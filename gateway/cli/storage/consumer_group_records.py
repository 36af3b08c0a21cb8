"""The records of consumer groups in ``__consumer_offsets``, in words and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from muster.actors.group.codec.consumer_records import (
    ConsumerKey,
    ConsumerRecord,
    CurrentAssignment,
    GroupEpoch,
    MemberMetadata,
    ResolvedRegex,
    Target,
    TargetEpoch,
    TopicIdPartition,
    by_topic,
)
from muster.actors.group.consumer.state import ConsumerGroup
from muster.placement.mapping.nodes import host_text

_WHAT: Mapping[ConsumerRecord, str] = {
    ConsumerRecord.METADATA: "group epoch",
    ConsumerRecord.PARTITION_METADATA: "subscribed topics",
    ConsumerRecord.MEMBER_METADATA: "member",
    ConsumerRecord.TARGET_ASSIGNMENT_METADATA: "assignment epoch",
    ConsumerRecord.TARGET_ASSIGNMENT_MEMBER: "target assignment of",
    ConsumerRecord.CURRENT_MEMBER_ASSIGNMENT: "assignment of",
    ConsumerRecord.REGULAR_EXPRESSION: "regular expression",
}


def consumer_in_words(key: ConsumerKey, value: object) -> str:
    """Return one line. ``value`` is that of the record, None for a tombstone."""
    place = f"consumer group {key.group}, {' '.join(filter(None, (_WHAT[key.kind], key.name)))}"
    match value:
        case None:
            return f"{place}: deleted"
        case GroupEpoch() | TargetEpoch():
            return f"{place}: {value.epoch}"
        case MemberMetadata():
            return f"{place}: {_member_in_words(value)}"
        case Target():
            return f"{place}: {_partitions_in_words(value.partitions)}"
        case CurrentAssignment():
            gives_up = f", gives up {_partitions_in_words(value.revoking)}" if value.revoking else ""
            return f"{place}: epoch {value.epoch}, {value.state.name}, {_partitions_in_words(value.assigned)}{gives_up}"
        case ResolvedRegex():
            return f"{place}: {', '.join(value.topics) or 'no topics'}"
        case _:
            return place


def consumer_key_as_json(key: ConsumerKey) -> dict[str, Any]:
    """Return the fields of the key."""
    return {"type": int(key.kind), "group": key.group, "name": key.name}


def consumer_value_as_json(value: object) -> dict[str, Any] | None:
    """Return the fields of a value; None for a tombstone."""
    match value:
        case GroupEpoch():
            return {"epoch": value.epoch, "metadata_hash": value.metadata_hash}
        case TargetEpoch():
            return {"epoch": value.epoch, "timestamp": value.timestamp_ms}
        case MemberMetadata():
            return {
                "group_instance_id": value.instance_id,
                "rack_id": value.rack_id,
                "client_id": value.client_id,
                "client_host": value.client_host,
                "topics": list(value.topics),
                "regex": value.regex or None,
                "rebalance_timeout_ms": value.rebalance_timeout_ms,
                "assignor": value.assignor,
                "protocol": "consumer" if value.classic is None else "classic",
            }
        case Target():
            return {"partitions": _partitions_as_json(value.partitions)}
        case CurrentAssignment():
            return {
                "epoch": value.epoch,
                "previous_epoch": value.previous_epoch,
                "state": value.state.name,
                "assigned": _partitions_as_json(value.assigned),
                "revoking": _partitions_as_json(value.revoking),
            }
        case ResolvedRegex():
            return {"topics": list(value.topics), "version": value.version, "timestamp": value.timestamp_ms}
        case _:
            return None


def consumer_group_row(group: ConsumerGroup, offsets: int) -> tuple[Any, ...]:
    """Return the row of a table of groups, as for a classic group; the epoch is in place of the generation."""
    return (group.id, group.state().value, "consumer", None, group.epoch, None, len(group.members), offsets)


def consumer_member_rows(group: ConsumerGroup) -> list[tuple[Any, ...]]:
    """Return the rows of a table of members, as for a classic group."""
    return [
        (
            group.id,
            member_id,
            member.instance_id,
            member.client_id,
            host_text(member.client_host),
            member.classic.session_timeout_ms if member.classic else None,
            _partitions_in_words(group.assignment_of(member_id).assigned),
        )
        for member_id, member in group.members.items()
    ]


def consumer_group_as_json(group: ConsumerGroup) -> dict[str, Any]:
    """Return the group without its offsets."""
    return {
        "group": group.id,
        "state": group.state().value,
        "protocol_type": "consumer",
        "epoch": group.epoch,
        "assignment_epoch": group.target_epoch,
        "members": [
            {
                "member_id": member_id,
                **(consumer_value_as_json(member) or {}),
                "current": consumer_value_as_json(group.assignment_of(member_id)),
                "target": _partitions_as_json(group.target_of(member_id)),
            }
            for member_id, member in group.members.items()
        ],
    }


def _member_in_words(member: MemberMetadata) -> str:
    named = [*member.topics, *([f"/{member.regex}/"] if member.regex else [])]
    instance = f", instance {member.instance_id}" if member.instance_id else ""
    protocol = "" if member.classic is None else ", classic protocol"
    return (
        f"client {member.client_id} on {member.client_host}{instance}{protocol}, subscribed to "
        f"{', '.join(named) or 'nothing'}"
    )


def _partitions_in_words(partitions: Iterable[TopicIdPartition]) -> str:
    parts = [f"{topic} {', '.join(map(str, indexes))}" for topic, indexes in by_topic(partitions).items()]
    return "; ".join(parts) or "nothing"


def _partitions_as_json(partitions: Iterable[TopicIdPartition]) -> list[dict[str, Any]]:
    return [{"topic_id": str(topic), "partitions": indexes} for topic, indexes in by_topic(partitions).items()]
