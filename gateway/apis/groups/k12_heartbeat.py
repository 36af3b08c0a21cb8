"""Heartbeat (api key 12), v0-4: forwarded unchanged, unless the gateway has a lease of the member.

While the group's actor is down, the response is NONE, as from a Kafka broker that is still loading the partition, so
that members survive.
"""

from __future__ import annotations

from functools import partial

from muster.actors.wire.internal.channel import OnLease
from muster.actors.wire.internal.leases import MemberLease
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.groups.forwarding import Whole, error_body
from muster.gateway.apis.guards.guard import Guard, Need
from muster.gateway.apis.guards.rights import READ_GROUP, group_id
from muster.gateway.listener.api import Call, api


def _on_lease(call: Call) -> OnLease | None:
    """None for a client whose time is limited: each of its heartbeats is charged, as in Kafka."""
    if call.timer is not None:
        return None

    def take(lease: MemberLease, response: bytes) -> None:
        gateway, group_id = call.gateway, call.entity().group_id
        # That its connection works for the group is recorded with the request that got the lease, and once is enough.
        answered = partial(gateway.metrics.request, "Heartbeat", call.header.api_version, "ANSWERED", 0.0)

        def is_allowed() -> bool:
            return gateway.authorizer is None or READ_GROUP.allowed(call, group_id)

        call.connection.leases.add(call.frame, lease, response, is_allowed=is_allowed, answered=answered)

    return take


_WHOLE = Whole(down=ErrorCode.none, on_lease=_on_lease)
heartbeat = api(
    12,
    "Heartbeat",
    guard=Guard(Need((READ_GROUP,), group_id)),
    error_body=error_body,
    is_evidence=True,
    forward=_WHOLE.forward,
)(_WHOLE.serve)
