"""AlterPartitionReassignments (api key 45), v0-1: which gateways are named as replicas is not for clients to decide.

v1 allow_replication_factor_change (KIP-860)
A reassignment to the replicas that there are is done. Another one is refused: there is one copy of a partition, and
placement decides who serves it. So no reassignment is ever in progress, and none can be cancelled.
"""

from __future__ import annotations

from typing import Any

from muster.actors.wire.codec import ErrorCode, field
from muster.gateway.apis.guards.guard import Guard, Need
from muster.gateway.apis.guards.rights import ALTER_CLUSTER, the_cluster
from muster.gateway.apis.topics.k19_create_topics import assignment_error
from muster.gateway.listener.registry import Call, Reply, api
from muster.placement.view import ClusterView, Topic

Result = tuple[ErrorCode, str | None]


def _error_body(call: Call, error: ErrorCode) -> dict[str, Any]:
    failed: Result = (error, call.reason)
    responses = [
        {"name": topic.name, "partitions": [_result(each.partition_index, failed) for each in topic.partitions]}
        for topic in call.entity().topics
    ]
    whole = ErrorCode.none if responses else error
    return {"error_code": whole, "error_message": None, "responses": responses}


def _refused(call: Call, error: ErrorCode) -> dict[str, Any]:
    return {**_error_body(call, error), "error_code": error, "error_message": call.reason}


_GUARD = Guard(Need((ALTER_CLUSTER,), the_cluster), body=_refused)


@api(45, "AlterPartitionReassignments", guard=_GUARD, error_body=_error_body)
async def alter_partition_reassignments(call: Call) -> Reply | None:
    request, view = call.entity(), call.gateway.view
    may_grow = field(request, "allow_replication_factor_change", True)
    responses = [
        {
            "name": topic.name,
            "partitions": [
                _result(each.partition_index, _altered(view, topic.name, each, may_grow=may_grow))
                for each in topic.partitions
            ],
        }
        for topic in request.topics
    ]
    return call.reply(
        {
            "throttle_time": 0,
            "allow_replication_factor_change": may_grow,
            "error_code": ErrorCode.none,
            "error_message": None,
            "responses": responses,
        }
    )


def _altered(view: ClusterView, name: str, wanted: Any, *, may_grow: bool) -> Result:
    topic, partition = view.topics.get(name), wanted.partition_index
    if topic is None:
        return ErrorCode.unknown_topic_or_partition, f"Unable to find a topic named {name}."
    if not 0 <= partition < topic.partitions:
        return ErrorCode.unknown_topic_or_partition, f"Unable to find partition {name}:{partition}."
    if wanted.replicas is None:
        return ErrorCode.no_reassignment_in_progress, None
    return _reassigned(view, topic, partition, list(wanted.replicas), may_grow=may_grow)


def _reassigned(view: ClusterView, topic: Topic, partition: int, replicas: list[int], *, may_grow: bool) -> Result:
    if (unusable := assignment_error(view, [replicas], {len(replicas)})) is not None:
        return ErrorCode.invalid_replica_assignment, unusable
    current = view.replicas_of(topic, partition)
    if sorted(replicas) == sorted(current):
        return ErrorCode.none, None
    if not may_grow and len(replicas) != len(current):
        text = f"The replication factor is changed from {len(current)} to {len(replicas)}"
        return ErrorCode.invalid_replication_factor, text
    text = (
        f"Muster decides who serves {topic.name}-{partition}, now {', '.join(map(str, current))}: there is one copy, "
        "and every broker serves it."
    )
    return ErrorCode.invalid_replica_assignment, text


def _result(partition: int, result: Result) -> dict[str, Any]:
    return {"partition_index": partition, "error_code": result[0], "error_message": result[1]}
