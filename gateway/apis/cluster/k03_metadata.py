"""Metadata (api key 3), v0-13: the gateways, and which of them leads which partition.

v1 null for all topics, controller, is_internal | v2 cluster id | v4 the client says whether topics may be created
v8-10 cluster operations, v8+ topic operations (KIP-430) | v10 topic ids in responses, v12 in requests | v13 error_code
A missing topic that may be created is created, and the response waits until the gateways know it: Kafka responds with
an error first and lets the client retry. The leader epoch is that of the partition's log
(muster.gateway.listener.leader_epochs); -1 until the log is opened.
"""

from __future__ import annotations

from itertools import compress
from typing import Any, NamedTuple
from uuid import UUID

from muster.actors.controller.admin import NewTopic
from muster.actors.wire.kafka.codec import ErrorCode, field
from muster.gateway.apis.admin import (
    INTERNAL_TOPICS,
    everywhere,
    name_error,
    until_brokers,
)
from muster.gateway.apis.guards.guard import Guard
from muster.gateway.apis.guards.operations import authorized_operations, cluster_operations
from muster.gateway.apis.guards.rights import (
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_TOPIC,
    TOPIC,
    any_allowed,
)
from muster.gateway.apis.topics.mutations import charge_auto_creation
from muster.gateway.listener.api import Call, Reply, Rule, api
from muster.gateway.listener.controller import ControllerUnavailable
from muster.gateway.listener.gateway import Gateway
from muster.placement.view import ClusterView, Topic

_FIRST_WITH_IDS = 12
_CREATION_TIMEOUT_S = 5.0


class _Wanted(NamedTuple):
    """A topic as the request names it; the id, if any, takes precedence."""

    name: str | None
    topic_id: UUID | None

    def find(self, view: ClusterView) -> Topic | None:
        if self.topic_id is not None:
            return view.topic_by_id(self.topic_id)
        return view.topics.get(self.name or "")


def _error_body(call: Call, error: ErrorCode) -> dict[str, Any]:
    view, version = call.gateway.view, call.header.api_version
    wanted = list(dict.fromkeys(map(_named, call.entity().topics or ())))
    if _is_of_all(call):
        wanted = [_Wanted(topic.name, topic.topic_id) for topic in view.topics.values()]
    topics = [_missing(each, error, version) for each in wanted]
    return {**_cluster(call), "topics": topics, "error_code": ErrorCode.none if topics else error}


_GUARD = Guard(
    inside=(
        Rule((DESCRIBE_TOPIC,), "that the request names", ErrorCode.topic_authorization_failed),
        Rule((DESCRIBE_TOPIC,), "where it names none", None),
        Rule((CREATE_CLUSTER, CREATE_TOPIC), "to create a missing topic", ErrorCode.topic_authorization_failed),
        Rule((DESCRIBE_CLUSTER,), "for the operations on the cluster", None),
    )
)


@api(3, "Metadata", guard=_GUARD, error_body=_error_body)
async def metadata(call: Call) -> Reply | None:
    request = call.entity()
    wanted = await _wanted(call)
    await until_brokers(call.gateway)
    failed = await _create_missing(call, request, wanted or [])
    view = call.gateway.view
    if wanted is None:
        seen = [name for name in sorted(view.topics) if DESCRIBE_TOPIC.allowed(call, name, logged=False)]
        topics = [_found(call, view, view.topics[name]) for name in seen]
    else:
        topics = await call.each(wanted, lambda each: _response(call, view, each, failed))
    return call.reply(
        {
            **_cluster(call),
            "throttle_time": 0,
            "topics": topics,
            "cluster_authorized_operations": cluster_operations(
                call, field(request, "include_cluster_authorized_operations", False)
            ),
            "error_code": ErrorCode.none,
        }
    )


def _cluster(call: Call) -> dict[str, Any]:
    view, listener = call.gateway.view, call.connection.listener.name
    brokers = [(broker, broker.at(listener)) for broker in view.brokers]
    return {
        "brokers": [
            {"node_id": broker.id, "host": at.host, "port": at.port, "rack": broker.rack} for broker, at in brokers
        ],
        "cluster_id": view.cluster_id,
        "controller_id": view.controller_id,
    }


def _is_of_all(call: Call) -> bool:
    topics = call.entity().topics
    return topics is None or (call.header.api_version == 0 and not topics)


async def _wanted(call: Call) -> list[_Wanted] | None:
    """Return the topics that the request names, each once; None for all topics."""
    if _is_of_all(call):
        return None
    return [*dict.fromkeys(await call.each(call.entity().topics, _named))]


def _named(topic: Any) -> _Wanted:
    return _Wanted(topic.name, field(topic, "topic_id", None))


async def _create_missing(call: Call, request: Any, wanted: list[_Wanted]) -> dict[str, ErrorCode]:
    """Create the missing topics that the request names and allows to create. Returns the error of each that failed."""
    gateway = call.gateway
    if not (gateway.config.auto_create_topics_enable and field(request, "allow_auto_topic_creation", True)):
        return {}
    view = gateway.view
    are_missing = await call.each(wanted, lambda each: _may_create(call, view, each))
    missing = [each.name for each, is_missing in zip(wanted, are_missing, strict=True) if is_missing and each.name]
    are_allowed = await call.each(missing, lambda name: any_allowed(call, (CREATE_CLUSTER, CREATE_TOPIC), name))
    allowed = [*compress(missing, are_allowed)]
    refused = dict.fromkeys(set(missing) - set(allowed), ErrorCode.topic_authorization_failed)
    if allowed:
        charge_auto_creation(call, len(allowed) * gateway.config.num_partitions)
    return refused | (await _create(gateway, allowed) if allowed else {})


def _may_create(call: Call, view: ClusterView, wanted: _Wanted) -> bool:
    """Whether it is missing, and the client may know."""
    return (
        bool(wanted.name)
        and wanted.topic_id is None
        and wanted.name not in view.topics
        and wanted.name not in INTERNAL_TOPICS
        and name_error(wanted.name or "") is None
        and DESCRIBE_TOPIC.allowed(call, wanted.name or "", logged=False)  # its response decides again
    )


async def _create(gateway: Gateway, names: list[str]) -> dict[str, ErrorCode]:
    try:
        outcomes = await gateway.controller.create_topics([NewTopic(name, -1, -1, {}) for name in names], False)
    except ControllerUnavailable:
        return dict.fromkeys(names, ErrorCode.leader_not_available)
    there = (ErrorCode.none, ErrorCode.topic_already_exists)
    failed = {outcome.name: ErrorCode(outcome.error) for outcome in outcomes if outcome.error not in there}
    created = set(names) - set(failed)
    if created:
        await everywhere(gateway, _CREATION_TIMEOUT_S)
    await gateway.until_view(lambda view: created <= view.topics.keys(), _CREATION_TIMEOUT_S)
    return failed | dict.fromkeys(created - gateway.view.topics.keys(), ErrorCode.leader_not_available)


def _response(call: Call, view: ClusterView, wanted: _Wanted, failed: dict[str, ErrorCode]) -> dict[str, Any]:
    version = call.header.api_version
    if version < _FIRST_WITH_IDS and (wanted.name is None or wanted.topic_id is not None):
        return _missing(wanted, ErrorCode.invalid_request, version)
    topic = wanted.find(view)
    name = wanted.name if topic is None else topic.name
    if name is not None and (topic is not None or wanted.topic_id is None) and not DESCRIBE_TOPIC.allowed(call, name):
        refused = wanted if wanted.topic_id is None else wanted._replace(name=None)
        return _missing(refused, ErrorCode.topic_authorization_failed, version) | {"is_internal": False}
    if topic is not None:
        return _found(call, view, topic)
    if wanted.topic_id is not None:
        return _missing(wanted._replace(name=None), ErrorCode.unknown_topic_id, version)
    if wanted.name is None:
        return _missing(wanted, ErrorCode.invalid_request, version)
    if name_error(wanted.name) is not None:
        return _missing(wanted, ErrorCode.invalid_topic_exception, version)
    operations = authorized_operations(call, _are_operations_requested(call), TOPIC, wanted.name)
    error = failed.get(wanted.name, ErrorCode.unknown_topic_or_partition)
    return _missing(wanted, error, version) | {"topic_authorized_operations": operations}


def _are_operations_requested(call: Call) -> bool:
    requested: bool = field(call.entity(), "include_topic_authorized_operations", False)
    return requested


def _missing(wanted: _Wanted, error: ErrorCode, version: int) -> dict[str, Any]:
    return {
        "error_code": error,
        "name": wanted.name if version >= _FIRST_WITH_IDS else wanted.name or "",
        "topic_id": wanted.topic_id,
        "is_internal": wanted.name in INTERNAL_TOPICS,
        "partitions": [],
    }


def _found(call: Call, view: ClusterView, topic: Topic) -> dict[str, Any]:
    gateway, requested = call.gateway, _are_operations_requested(call)
    return {
        "error_code": ErrorCode.none,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.internal,
        "partitions": [partition_body(gateway, view, topic, partition) for partition in range(topic.partitions)],
        "topic_authorized_operations": authorized_operations(call, requested, TOPIC, topic.name),
    }


def partition_body(gateway: Gateway, view: ClusterView, topic: Topic, partition: int) -> dict[str, Any]:
    """Return a partition in the response, also for DescribeTopicPartitions. ``view``: the one that has the topic."""
    leader = view.leader_of(topic, partition)
    replicas = view.replicas_of(topic, partition)
    return {
        "error_code": ErrorCode.none if leader else ErrorCode.leader_not_available,
        "partition_index": partition,
        "leader_id": leader.id if leader else -1,
        "leader_epoch": gateway.leader_epochs.of(topic.topic_id, partition),
        "replica_nodes": replicas,
        "isr_nodes": replicas,
        "offline_replicas": [],
    }
