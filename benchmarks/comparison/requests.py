"""Frames of the compared requests, and positions in their responses.

Versions are those of Java's clients of Kafka 4, or the last ones that have topics' names instead of ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.raw_client import ApiVersion, request

HEARTBEAT, OFFSET_COMMIT, OFFSET_FETCH = (12, 4), (8, 9), (9, 9)
JOIN_GROUP, SYNC_GROUP = (11, 9), (14, 5)
PRODUCE, FETCH = (0, 11), (1, 12)

CLIENT_ID = "bench"
_HEADER = 4 + 2 + 2 + 4 + 2 + len(CLIENT_ID) + 1
"""Bytes of a request before its body: size, api key, version, correlation id, client id, tagged fields."""
ERROR_AT = 9
"""Position in Heartbeat, JoinGroup and SyncGroup responses: after correlation id, tagged fields and throttle time."""
JOINED_GENERATION_AT = 11
"""Position in a JoinGroup response."""


def frame(api: ApiVersion, body: dict[str, Any]) -> bytes:
    return request(api, body, CLIENT_ID)


def heartbeat(group: str, generation: int, member_id: str) -> bytes:
    body = {"group_id": group, "generation_id": generation, "member_id": member_id, "group_instance_id": None}
    return frame(HEARTBEAT, body)


def commit(group: str, generation: int, member_id: str, topic: str, partitions: Sequence[int], offset: int) -> bytes:
    items = [
        {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""} for partition in partitions
    ]
    body = {
        "group_id": group,
        "generation_id_or_member_epoch": generation,
        "member_id": member_id,
        "group_instance_id": None,
        "topics": [{"name": topic, "partitions": items}],
    }
    return frame(OFFSET_COMMIT, body)


def commit_error_at(topic: str) -> int:
    """Return the position for the first partition in an OffsetCommit response."""
    return 4 + 1 + 4 + 1 + 1 + len(topic) + 1 + 4


def offset_fetch(group: str, topic: str, partitions: Sequence[int]) -> bytes:
    topics = [{"name": topic, "partition_indexes": list(partitions)}]
    groups = [{"group_id": group, "member_id": None, "member_epoch": -1, "topics": topics}]
    return frame(OFFSET_FETCH, {"groups": groups, "require_stable": False})


def offset_fetch_error_at(group: str, topic: str) -> int:
    """Return the position for the first partition in an OffsetFetch response, if its metadata is empty."""
    before = 4 + 1 + 4 + 1 + 1 + len(group) + 1 + 1 + len(topic) + 1
    return before + 4 + 8 + 4 + 1


def sync_generation_at(group: str) -> int:
    """Return the position in a SyncGroup request."""
    return _HEADER + 1 + len(group)


def join(group: str, member_id: str, metadata: bytes, session_timeout_ms: int) -> bytes:
    body = {
        "group_id": group,
        "session_timeout": session_timeout_ms,
        "rebalance_timeout": 300_000,
        "member_id": member_id,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": metadata}],
        "reason": None,
    }
    return frame(JOIN_GROUP, body)


def sync(group: str, generation: int, member_id: str, assignments: Sequence[tuple[str, bytes]]) -> bytes:
    body = {
        "group_id": group,
        "generation_id": generation,
        "member_id": member_id,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": member, "assignment": data} for member, data in assignments],
    }
    return frame(SYNC_GROUP, body)


def produce(topic: str, partition: int, records: bytes) -> bytes:
    data = [{"name": topic, "partition_data": [{"index": partition, "records": records}]}]
    return frame(PRODUCE, {"transactional_id": None, "acks": -1, "timeout": 30_000, "topic_data": data})


def produce_error_at(topic: str) -> int:
    """Return the position for the first partition in a Produce response."""
    return 4 + 1 + 1 + 1 + len(topic) + 1 + 4


def fetch(topic: str, partition: int, offset: int, size: int) -> bytes:
    """Return a Fetch of at most ``size`` bytes, or one batch."""
    item = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": size}
    topics = [{"topic": topic, "partitions": [item]}]
    limits = {"max_wait": 500, "min_bytes": 1, "max_bytes": 64 << 20}
    return frame(FETCH, {**limits, "topics": topics, "forgotten_topics_data": []})


def fetch_error_at(topic: str) -> int:
    """Return the position for the first partition in a Fetch response."""
    return 4 + 1 + 4 + 2 + 4 + 1 + 1 + len(topic) + 1 + 4


def fetch_offset_at(topic: str) -> int:
    """Return the position in a Fetch request for one partition."""
    limits = 4 + 4 + 4 + 4 + 1  # replica, wait, bytes, isolation level
    return _HEADER + limits + 4 + 4 + 1 + 1 + len(topic) + 1 + 4 + 4


def high_watermark_at(topic: str) -> int:
    """Return the position for the first partition in a Fetch response."""
    return fetch_error_at(topic) + 2
