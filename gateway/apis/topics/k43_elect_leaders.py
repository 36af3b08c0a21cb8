"""ElectLeaders (api key 43), v0-2: the leader of a partition is its first replica already, while any gateway serves.

v1 the type of the election (KIP-460), which makes no difference
As in Kafka, a request for all partitions is answered with all topics, and with the partitions that were not as they
should be.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from muster.actors.wire.kafka.codec import ErrorCode, field
from muster.gateway.apis.guards.guard import Guard, Need
from muster.gateway.apis.guards.rights import ALTER_CLUSTER, the_cluster
from muster.gateway.listener.api import Call, Reply, api
from muster.gateway.listener.gateway import Gateway

_PREFERRED, _UNCLEAN = 0, 1
_NOT_NEEDED = "Leader election not needed for topic partition."
_NO_GATEWAY = "No gateway serves at the moment."

Result = tuple[ErrorCode, str | None]


def _error_body(call: Call, error: ErrorCode) -> dict[str, Any]:
    results: dict[tuple[str, int], Result] = dict.fromkeys(_named(call.entity()), (error, call.reason))
    return _body(results, ErrorCode.none if results else error)


_GUARD = Guard(
    Need((ALTER_CLUSTER,), the_cluster), body=lambda call, error: {**_error_body(call, error), "error_code": error}
)


@api(43, "ElectLeaders", guard=_GUARD, error_body=_error_body)
async def elect_leaders(call: Call) -> Reply | None:
    request, view = call.entity(), call.gateway.view
    election_type = field(request, "election_type", _PREFERRED)
    if election_type not in (_PREFERRED, _UNCLEAN):
        refusal: Result = (ErrorCode.invalid_request, f"Unknown election type {election_type}")
        return call.reply(_body(dict.fromkeys(_named(request), refusal), ErrorCode.invalid_request))
    if request.topic_partitions is not None:
        return call.reply(_body({wanted: _elected(call.gateway, *wanted) for wanted in _named(request)}))
    every = [(topic.name, partition) for topic in view.topics.values() for partition in range(topic.partitions)]
    results = {each: _elected(call.gateway, *each) for each in every}
    needed = {each: result for each, result in results.items() if result[0] is not ErrorCode.election_not_needed}
    return call.reply(_body(needed, topics=view.topics))


def _named(request: Any) -> list[tuple[str, int]]:
    return [(topic.topic, partition) for topic in request.topic_partitions or () for partition in topic.partitions]


def _elected(gateway: Gateway, name: str, partition: int) -> Result:
    topic = gateway.view.topics.get(name)
    if topic is None:
        return ErrorCode.unknown_topic_or_partition, f"No such topic as {name}"
    if not 0 <= partition < topic.partitions:
        return ErrorCode.unknown_topic_or_partition, f"No such partition as {name}-{partition}"
    if gateway.view.leader_of(topic, partition) is None:
        return ErrorCode.preferred_leader_not_available, _NO_GATEWAY
    return ErrorCode.election_not_needed, _NOT_NEEDED


def _body(
    results: dict[tuple[str, int], Result], error: ErrorCode = ErrorCode.none, topics: Iterable[str] = ()
) -> dict[str, Any]:
    """``topics`` are in the response in any case."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in topics}
    for (name, partition), (code, message) in results.items():
        found.setdefault(name, []).append({"partition_id": partition, "error_code": code, "error_message": message})
    return {
        "throttle_time": 0,
        "error_code": error,
        "replica_election_results": [{"topic": name, "partition_result": members} for name, members in found.items()],
    }
