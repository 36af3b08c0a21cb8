"""DescribeGroups (api key 15), v0-6: split by the groups' actors; their responses are merged as bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import field
from muster.gateway.apis.groups.forwarding import call_each, down_error, error_body
from muster.gateway.apis.guards.guard import Each, Guard, entity_of
from muster.gateway.apis.guards.operations import OMITTED
from muster.gateway.apis.guards.rights import DESCRIBE_GROUP, GROUP, itself
from muster.gateway.listener.api import Call, Reply, api

DESCRIBE_GROUPS = 15


def _with_operations(call: Call, reply: Reply) -> Reply:
    if not field(call.entity(), "include_authorized_operations", False):
        return reply
    response = entity_of(call, reply)
    groups = tuple(
        group
        if group.authorized_operations == OMITTED
        else replace(group, authorized_operations=call.operations(GROUP, group.group_id))
        for group in response.groups
    )
    return call.reply(replace(response, groups=groups))


_GUARD = Guard(each=Each((DESCRIBE_GROUP,), "groups", "groups", itself), amend=_with_operations)


@api(DESCRIBE_GROUPS, "DescribeGroups", guard=_GUARD, error_body=error_body)
async def describe_groups(call: Call) -> Reply | None:
    request = call.entity()
    version = call.header.api_version
    operations = field(request, "include_authorized_operations", False)

    def body_of(groups: list[str | None]) -> dict[str, Any]:
        return {"groups": groups, "include_authorized_operations": operations}

    responses: dict[str | None, bytes] = {}
    for groups, frame in await call_each(call, request.groups, body_of, version):
        if frame is None:
            responses.update((group, _down(call, group or "")) for group in groups)
        else:
            responses.update(zip(groups, codec.split_response(DESCRIBE_GROUPS, version, frame), strict=True))
    return call.reply_joined({"throttle_time": 0, "groups": ()}, [responses[group] for group in request.groups])


def _down(call: Call, group: str) -> bytes:
    body = {
        "error_code": down_error(call),
        "group_id": group,
        "group_state": "",
        "protocol_type": "",
        "protocol_data": "",
        "members": [],
    }
    return codec.element(DESCRIBE_GROUPS, call.header.api_version, "groups", body)
