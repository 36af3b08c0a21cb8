"""DeleteAcls (api key 31), v1-3: SECURITY_DISABLED for each filter, as from a Kafka broker without an authorizer.

v2 flexible | v3 user resource type
"""

from __future__ import annotations

from typing import Any

from muster.actors.wire.codec import ErrorCode
from muster.gateway.apis.admin import SECURITY_DISABLED
from muster.gateway.apis.guards.guard import Guard, Need
from muster.gateway.apis.guards.rights import ALTER_CLUSTER, the_cluster
from muster.gateway.listener.registry import Call, Reply, api


def _error_body(call: Call, error: ErrorCode) -> dict[str, Any]:
    failed: dict[str, Any] = {"error_code": error, "error_message": call.reason, "matching_acls": []}
    return {"filter_results": [failed for _ in call.entity().filters]}


@api(31, "DeleteAcls", guard=Guard(Need((ALTER_CLUSTER,), the_cluster)), error_body=_error_body)
async def delete_acls(call: Call) -> Reply | None:
    refused = {**SECURITY_DISABLED, "matching_acls": []}
    return call.reply({"throttle_time": 0, "filter_results": [refused for _ in call.entity().filters]})
