"""DescribeAcls (api key 29), v1-3: SECURITY_DISABLED, as from a Kafka broker without an authorizer.

v2 flexible | v3 user resource type
Clients that mirror or manage ACLs (MirrorMaker 2, Terraform) take it to mean that there are none to manage.
"""

from __future__ import annotations

from typing import Any

from muster.actors.wire.codec import ErrorCode
from muster.gateway.apis.guards.guard import Guard, Need
from muster.gateway.apis.guards.rights import DESCRIBE_CLUSTER, the_cluster
from muster.gateway.listener.registry import Call, Reply, api


@api(
    29,
    "DescribeAcls",
    guard=Guard(Need((DESCRIBE_CLUSTER,), the_cluster)),
    error_body=lambda call, error: _failed(error, call.reason),
)
async def describe_acls(call: Call) -> Reply | None:
    call.entity()
    refused = _failed(ErrorCode.security_disabled, "No Authorizer is configured on the broker")
    return call.reply({"throttle_time": 0, **refused})


def _failed(error: ErrorCode, message: str) -> dict[str, Any]:
    return {"error_code": error, "error_message": message, "resources": []}
