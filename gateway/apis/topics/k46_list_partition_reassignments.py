"""ListPartitionReassignments (api key 46), v0: none is ever in progress."""

from __future__ import annotations

from muster.actors.wire.codec import ErrorCode
from muster.gateway.listener.registry import INJECTED, Call, Reply, api


@api(
    46,
    "ListPartitionReassignments",
    error_body=lambda _, error: {"error_code": error, "error_message": INJECTED, "topics": []},
)
async def list_partition_reassignments(call: Call) -> Reply | None:
    call.entity()
    return call.reply({"throttle_time": 0, "error_code": ErrorCode.none, "error_message": None, "topics": []})
