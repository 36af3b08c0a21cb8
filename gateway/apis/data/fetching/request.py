"""Reads a Fetch of any version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from muster.gateway.fetch_sessions.cache import SessionRequest
from muster.gateway.fetch_sessions.partition import CachedPartition, Key
from muster.gateway.fetch_sessions.session import FINAL_EPOCH, INVALID_SESSION_ID
from muster.gateway.listener.api import Call

_FIRST_WITH_IDS = 13


class Request(NamedTuple):
    """A Fetch. Limits as in Kafka's."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    rack_id: str
    session: SessionRequest
    is_of_follower: bool = False
    """Whether it names a replica, as followers do."""


def read_request(call: Call) -> Request:
    """Return the request of the call. Raises UndecodableRequest or LargeRequest."""
    request, version = call.entity(), call.header.api_version
    partitions: dict[Key, CachedPartition] = {}
    for topic in request.topics:
        name, topic_id = getattr(topic, "topic", None), getattr(topic, "topic_id", None)
        for item in topic.partitions:
            key = (name, topic_id, item.partition)
            partitions[key] = CachedPartition(
                key,
                item.fetch_offset,
                item.partition_max_bytes,
                getattr(item, "current_leader_epoch", -1),
                getattr(item, "last_fetched_epoch", -1),
            )
    forgotten: Sequence[Key] = ()
    if topics := getattr(request, "forgotten_topics_data", ()):
        forgotten = [
            (getattr(topic, "topic", None), getattr(topic, "topic_id", None), partition)
            for topic in topics
            for partition in topic.partitions
        ]
    session = SessionRequest(
        getattr(request, "session_id", INVALID_SESSION_ID),
        getattr(request, "session_epoch", FINAL_EPOCH),
        partitions.values(),
        forgotten,
        version >= _FIRST_WITH_IDS,
    )
    return Request(
        request.max_wait,
        request.min_bytes,
        request.max_bytes,
        getattr(request, "isolation_level", 0),
        getattr(request, "rack_id", ""),
        session,
        getattr(getattr(request, "replica_state", request), "replica_id", -1) >= 0,
    )
