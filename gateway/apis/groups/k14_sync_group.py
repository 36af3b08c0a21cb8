"""SyncGroup (api key 14), v0-5: forwarded unchanged; the response comes once the leader's assignment is durable.

While the group's actor is down, the response is NOT_COORDINATOR, since clients (the Java consumer) treat "loading" as
fatal here. The request does not say how long its member may wait for the others.
"""

from __future__ import annotations

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.groups.forwarding import Whole, error_body
from muster.gateway.apis.guards.guard import Guard, Need
from muster.gateway.apis.guards.rights import READ_GROUP, group_id
from muster.gateway.listener.api import Call, api


def _parked_s(call: Call) -> float:
    return call.gateway.group_config.group_max_session_timeout_ms / 1000


_WHOLE = Whole(down=ErrorCode.not_coordinator, parked_s=_parked_s)
sync_group = api(
    14,
    "SyncGroup",
    guard=Guard(Need((READ_GROUP,), group_id)),
    error_body=error_body,
    is_evidence=True,
    forward=_WHOLE.forward,
)(_WHOLE.serve)
