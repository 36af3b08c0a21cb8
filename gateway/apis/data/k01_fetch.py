"""Fetch (api key 1), v4-18.

Waits up to max_wait for min_bytes over all partitions, however many log actors own them; max_bytes applies
overall and per partition, but a first batch is always returned whole (KIP-74). Fetch sessions are those of KIP-227
(muster.gateway.fetch_sessions): a gateway's own, so a client that goes to another gateway begins a new one. If a
partition occurs twice, the last occurrence counts, as in Kafka. Records in logs of this node are read from their files
(muster.gateway.apis.data.fetching.segment_files). What is sent is counted for the group that fetches when it is written
to the socket, not before. A consumer that names another rack (v11+) is led to the partition's replica there, as by
Kafka's RackAwareReplicaSelector (KIP-392).
"""

from __future__ import annotations

from typing import Any

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.data.fetching.fetch import open_fetch
from muster.gateway.apis.data.fetching.plan import envelope
from muster.gateway.apis.data.fetching.serving import serve, serve_directly
from muster.gateway.apis.guards.guard import Guard
from muster.gateway.apis.guards.rights import CLUSTER_ACTION, READ_TOPIC
from muster.gateway.fetch_sessions.cache import SessionError
from muster.gateway.fetch_sessions.session import INVALID_SESSION_ID
from muster.gateway.listener.api import Call, Cancel, Reply, Responder, Rule, api

FETCH = 1
_SESSION_ERRORS = frozenset(
    {
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error,
    }
)


def _error_body(call: Call, error: ErrorCode) -> dict[str, Any]:
    """Errors of fetch sessions apply to the whole request, as in Kafka; others to all partitions of its session."""
    if error in _SESSION_ERRORS:
        return _failed(error)
    try:
        return open_fetch(call).error_body(error)
    except SessionError as failed:
        return _failed(failed.code)


def _failed(error: ErrorCode) -> dict[str, Any]:
    return envelope(error, INVALID_SESSION_ID, [])


def _forward(call: Call, responder: Responder) -> Cancel | None:
    """Serve a fetch of actors that are connected without a task."""
    if call.connection.has_old_metadata:
        return None
    try:
        return serve_directly(open_fetch(call), responder)
    except SessionError:
        return None


_REFUSED = ErrorCode.topic_authorization_failed
_GUARD = Guard(
    inside=(
        Rule((READ_TOPIC,), "", _REFUSED),
        Rule((CLUSTER_ACTION,), "with a replica id, as followers have", _REFUSED),
    )
)


@api(FETCH, "Fetch", guard=_GUARD, error_body=_error_body, forward=_forward, one_at_a_time=True)
async def fetch(call: Call) -> Reply | None:
    try:
        opened = open_fetch(call)
    except SessionError as error:
        return call.reply(_failed(error.code))
    if call.connection.has_old_metadata:
        call.connection.has_old_metadata = False
        return call.reply(opened.error_body(ErrorCode.not_leader_or_follower))
    opened.begin()
    return await serve(opened, {})
