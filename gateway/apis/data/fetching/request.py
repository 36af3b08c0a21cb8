"""Reads a Fetch. One that continues its session and changes nothing, as nearly all do, needs no kio."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from muster.gateway.fetch_sessions.cache import SessionRequest
from muster.gateway.fetch_sessions.partition import CachedPartition, Key
from muster.gateway.fetch_sessions.session import FINAL_EPOCH, INVALID_SESSION_ID
from muster.gateway.listener.api import Call

_FIRST_WITH_IDS = 13
_FIRST_PLAIN, _FIRST_WITHOUT_REPLICA_ID = 12, 15
_PLAIN = struct.Struct(">iiibiiBBB")
"""Limits, isolation level, session, the sizes of both arrays and of the rack, each plus one."""
_CONSUMER = b"\xff\xff\xff\xff"
"""In place of a replica id."""
_NOTHING = 1
_MAX_RACK_BYTES = 126


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
    """Return the request of the call. Raises UndecodableRequest."""
    return _read_plain(call) or _of_entity(call.entity(), call.header.api_version)


def _read_plain(call: Call) -> Request | None:
    """Return a request without partitions; None if it is another one, or not one at all."""
    _, version, _, _, at = call.header
    if version < _FIRST_PLAIN:
        return None
    if version < _FIRST_WITHOUT_REPLICA_ID:
        if call.frame[at : at + 4] != _CONSUMER:
            return None
        at += 4
    frame = call.frame
    try:
        max_wait_ms, min_bytes, max_bytes, isolation, session_id, epoch, topics, forgotten, rack = _PLAIN.unpack_from(
            frame, at
        )
        at += _PLAIN.size
        end = at + rack - 1
        if topics != _NOTHING or forgotten != _NOTHING or not 0 < rack <= _MAX_RACK_BYTES or frame[end]:
            return None
        rack_id = frame[at:end].decode()
    except (struct.error, IndexError, UnicodeDecodeError):
        return None
    session = SessionRequest(session_id, epoch, (), (), version >= _FIRST_WITH_IDS)
    return Request(max_wait_ms, min_bytes, max_bytes, isolation, rack_id, session)


def _of_entity(request: Any, version: int) -> Request:
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
