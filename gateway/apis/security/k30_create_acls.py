"""CreateAcls (api key 30), v1-3: SECURITY_DISABLED for each, as from a Kafka broker without an authorizer.

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
    failed = {"error_code": error, "error_message": call.reason}
    return {"results": [failed for _ in call.entity().creations]}


@api(30, "CreateAcls", guard=Guard(Need((ALTER_CLUSTER,), the_cluster)), error_body=_error_body)
async def create_acls(call: Call) -> Reply | None:
    return call.reply({"throttle_time": 0, "results": [SECURITY_DISABLED for _ in call.entity().creations]})
