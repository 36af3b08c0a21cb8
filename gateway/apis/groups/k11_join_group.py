"""JoinGroup (api key 11), v0-9: forwarded unchanged; the group's actor responds when the join phase completes.

A client waits for a join until its rebalance timeout is over, and a little longer; it stops being a member when its
session ends.
"""

from __future__ import annotations

from muster.gateway.apis.groups.forwarding import Whole, error_body
from muster.gateway.apis.guards.guard import Guard, Need
from muster.gateway.apis.guards.rights import READ_GROUP, group_id
from muster.gateway.listener.api import Call, api


def _parked_s(call: Call) -> float:
    request = call.entity()
    longest = max(request.session_timeout, getattr(request, "rebalance_timeout", request.session_timeout))
    return float(max(0, longest) / 1000)


_WHOLE = Whole(parked_s=_parked_s)
join_group = api(
    11,
    "JoinGroup",
    guard=Guard(Need((READ_GROUP,), group_id)),
    error_body=error_body,
    is_evidence=True,
    forward=_WHOLE.forward,
)(_WHOLE.serve)
