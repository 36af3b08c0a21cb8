"""ConsumerGroupDescribe (api key 69), v0-1: split by the groups' actors; their responses are merged as bytes.

v1 the protocol of each member (KIP-1099)
"""

from __future__ import annotations

from typing import Any

from muster.actors.wire import codec
from muster.gateway.apis.groups.forwarding import call_each, down_error, error_body
from muster.gateway.listener.registry import Call, Reply, api

CONSUMER_GROUP_DESCRIBE = 69


@api(CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribe", error_body=error_body)
async def consumer_group_describe(call: Call) -> Reply | None:
    request = call.entity()
    version = call.header.api_version

    def body_of(groups: list[str | None]) -> dict[str, Any]:
        return {"group_ids": groups, "include_authorized_operations": request.include_authorized_operations}

    responses: dict[str | None, bytes] = {}
    for groups, frame in await call_each(call, request.group_ids, body_of, version):
        if frame is None:
            responses.update((group, _down(call, group or "")) for group in groups)
        else:
            responses.update(zip(groups, codec.split_response(CONSUMER_GROUP_DESCRIBE, version, frame), strict=True))
    return call.reply_joined({"throttle_time": 0, "groups": ()}, [responses[group] for group in request.group_ids])


def _down(call: Call, group: str) -> bytes:
    body: dict[str, Any] = {
        "error_code": down_error(call),
        "error_message": None,
        "group_id": group,
        "group_state": "",
        "group_epoch": 0,
        "assignment_epoch": 0,
        "assignor_name": "",
        "members": [],
    }
    return codec.element(CONSUMER_GROUP_DESCRIBE, call.header.api_version, "groups", body)
