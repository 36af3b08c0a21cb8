"""AlterPartitionReassignments (api key 45), v0-1: how many gateways are named as replicas, not which.

v1 allow_replication_factor_change (KIP-860)
There is one copy of a partition, and placement decides who serves it. A reassignment to more replicas sets the topic's
replication factor, as CreateTopics does; one to the replicas that there are is done. Another one is refused. So no
reassignment is ever in progress, and none can be cancelled.
"""

from __future__ import annotations

from typing import Any

from muster.actors.controller.admin import TopicOutcome
from muster.actors.wire.kafka.codec import ErrorCode, field
from muster.gateway.apis.admin import answered, shown
from muster.gateway.apis.guards.guard import Guard, Need
from muster.gateway.apis.guards.rights import ALTER_CLUSTER, the_cluster
from muster.gateway.apis.topics.k19_create_topics import assignment_error, factor_error
from muster.gateway.listener.api import Call, Reply, api
from muster.gateway.listener.gateway import Gateway
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


@api(45, "AlterPartitionReassignments", guard=_GUARD, error_body=_error_body, is_change=True)
async def alter_partition_reassignments(call: Call) -> Reply | None:
    request, gateway = call.entity(), call.gateway
    may_grow = field(request, "allow_replication_factor_change", True)
    decided = [
        (
            topic.name,
            [(each.partition_index, _decided(gateway, topic.name, each, may_grow)) for each in topic.partitions],
        )
        for topic in request.topics
    ]
    factors: dict[str, int] = {}
    for name, decisions in decided:
        for _, decision in decisions:
            if isinstance(decision, int):
                factors[name] = max(decision, factors.get(name, 0))
    done = await _kept(gateway, factors, request.timeout) if factors else {}
    responses = [
        {
            "name": name,
            "partitions": [
                _result(partition, done[name] if isinstance(decision, int) else decision)
                for partition, decision in decisions
            ],
        }
        for name, decisions in decided
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


async def _kept(gateway: Gateway, factors: dict[str, int], timeout_ms: int) -> dict[str, Result]:
    """Keep these replication factors with the topics; the result for each of them."""

    def has_grown(view: ClusterView, outcome: TopicOutcome) -> bool:
        topic = view.topics.get(outcome.name)
        return topic is not None and topic.replication_factor >= factors[outcome.name]

    outcomes = await answered(factors, gateway.controller.set_replication_factors(factors))
    outcomes = await shown(gateway, outcomes, has_grown, timeout_ms)
    return {name: (ErrorCode(outcome.error), outcome.message) for name, outcome in outcomes.items()}


def _decided(gateway: Gateway, name: str, wanted: Any, may_grow: bool) -> Result | int:
    """Return the result, or the replication factor that the topic gets."""
    view = gateway.view
    topic, partition = view.topics.get(name), wanted.partition_index
    if topic is None:
        return ErrorCode.unknown_topic_or_partition, f"Unable to find a topic named {name}."
    if not 0 <= partition < topic.partitions:
        return ErrorCode.unknown_topic_or_partition, f"Unable to find partition {name}:{partition}."
    if wanted.replicas is None:
        return ErrorCode.no_reassignment_in_progress, None
    replicas = list(wanted.replicas)
    if (unusable := assignment_error(view, [replicas], {len(replicas)})) is not None:
        return ErrorCode.invalid_replica_assignment, unusable
    current = view.replicas_of(topic, partition)
    if sorted(replicas) == sorted(current):
        return ErrorCode.none, None
    if not may_grow and len(replicas) != len(current):
        text = f"The replication factor is changed from {len(current)} to {len(replicas)}"
        return ErrorCode.invalid_replication_factor, text
    if len(replicas) <= len(current):
        return ErrorCode.invalid_replica_assignment, _placed(topic, partition, current)
    if (problem := factor_error(len(replicas), gateway.config.max_replication_factor)) is not None:
        return ErrorCode.invalid_replication_factor, problem
    return len(replicas)


def _placed(topic: Topic, partition: int, current: list[int]) -> str:
    return (
        f"Muster decides who serves {topic.name}-{partition}, now {', '.join(map(str, current))}: there is one copy, "
        "and every broker serves it."
    )


def _result(partition: int, result: Result) -> dict[str, Any]:
    return {"partition_index": partition, "error_code": result[0], "error_message": result[1]}
