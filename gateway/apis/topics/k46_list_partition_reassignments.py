"""ListPartitionReassignments (api key 46), v0: none is ever in progress."""

from __future__ import annotations

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.guards.guard import Guard, Need
from muster.gateway.apis.guards.rights import DESCRIBE_CLUSTER, the_cluster
from muster.gateway.listener.api import Call, Reply, api


@api(
    46,
    "ListPartitionReassignments",
    guard=Guard(Need((DESCRIBE_CLUSTER,), the_cluster)),
    error_body=lambda call, error: {"error_code": error, "error_message": call.reason, "topics": []},
)
async def list_partition_reassignments(call: Call) -> Reply | None:
    call.entity()
    return call.reply({"throttle_time": 0, "error_code": ErrorCode.none, "error_message": None, "topics": []})
