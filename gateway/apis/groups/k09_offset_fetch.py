"""OffsetFetch (api key 9), v1-10.

Up to v7 one group, forwarded unchanged; from v8 several, which may be on several actors (KIP-709); v10 names
topics by id, so it returns nothing of a deleted topic. If a group's actor is down, only that group fails.
"""

from __future__ import annotations

import asyncio
from typing import Any

from muster.actors.group.codec.plain_fetches import read_plain_fetch
from muster.actors.wire import codec
from muster.actors.wire.codec import ErrorCode, field
from muster.gateway.apis.groups.forwarding import Whole, call_coordinator, down_error, error_body, saw_group
from muster.gateway.listener.gateway import Gateway
from muster.gateway.listener.registry import Call, Reply, api

OFFSET_FETCH = 9
NEWEST_BY_NAME = 9


def _only_group(call: Call) -> str:
    if call.peeked is not None:
        return str(call.peeked.group_id)
    request = call.entity()
    group_id: str = request.group_id if call.header.api_version < 8 else request.groups[0].group_id
    return group_id


def _is_whole(call: Call) -> bool:
    """Whether one actor can serve the request as it is."""
    version = call.header.api_version
    call.peeked = read_plain_fetch(version, call.frame, call.header.end)
    if call.peeked is not None:
        return True
    return version < 8 or (version <= NEWEST_BY_NAME and len(call.entity().groups) == 1)


_WHOLE = Whole(group_id=_only_group, fits=_is_whole)


@api(OFFSET_FETCH, "OffsetFetch", error_body=error_body, is_evidence=True, forward=_WHOLE.forward)
async def offset_fetch(call: Call) -> Reply | None:
    if _is_whole(call):
        return await _WHOLE.serve(call)
    request = call.entity()
    for group in request.groups:
        saw_group(call, group.group_id)
    groups = await asyncio.gather(*(_fetch_group(call, group, request.require_stable) for group in request.groups))
    return call.reply({"throttle_time": 0, "groups": groups})


async def _fetch_group(call: Call, group: Any, require_stable: bool) -> dict[str, Any]:
    version = min(call.header.api_version, NEWEST_BY_NAME)
    by_id = call.header.api_version > NEWEST_BY_NAME
    topics, unknown = _names(call.gateway, group.topics) if by_id else (_as_sent(group.topics), [])
    body = {
        "groups": [
            {
                "group_id": group.group_id,
                "member_id": field(group, "member_id", None),
                "member_epoch": field(group, "member_epoch", -1),
                "topics": topics,
            }
        ],
        "require_stable": require_stable,
    }
    frame = codec.encode_request(OFFSET_FETCH, version, call.header.correlation_id, call.header.client_id, body)
    response = await call_coordinator(call, group.group_id, frame)
    if response is None:
        return {"group_id": group.group_id, "topics": [], "error_code": down_error(call)}
    (found,) = codec.decode_response(OFFSET_FETCH, version, response)[1].groups
    responses = [_response(call.gateway, topic) for topic in found.topics]
    return {
        "group_id": found.group_id,
        "error_code": found.error_code,
        "topics": [response for response in responses if response["topic_id"] or not by_id] + unknown,
    }


def _as_sent(topics: Any) -> list[dict[str, Any]] | None:
    if topics is None:
        return None
    return [{"name": topic.name, "partition_indexes": topic.partition_indexes} for topic in topics]


def _names(gateway: Gateway, topics: Any) -> tuple[list[dict[str, Any]] | None, list[dict[str, Any]]]:
    """Topics by name for the actor, and the responses for unknown ids."""
    if topics is None:
        return None, []
    known, unknown = [], []
    for topic in topics:
        found = gateway.topic(None, topic.topic_id)
        if found is not None:
            known.append({"name": found.name, "partition_indexes": topic.partition_indexes})
        else:
            missing = [_missing(partition, ErrorCode.unknown_topic_id) for partition in topic.partition_indexes]
            unknown.append({"topic_id": topic.topic_id, "partitions": missing})
    return known, unknown


def _missing(partition: int, error: ErrorCode) -> dict[str, Any]:
    return {
        "partition_index": partition,
        "committed_offset": -1,
        "committed_leader_epoch": -1,
        "metadata": "",
        "error_code": error,
    }


def _response(gateway: Gateway, topic: Any) -> dict[str, Any]:
    known = gateway.view.topics.get(topic.name)
    return {
        "name": topic.name,
        "topic_id": known.topic_id if known else None,
        "partitions": [
            {
                "partition_index": item.partition_index,
                "committed_offset": item.committed_offset,
                "committed_leader_epoch": item.committed_leader_epoch,
                "metadata": item.metadata,
                "error_code": item.error_code,
            }
            for item in topic.partitions
        ],
    }
