"""CreateTopics (api key 19), v2-7. Kafka has removed v0-1 (KIP-896).

v4 -1 for the defaults of partitions and replication factor (KIP-464; accepted in every version, as by Kafka's broker)
v5 returns partitions, replication factor and configs (KIP-525) | v7 topic id
Checks and their order are those of Kafka's ReplicationControlManager, except for the replication factor: it is stored
and returned, however few gateways there are, since there is one copy of a partition, on the path that all nodes share.
A manual assignment is checked and gives the numbers of partitions and replicas; placement decides who owns a partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from muster.actors.config import describe_topic, topic_config_errors
from muster.actors.controller.admin import NewTopic, TopicOutcome
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.admin import (
    DUPLICATE_NAME,
    MAX_PARTITIONS_PER_REQUEST,
    TOO_MANY_PARTITIONS,
    answered,
    name_error,
    refusal,
    repeated,
    shown,
)
from muster.gateway.apis.guards.guard import Each, Guard
from muster.gateway.apis.guards.rights import CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_TOPIC_CONFIGS, repeated_names
from muster.gateway.apis.topics.mutations import exceeds_quota
from muster.gateway.listener.api import Call, Reply, Rule, api
from muster.gateway.listener.gateway import Gateway
from muster.placement.view import ClusterView

_DEFAULT = -1


def _error_body(call: Call, error: ErrorCode) -> dict[str, Any]:
    return {"topics": [_failed(refusal(topic.name, error, call.reason)) for topic in call.entity().topics]}


def _refused(call: Call, error: ErrorCode) -> dict[str, Any]:
    return {"topics": [_failed(refusal(topic.name, error, "Authorization failed.")) for topic in call.entity().topics]}


_GUARD = Guard(
    each=Each((CREATE_CLUSTER, CREATE_TOPIC), "topics", "topics", exempt=repeated_names, body=_refused),
    inside=(
        Rule((DESCRIBE_TOPIC_CONFIGS,), "to see the configs of the new topic", ErrorCode.topic_authorization_failed),
    ),
)


@api(19, "CreateTopics", guard=_GUARD, error_body=_error_body, is_change=True)
async def create_topics(call: Call) -> Reply | None:
    request = call.entity()
    gateway = call.gateway
    wanted = _checked(gateway, request.topics)
    if not request.validate_only:
        wanted = [_charged(call, each) if isinstance(each, NewTopic) else each for each in wanted]
    outcomes = await _outcomes(gateway, wanted, request.validate_only, request.timeout)
    results = [
        _created(call, each, outcomes[each.name], request.validate_only)
        if isinstance(each, NewTopic)
        else _failed(each)
        for each in wanted
    ]
    return call.reply({"throttle_time": 0, "topics": results})


def _charged(call: Call, topic: NewTopic) -> NewTopic | TopicOutcome:
    partitions = call.gateway.config.num_partitions if topic.partitions == _DEFAULT else topic.partitions
    return exceeds_quota(call, topic.name, partitions) or topic


async def _outcomes(
    gateway: Gateway, wanted: list[NewTopic | TopicOutcome], validate_only: bool, timeout_ms: int
) -> dict[str, TopicOutcome]:
    topics = [each for each in wanted if isinstance(each, NewTopic)]
    outcomes = {each.name: each for each in wanted if isinstance(each, TopicOutcome)}
    if topics:
        names = [topic.name for topic in topics]
        outcomes |= await answered(names, gateway.controller.create_topics(topics, validate_only))
    return outcomes if validate_only else await shown(gateway, outcomes, _is_there, timeout_ms)


def _is_there(view: ClusterView, outcome: TopicOutcome) -> bool:
    topic = view.topics.get(outcome.name)
    return topic is not None and (outcome.topic is None or topic.topic_id == outcome.topic.topic_id)


def _checked(gateway: Gateway, topics: Sequence[Any]) -> list[NewTopic | TopicOutcome]:
    """Return a topic to create or a refusal for each name, in the request's order."""
    wanted = {topic.name: topic for topic in topics}
    duplicates = repeated(topic.name for topic in topics)
    total = sum(_count(topic, gateway.config.num_partitions) for topic in topics)
    if total > MAX_PARTITIONS_PER_REQUEST:
        return [refusal(name, ErrorCode.policy_violation, TOO_MANY_PARTITIONS) for name in wanted]
    return [
        refusal(name, ErrorCode.invalid_request, DUPLICATE_NAME) if name in duplicates else _check(gateway, topic)
        for name, topic in wanted.items()
    ]


def _count(topic: Any, default: int) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return default if topic.num_partitions == _DEFAULT else max(topic.num_partitions, 0)


def _check(gateway: Gateway, topic: Any) -> NewTopic | TopicOutcome:
    name = topic.name
    if (problem := name_error(name)) is not None:
        return refusal(name, ErrorCode.invalid_topic_exception, problem)
    if name in gateway.view.topics:
        return refusal(name, ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
    configs = {config.name: config.value for config in topic.configs}
    if (problem := topic_config_errors(configs)) is not None:
        return refusal(name, ErrorCode.invalid_config, problem)
    checked = _check_assignments(gateway.view, topic, configs) if topic.assignments else _check_counts(topic, configs)
    if not isinstance(checked, NewTopic):
        return checked
    problem = factor_error(checked.replication_factor, gateway.config.max_replication_factor)
    return checked if problem is None else refusal(name, ErrorCode.invalid_replication_factor, problem)


def factor_error(factor: int, most: int) -> str | None:
    """Why a replication factor gets INVALID_REPLICATION_FACTOR; None if ``max.replication.factor`` allows it."""
    if factor <= most:
        return None
    return (
        f"Replication factor {factor} is more than max.replication.factor={most}: there is one copy of a partition, on "
        "the path that all nodes share (storage.path)."
    )


def _check_counts(topic: Any, configs: dict[str, str]) -> NewTopic | TopicOutcome:
    name, factor, partitions = topic.name, topic.replication_factor, topic.num_partitions
    if factor == 0 or factor < _DEFAULT:
        problem = "Replication factor must be larger than 0, or -1 to use the default value."
        return refusal(name, ErrorCode.invalid_replication_factor, problem)
    if partitions == 0 or partitions < _DEFAULT:
        problem = "Number of partitions was set to an invalid non-positive value."
        return refusal(name, ErrorCode.invalid_partitions, problem)
    return NewTopic(name, partitions, factor, configs)


def _check_assignments(view: ClusterView, topic: Any, configs: dict[str, str]) -> NewTopic | TopicOutcome:
    name = topic.name
    if (topic.num_partitions, topic.replication_factor) != (_DEFAULT, _DEFAULT):
        problem = "A manual partition assignment was specified, but numPartitions or replication factor was not -1."
        return refusal(name, ErrorCode.invalid_request, problem)
    partitions = sorted(assignment.partition_index for assignment in topic.assignments)
    if partitions != list(range(len(partitions))):
        problem = "Partitions of a manual assignment must be consecutive integers from 0, each once."
        return refusal(name, ErrorCode.invalid_replica_assignment, problem)
    replicas = [assignment.broker_ids for assignment in topic.assignments]
    factor = len(replicas[0])
    if (unusable := assignment_error(view, replicas, {factor})) is not None:
        return refusal(name, ErrorCode.invalid_replica_assignment, unusable)
    return NewTopic(name, len(partitions), factor, configs)


def assignment_error(view: ClusterView, replicas: Iterable[Sequence[int]], factors: set[int]) -> str | None:
    """Why these replicas get INVALID_REPLICA_ASSIGNMENT; None if they are valid.

    Each partition must have a number of replicas that ``factors`` allows.
    """
    known = {broker.id for broker in view.brokers}
    said = "The manual partition assignment includes"
    for broker_ids in replicas:
        if not broker_ids:
            return f"{said} an empty replica list."
        if (twice := repeated(broker_ids)) != set():
            return f"{said} the broker {min(twice)} more than once."
        if unknown := sorted(set(broker_ids) - known):
            return f"{said} broker {unknown[0]}, but no such broker is registered."
        if len(broker_ids) not in factors:
            return (
                f"{said} a partition with {len(broker_ids)} replica(s), but this is not consistent with the others, "
                f"which have {max(factors)} replica(s)."
            )
    return None


def _created(call: Call, topic: NewTopic, outcome: TopicOutcome, validate_only: bool) -> dict[str, Any]:
    if outcome.error:
        return _failed(outcome)
    gateway, created = call.gateway, outcome.topic
    config = gateway.config
    partitions = config.num_partitions if topic.partitions == _DEFAULT else topic.partitions
    factor = config.default_replication_factor if topic.replication_factor == _DEFAULT else topic.replication_factor
    named = {
        "name": topic.name,
        "topic_id": created.topic_id if created and not validate_only else None,
        "error_code": ErrorCode.none,
        "error_message": None,
    }
    if not DESCRIBE_TOPIC_CONFIGS.allowed(call, topic.name, logged=False):
        return named | {
            "topic_config_error_code": ErrorCode.topic_authorization_failed,
            "num_partitions": -1,
            "replication_factor": -1,
            "configs": [],
        }
    return named | {
        "num_partitions": created.partitions if created else partitions,
        "replication_factor": created.replication_factor if created else factor,
        "configs": [
            {
                "name": row.name,
                "value": row.value,
                "read_only": row.read_only,
                "config_source": int(row.source),
                "is_sensitive": False,
            }
            for row in describe_topic(gateway.started_with, topic.config, gateway.view.configs)
        ],
    }


def _failed(outcome: TopicOutcome) -> dict[str, Any]:
    return {
        "name": outcome.name,
        "topic_id": None,
        "error_code": outcome.error,
        "error_message": outcome.message,
        "configs": [],
    }
