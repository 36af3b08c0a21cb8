"""DescribeCluster (api key 60), v0-2.

v1 endpoint_type, KIP-919: only brokers, there is no controller quorum | v2 fenced brokers, KIP-1073: none
"""

from __future__ import annotations

from typing import Any

from muster.actors.wire.kafka.codec import ErrorCode, field
from muster.gateway.apis.admin import until_brokers
from muster.gateway.apis.guards.guard import Guard
from muster.gateway.apis.guards.operations import cluster_operations
from muster.gateway.apis.guards.rights import DESCRIBE_CLUSTER
from muster.gateway.listener.api import Call, Reply, Rule, api

_BROKERS, _CONTROLLERS = 1, 2


_GUARD = Guard(inside=(Rule((DESCRIBE_CLUSTER,), "for the operations on the cluster", None),))


@api(
    60,
    "DescribeCluster",
    guard=_GUARD,
    error_body=lambda call, error: _failed(error, call.reason, call.gateway.view.cluster_id),
)
async def describe_cluster(call: Call) -> Reply | None:
    request = call.entity()
    await until_brokers(call.gateway)
    view, listener = call.gateway.view, call.connection.listener.name
    brokers = [(broker, broker.at(listener)) for broker in view.brokers]
    endpoint_type = field(request, "endpoint_type", _BROKERS)
    if endpoint_type != _BROKERS:
        return call.reply(_refused(endpoint_type))
    return call.reply(
        {
            "throttle_time": 0,
            "error_code": ErrorCode.none,
            "endpoint_type": _BROKERS,
            "cluster_id": view.cluster_id,
            "controller_id": view.controller_id,
            "brokers": [
                {"broker_id": broker.id, "host": at.host, "port": at.port, "rack": broker.rack, "is_fenced": False}
                for broker, at in brokers
            ],
            "cluster_authorized_operations": cluster_operations(call, request.include_cluster_authorized_operations),
        }
    )


def _refused(endpoint_type: int) -> dict[str, Any]:
    if endpoint_type == _CONTROLLERS:
        error = ErrorCode.mismatched_endpoint_type
        message = "The request was sent to an endpoint of type BROKER, but asks for one of type CONTROLLER."
    else:
        error, message = ErrorCode.unsupported_endpoint_type, f"Unsupported endpoint type {endpoint_type}."
    return {"throttle_time": 0, **_failed(error, message)}


def _failed(error: ErrorCode, message: str, cluster_id: str = "") -> dict[str, Any]:
    return {"error_code": error, "error_message": message, "cluster_id": cluster_id, "brokers": []}
