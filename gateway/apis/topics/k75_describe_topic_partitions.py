"""DescribeTopicPartitions (api key 75), v0 (KIP-966): topics by name, some partitions at a time.

A response has at most response_partition_limit partitions, and ``max.request.partition.size.limit`` in any case; its
cursor is where the next request continues. All replicas are in sync, so there are no eligible leaders beside them.
"""

from __future__ import annotations

from itertools import compress
from typing import Any

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.admin import INTERNAL_TOPICS, name_error
from muster.gateway.apis.cluster.k03_metadata import partition_body
from muster.gateway.apis.guards.guard import Guard
from muster.gateway.apis.guards.operations import OMITTED
from muster.gateway.apis.guards.rights import DESCRIBE_TOPIC, TOPIC
from muster.gateway.listener.api import Call, Reply, Rule, api
from muster.gateway.listener.gateway import Gateway
from muster.placement.view import ClusterView, Topic


def _error_body(call: Call, error: ErrorCode) -> dict[str, Any]:
    names = [topic.name for topic in call.entity().topics] or sorted(call.gateway.view.topics)
    topics = [_missing(name, error) for name in names]
    return {"topics": topics, "next_cursor": None}


_GUARD = Guard(
    inside=(
        Rule((DESCRIBE_TOPIC,), "that the request names", ErrorCode.topic_authorization_failed),
        Rule((DESCRIBE_TOPIC,), "where it names none", None),
    )
)


@api(75, "DescribeTopicPartitions", guard=_GUARD, error_body=_error_body)
async def describe_topic_partitions(call: Call) -> Reply | None:
    request, gateway, view = call.entity(), call.gateway, call.gateway.view
    begin = ("", 0) if request.cursor is None else (request.cursor.topic_name, request.cursor.partition_index)
    if begin[1] < 0:
        return call.reply({"throttle_time": 0, **_error_body(call, ErrorCode.invalid_request)})
    named = sorted({topic.name for topic in request.topics})
    names = [name for name in named or sorted(view.topics) if name >= begin[0]]
    are_seen = await call.each(names, lambda name: DESCRIBE_TOPIC.allowed(call, name, logged=bool(named)))
    seen = [*compress(names, are_seen)]
    refused = [_refused(name) for name, is_seen in zip(names, are_seen, strict=True) if named and not is_seen]
    limit = max(min(request.response_partition_limit, gateway.config.max_request_partition_size_limit), 1)
    page = _Page(gateway, view, begin, limit)
    topics = [topic for topic in await call.each(seen, page.add) if topic is not None]
    for topic in topics:
        topic["topic_authorized_operations"] = call.operations(TOPIC, topic["name"])
    return call.reply({"throttle_time": 0, "topics": topics + refused, "next_cursor": page.cursor})


def _refused(name: str) -> dict[str, Any]:
    return _missing(name, ErrorCode.topic_authorization_failed) | {"is_internal": False}


class _Page:
    """The topics of a response with at most that many partitions, one after the other."""

    def __init__(self, gateway: Gateway, view: ClusterView, begin: tuple[str, int], limit: int) -> None:
        self.cursor: dict[str, Any] | None = None
        """Where the next request continues; set once the page is full."""
        self._gateway = gateway
        self._view = view
        self._begin = begin
        self._limit = limit

    def add(self, name: str) -> dict[str, Any] | None:
        """Return the next topic by name; None if it is not on the page."""
        if self.cursor is not None:
            return None
        if not self._limit:
            self.cursor = _cursor(name, 0)
            return None
        topic = self._view.topics.get(name)
        if topic is None:
            invalid = name_error(name) is not None
            return _missing(
                name, ErrorCode.invalid_topic_exception if invalid else ErrorCode.unknown_topic_or_partition
            )
        first = self._begin[1] if name == self._begin[0] else 0
        end = min(first + self._limit, topic.partitions)
        if end < topic.partitions:
            self.cursor = _cursor(name, end)
        self._limit -= max(end - first, 0)
        return _found(self._gateway, self._view, topic, range(first, end))


def _cursor(name: str, partition: int) -> dict[str, Any]:
    return {"topic_name": name, "partition_index": partition}


def _found(gateway: Gateway, view: ClusterView, topic: Topic, partitions: range) -> dict[str, Any]:
    others: dict[str, Any] = {"eligible_leader_replicas": [], "last_known_elr": []}
    return {
        "error_code": ErrorCode.none,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.internal,
        "partitions": [{**partition_body(gateway, view, topic, partition), **others} for partition in partitions],
    }


def _missing(name: str, error: ErrorCode) -> dict[str, Any]:
    return {
        "error_code": error,
        "name": name,
        "topic_id": None,
        "is_internal": name in INTERNAL_TOPICS,
        "partitions": [],
        "topic_authorized_operations": OMITTED,
    }
