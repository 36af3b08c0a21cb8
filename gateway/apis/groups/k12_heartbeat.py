"""Heartbeat (api key 12), v0-4: forwarded unchanged, unless the gateway has a lease of the member.

While the group's actor is down, the response is NONE, as from a Kafka broker that is still loading the partition, so
that members survive.
"""

from __future__ import annotations

from muster.actors.wire.codec import ErrorCode
from muster.actors.wire.leases import MemberLease
from muster.gateway.apis.groups.forwarding import error_body, forward_whole, saw_group
from muster.gateway.listener.registry import Call, Reply, api


@api(12, "Heartbeat", error_body=error_body, is_evidence=True)
async def heartbeat(call: Call) -> Reply | None:
    def on_lease(lease: MemberLease, response: bytes) -> None:
        version, group_id = call.header.api_version, call.entity().group_id

        def answered() -> None:
            saw_group(call, group_id)
            call.gateway.metrics.request("Heartbeat", version, "ANSWERED", 0.0)

        call.connection.leases.add(call.frame, lease, response, answered)

    return await forward_whole(call, down=ErrorCode.none, on_lease=on_lease)
