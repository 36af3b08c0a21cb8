"""DescribeGroups (api key 15), v0-6: split by the groups' actors."""

from __future__ import annotations

from typing import Any

from actors.wire.codec import field
from gateway.groups import ask_each, down_error
from gateway.registry import Call, Reply, api

DESCRIBE_GROUPS = 15


@api(DESCRIBE_GROUPS, "DescribeGroups")
async def describe_groups(call: Call) -> Reply | None:
    request = call.entity()
    version = call.header.api_version
    operations = field(request, "include_authorized_operations", False)

    def body_of(groups: list[str | None]) -> dict[str, Any]:
        return {"groups": groups, "include_authorized_operations": operations}

    answers: dict[str, Any] = {}
    for groups, response in await ask_each(call, request.groups, body_of, version):
        for group in groups if response is None else ():
            answers[group or ""] = _down(call, group or "")
        for found in response.groups if response else ():
            answers[found.group_id] = found
    return call.reply({"throttle_time": 0, "groups": [answers[group] for group in request.groups]})


def _down(call: Call, group: str) -> dict[str, Any]:
    return {
        "error_code": down_error(call),
        "group_id": group,
        "group_state": "",
        "protocol_type": "",
        "protocol_data": "",
        "members": [],
    }
