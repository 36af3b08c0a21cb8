"""ConsumerGroupDescribe (api key 69), v0-1: split by the groups' actors; their responses are merged as bytes.

v1 the protocol of each member (KIP-1099)
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.groups.forwarding import call_each, down_error, error_body
from muster.gateway.apis.guards.guard import Each, Guard, entity_of
from muster.gateway.apis.guards.operations import OMITTED
from muster.gateway.apis.guards.rights import DESCRIBE_GROUP, DESCRIBE_TOPIC, GROUP, itself
from muster.gateway.listener.api import Call, Reply, Rule, api

CONSUMER_GROUP_DESCRIBE = 69


def _amended(call: Call, reply: Reply) -> Reply:
    response = entity_of(call, reply)
    groups = tuple(_amended_group(call, group) for group in response.groups)
    return call.reply(replace(response, groups=groups))


def _amended_group(call: Call, group: Any) -> Any:
    """Return a group without what the client may not see; refused, as by Kafka, if that is a topic of a member."""
    assignments = (each for member in group.members for each in (member.assignment, member.target_assignment))
    topics = {topic.topic_name for assignment in assignments for topic in assignment.topic_partitions}
    if not all(DESCRIBE_TOPIC.allowed(call, topic) for topic in topics):
        return _failed(group.group_id, ErrorCode.topic_authorization_failed, _TOPIC_REFUSED)
    if group.authorized_operations == OMITTED:
        return group
    return replace(group, authorized_operations=call.operations(GROUP, group.group_id))


_TOPIC_REFUSED = "The group has described topic(s) that the client is not authorized to describe."
_GUARD = Guard(
    each=Each((DESCRIBE_GROUP,), "group_ids", "groups", itself),
    inside=(Rule((DESCRIBE_TOPIC,), "of the group's members", ErrorCode.topic_authorization_failed),),
    amend=_amended,
)


@api(CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribe", guard=_GUARD, error_body=error_body)
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
    return codec.element(CONSUMER_GROUP_DESCRIBE, call.header.api_version, "groups", _failed(group, down_error(call)))


def _failed(group: str, error: ErrorCode, message: str | None = None) -> dict[str, Any]:
    return {
        "error_code": error,
        "error_message": message,
        "group_id": group,
        "group_state": "",
        "group_epoch": 0,
        "assignment_epoch": 0,
        "assignor_name": "",
        "members": [],
    }
