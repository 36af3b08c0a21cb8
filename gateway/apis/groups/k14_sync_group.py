"""SyncGroup (api key 14), v0-5: forwarded unchanged; the response comes once the leader's assignment is durable.

While the group's actor is down, the response is NOT_COORDINATOR, since clients (the Java consumer) treat "loading" as
fatal here. The request does not say how long its member may wait for the others.
"""

from __future__ import annotations

from muster.actors.wire.codec import ErrorCode
from muster.gateway.apis.groups.forwarding import error_body, forward_whole
from muster.gateway.listener.registry import Call, Reply, api


@api(14, "SyncGroup", error_body=error_body, is_evidence=True)
async def sync_group(call: Call) -> Reply | None:
    parked_s = call.gateway.group_config.group_max_session_timeout_ms / 1000
    return await forward_whole(call, down=ErrorCode.not_coordinator, parked_s=parked_s)
