"""JoinGroup (api key 11), v0-9: forwarded unchanged; the group's actor responds when the join phase completes.

A client waits for a join until its rebalance timeout is over, and a little longer; it stops being a member when its
session ends.
"""

from __future__ import annotations

from muster.gateway.apis.groups.forwarding import error_body, forward_whole
from muster.gateway.listener.registry import Call, Reply, api


@api(11, "JoinGroup", error_body=error_body, is_evidence=True)
async def join_group(call: Call) -> Reply | None:
    request = call.entity()
    longest = max(request.session_timeout, getattr(request, "rebalance_timeout", request.session_timeout))
    return await forward_whole(call, parked_s=max(0.0, longest.total_seconds()))
