"""DeleteGroups (api key 42), v0-2: split by the groups' actors; one refusal does not affect the others."""

from __future__ import annotations

from typing import Any

from muster.actors.wire.kafka import codec
from muster.gateway.apis.groups.forwarding import call_each, down_error, error_body
from muster.gateway.apis.guards.guard import Each, Guard
from muster.gateway.apis.guards.rights import DELETE_GROUP, itself
from muster.gateway.listener.api import Call, Reply, api

DELETE_GROUPS = 42


@api(
    DELETE_GROUPS,
    "DeleteGroups",
    guard=Guard(each=Each((DELETE_GROUP,), "groups_names", "results", itself)),
    error_body=error_body,
    is_change=True,
)
async def delete_groups(call: Call) -> Reply | None:
    request = call.entity()
    names = list(dict.fromkeys(request.groups_names))
    results: dict[str, Any] = {}
    parts = await call_each(call, names, lambda groups: {"groups_names": groups}, call.header.api_version)
    for groups, frame in parts:
        if frame is None:
            results.update((group or "", down_error(call)) for group in groups)
            continue
        _, response = codec.decode_response(DELETE_GROUPS, call.header.api_version, frame)
        results.update((item.group_id, item.error_code) for item in response.results)
    responses = [{"group_id": name, "error_code": results[name]} for name in names]
    return call.reply({"throttle_time": 0, "results": responses})
