"""CreatePartitions (api key 37), v0-3. A topic can only grow.

v2 flexible | v3 as v2 (KIP-599: only the error for quotas is new)
A manual assignment is checked as in CreateTopics; placement decides who owns a partition.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from muster.actors.controller.admin import TopicOutcome
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.admin import (
    DUPLICATE_NAME,
    MAX_PARTITIONS_PER_REQUEST,
    TOO_MANY_PARTITIONS,
    answered,
    refusal,
    repeated,
    shown,
)
from muster.gateway.apis.guards.guard import Each, Guard
from muster.gateway.apis.guards.rights import ALTER_TOPIC, repeated_names
from muster.gateway.apis.topics.k19_create_topics import assignment_error
from muster.gateway.apis.topics.mutations import exceeds_quota
from muster.gateway.listener.api import Call, Reply, api
from muster.gateway.listener.gateway import Gateway
from muster.placement.view import ClusterView, Topic


def _error_body(call: Call, error: ErrorCode) -> dict[str, Any]:
    return {"results": [_result(refusal(topic.name, error, call.reason)) for topic in call.entity().topics]}


@api(
    37,
    "CreatePartitions",
    guard=Guard(each=Each((ALTER_TOPIC,), "topics", "results", exempt=repeated_names)),
    error_body=_error_body,
    is_change=True,
)
async def create_partitions(call: Call) -> Reply | None:
    request = call.entity()
    gateway = call.gateway
    wanted = {topic.name: topic for topic in request.topics}
    refused = _refused(gateway.view, request.topics)
    if not request.validate_only:
        refused |= _exceeding(call, [topic for name, topic in wanted.items() if name not in refused])
    totals = {name: topic.count for name, topic in wanted.items() if name not in refused}
    done = await _add(gateway, totals, request.validate_only, request.timeout) if totals else {}
    outcomes = refused | done
    return call.reply({"throttle_time": 0, "results": [_result(outcomes[name]) for name in wanted]})


def _exceeding(call: Call, topics: Iterable[Any]) -> dict[str, TopicOutcome]:
    known = call.gateway.view.topics
    charged = (exceeds_quota(call, topic.name, topic.count - known[topic.name].partitions) for topic in topics)
    return {outcome.name: outcome for outcome in charged if outcome is not None}


async def _add(
    gateway: Gateway, totals: dict[str, int], validate_only: bool, timeout_ms: int
) -> dict[str, TopicOutcome]:
    def grown(view: ClusterView, outcome: TopicOutcome) -> bool:
        topic = view.topics.get(outcome.name)
        return topic is not None and topic.partitions >= totals[outcome.name]

    outcomes = await answered(totals, gateway.controller.add_partitions(totals, validate_only))
    return outcomes if validate_only else await shown(gateway, outcomes, grown, timeout_ms)


def _refused(view: ClusterView, topics: Any) -> dict[str, TopicOutcome]:
    duplicates = repeated(topic.name for topic in topics)
    refused = {name: refusal(name, ErrorCode.invalid_request, DUPLICATE_NAME) for name in duplicates}
    refused |= {
        topic.name: problem
        for topic in topics
        if topic.name not in duplicates and (problem := _problem(view, topic)) is not None
    }
    added = sum(topic.count - view.topics[topic.name].partitions for topic in topics if topic.name not in refused)
    if added > MAX_PARTITIONS_PER_REQUEST:
        refused |= {
            topic.name: refusal(topic.name, ErrorCode.policy_violation, TOO_MANY_PARTITIONS)
            for topic in topics
            if topic.name not in refused
        }
    return refused


def _problem(view: ClusterView, wanted: Any) -> TopicOutcome | None:
    topic = view.topics.get(wanted.name)
    if topic is None:
        return refusal(wanted.name, ErrorCode.unknown_topic_or_partition)
    if topic.internal:
        problem = f"{topic.name} is an internal topic; its partitions say which coordinator is whose and cannot change."
        return refusal(topic.name, ErrorCode.invalid_request, problem)
    if wanted.count <= topic.partitions:
        problem = (
            f"Topic already has {topic.partitions} partition(s)."
            if wanted.count == topic.partitions
            else f"The topic {topic.name} currently has {topic.partitions} partition(s); "
            f"{wanted.count} would not be an increase."
        )
        return refusal(topic.name, ErrorCode.invalid_partitions, problem)
    unusable = _assignment_problem(view, topic, wanted)
    return None if unusable is None else refusal(topic.name, ErrorCode.invalid_replica_assignment, unusable)


def _assignment_problem(view: ClusterView, topic: Topic, wanted: Any) -> str | None:
    if wanted.assignments is None:
        return None
    added = wanted.count - topic.partitions
    if len(wanted.assignments) != added:
        return (
            f"Attempted to add {added} additional partition(s), but only {len(wanted.assignments)} "
            "assignment(s) were specified."
        )
    factors = {topic.replication_factor, len(view.replicas_of(topic, 0))}
    return assignment_error(view, (assignment.broker_ids for assignment in wanted.assignments), factors)


def _result(outcome: TopicOutcome) -> dict[str, Any]:
    return {"name": outcome.name, "error_code": outcome.error, "error_message": outcome.message}
