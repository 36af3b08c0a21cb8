"""Heartbeat (api key 12), v0-4: forwarded unchanged.

While the group's actor is down, the response is NONE, as from a Kafka broker that is still loading the partition, so
that members survive.
"""

from __future__ import annotations

from muster.actors.wire.codec import ErrorCode
from muster.gateway.apis.groups.forwarding import error_body, forward_whole
from muster.gateway.listener.registry import Call, Reply, api


@api(12, "Heartbeat", error_body=error_body, is_evidence=True)
async def heartbeat(call: Call) -> Reply | None:
    return await forward_whole(call, down=ErrorCode.none)
