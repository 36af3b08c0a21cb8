"""Valid responses of every API that carry an error in each place where their request's items have one.

Where a response has an error of the whole request and errors of its items, the items have it: it is there that clients
look for errors that they act on. Errors of fetch sessions are of the whole request, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from muster.actors.faults.model import error_code
from muster.actors.group.codec import adapters
from muster.actors.wire.codec import ErrorCode, field
from muster.gateway.listener.complaints import BadRequest, Cause
from muster.gateway.listener.registry import Call, Reply

_TEXT = "injected by a fault"
_SESSION_ERRORS = frozenset(
    {
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error,
    }
)


def error_reply(call: Call, error: str | int) -> Reply:
    """The answer. BadRequest for a Produce with acks=0, which has none: the connection is closed, as by Kafka."""
    header, code = call.header, error_code(error)
    if header.api_key in adapters.GROUP_APIS:
        return call.reply(adapters.error_body(header.api_key, header.api_version, call.entity(), code))
    return call.reply({"throttle_time": 0, **_BODIES[header.api_key](call, code)})


def _produce(call: Call, error: ErrorCode) -> dict[str, Any]:
    request = call.entity()
    if request.acks == 0:
        raise BadRequest(Cause.PRODUCE_FAILED, f"Produce with acks=0 failed: {error.name}")
    return {
        "responses": [
            {
                **_named(topic),
                "partition_responses": [
                    {
                        "index": data.index,
                        "error_code": error,
                        "base_offset": -1,
                        "log_append_time": None,
                        "log_start_offset": -1,
                        "record_errors": [],
                        "error_message": None,
                    }
                    for data in topic.partition_data
                ],
            }
            for topic in request.topic_data
        ]
    }


def _fetch(call: Call, error: ErrorCode) -> dict[str, Any]:
    if error in _SESSION_ERRORS:
        return {"error_code": error, "session_id": 0, "responses": []}
    return {
        "error_code": ErrorCode.none,
        "session_id": 0,
        "responses": [
            {
                "topic": field(topic, "topic", None),
                "topic_id": field(topic, "topic_id", None),
                "partitions": [
                    {
                        "partition_index": item.partition,
                        "error_code": error,
                        "high_watermark": -1,
                        "last_stable_offset": -1,
                        "log_start_offset": -1,
                        "aborted_transactions": None,
                        "records": b"",
                    }
                    for item in topic.partitions
                ],
            }
            for topic in call.entity().topics
        ],
    }


def _list_offsets(call: Call, error: ErrorCode) -> dict[str, Any]:
    failed = {"error_code": error, "timestamp": -1, "offset": -1, "leader_epoch": -1, "old_style_offsets": ()}
    return _by_partition(call, failed)


def _delete_records(call: Call, error: ErrorCode) -> dict[str, Any]:
    return _by_partition(call, {"error_code": error, "low_watermark": -1})


def _by_partition(call: Call, failed: dict[str, Any]) -> dict[str, Any]:
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [{"partition_index": item.partition_index, **failed} for item in topic.partitions],
            }
            for topic in call.entity().topics
        ]
    }


def _metadata(call: Call, error: ErrorCode) -> dict[str, Any]:
    view, request, version = call.gateway.view, call.entity(), call.header.api_version
    if request.topics is None or (version == 0 and not request.topics):
        wanted: Iterable[tuple[Any, Any]] = [(topic.name, topic.topic_id) for topic in view.topics.values()]
    else:
        wanted = [(topic.name, field(topic, "topic_id", None)) for topic in request.topics]
    return {
        "brokers": [{"node_id": broker.id, "host": broker.host, "port": broker.port} for broker in view.brokers],
        "cluster_id": view.cluster_id,
        "controller_id": min((broker.id for broker in view.brokers), default=-1),
        "topics": [
            {"error_code": error, "name": name, "topic_id": topic_id, "is_internal": False, "partitions": []}
            for name, topic_id in wanted
        ],
        "error_code": ErrorCode.none if wanted else error,
    }


def _find_coordinator(call: Call, error: ErrorCode) -> dict[str, Any]:
    failed = {"node_id": -1, "host": "", "port": -1, "error_code": error, "error_message": _TEXT}
    keys = field(call.entity(), "coordinator_keys", None)
    return failed if keys is None else {"coordinators": [{"key": key, **failed} for key in keys]}


def _api_versions(call: Call, error: ErrorCode) -> dict[str, Any]:
    return {"error_code": error, "api_keys": []}


def _create_topics(call: Call, error: ErrorCode) -> dict[str, Any]:
    failed = {"topic_id": None, "error_code": error, "error_message": _TEXT, "configs": None}
    return {"topics": [{"name": topic.name, **failed} for topic in call.entity().topics]}


def _delete_topics(call: Call, error: ErrorCode) -> dict[str, Any]:
    request = call.entity()
    wanted = [(name, None) for name in field(request, "topic_names", ())]
    wanted += [(topic.name, topic.topic_id) for topic in field(request, "topics", ())]
    return {
        "responses": [
            {"name": name, "topic_id": topic_id, "error_code": error, "error_message": _TEXT}
            for name, topic_id in wanted
        ]
    }


def _create_partitions(call: Call, error: ErrorCode) -> dict[str, Any]:
    failed = {"error_code": error, "error_message": _TEXT}
    return {"results": [{"name": topic.name, **failed} for topic in call.entity().topics]}


def _describe_configs(call: Call, error: ErrorCode) -> dict[str, Any]:
    return {
        "results": [
            {
                "error_code": error,
                "error_message": _TEXT,
                "resource_type": resource.resource_type,
                "resource_name": resource.resource_name,
                "configs": [],
            }
            for resource in call.entity().resources
        ]
    }


def _describe_acls(call: Call, error: ErrorCode) -> dict[str, Any]:
    return {"error_code": error, "error_message": _TEXT, "resources": []}


def _create_acls(call: Call, error: ErrorCode) -> dict[str, Any]:
    return {"results": [{"error_code": error, "error_message": _TEXT} for _ in call.entity().creations]}


def _delete_acls(call: Call, error: ErrorCode) -> dict[str, Any]:
    failed = {"error_code": error, "error_message": _TEXT, "matching_acls": []}
    return {"filter_results": [failed for _ in call.entity().filters]}


def _alter_configs(call: Call, error: ErrorCode) -> dict[str, Any]:
    return {
        "responses": [
            {
                "error_code": error,
                "error_message": _TEXT,
                "resource_type": resource.resource_type,
                "resource_name": resource.resource_name,
            }
            for resource in call.entity().resources
        ]
    }


def _init_producer_id(call: Call, error: ErrorCode) -> dict[str, Any]:
    return {"error_code": error, "producer_id": -1, "producer_epoch": -1}


def _describe_cluster(call: Call, error: ErrorCode) -> dict[str, Any]:
    return {"error_code": error, "error_message": _TEXT, "cluster_id": call.gateway.view.cluster_id, "brokers": []}


def _list_config_resources(call: Call, error: ErrorCode) -> dict[str, Any]:
    return {"error_code": error, "config_resources": []}


def _sasl_handshake(call: Call, error: ErrorCode) -> dict[str, Any]:
    return {"error_code": error, "mechanisms": []}


def _sasl_authenticate(call: Call, error: ErrorCode) -> dict[str, Any]:
    """A login that failed, to the client: it does not try again with the same password. The connection stays."""
    return {"error_code": error, "error_message": _TEXT, "auth_bytes": b"", "session_lifetime": 0}


def _named(topic: Any) -> dict[str, Any]:
    return {"name": field(topic, "name", None), "topic_id": field(topic, "topic_id", None)}


_BODIES: dict[int, Callable[[Call, ErrorCode], dict[str, Any]]] = {
    0: _produce,
    1: _fetch,
    2: _list_offsets,
    3: _metadata,
    10: _find_coordinator,
    17: _sasl_handshake,
    18: _api_versions,
    19: _create_topics,
    20: _delete_topics,
    21: _delete_records,
    22: _init_producer_id,
    29: _describe_acls,
    30: _create_acls,
    31: _delete_acls,
    32: _describe_configs,
    33: _alter_configs,
    36: _sasl_authenticate,
    37: _create_partitions,
    44: _alter_configs,
    60: _describe_cluster,
    74: _list_config_resources,
}
"""By api key; those of groups are in ``muster.actors.group.codec.adapters``."""
