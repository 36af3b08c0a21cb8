"""OffsetFetch (api key 9), v1-10.

Up to v7 one group, forwarded unchanged; from v8 several, which may be on several actors (KIP-709); v10 names
topics by id, so it returns nothing of a deleted topic. If a group's actor is down, only that group fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from itertools import compress
from typing import Any, NamedTuple

from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import Body, ErrorCode, field
from muster.actors.wire.kafka.into import Each, Into, Only
from muster.gateway.apis.groups.forwarding import Whole, call_coordinator, down_error, error_body, peeked
from muster.gateway.apis.guards.guard import entity_of
from muster.gateway.apis.guards.rights import DESCRIBE_GROUP, DESCRIBE_TOPIC, topic_name
from muster.gateway.listener.api import Api, Call, Reply, Rule, api
from muster.gateway.listener.gateway import Gateway

OFFSET_FETCH = 9
NEWEST_BY_NAME = 9
FIRST_WITH_GROUPS = 8


class _Group(NamedTuple):
    group_id: str
    topics: tuple[tuple[str], ...] | None
    """Names; None for all topics."""


class _Fetch(NamedTuple):
    """The parts of a request that have to be known to forward it."""

    groups: tuple[_Group, ...]


_GROUP = Into(_Group, group_id="group_id", topics=Each("topics", Into(tuple, name="name")))
_FETCH, _FETCH_OF_ONE = Into(_Fetch, groups=Each("groups", _GROUP)), Into(_Fetch, groups=Only(_GROUP))


def _by_name(call: Call) -> _Fetch | None:
    """Return what the request names; None if it names topics by id, or is large."""
    version = call.header.api_version
    if version > NEWEST_BY_NAME:
        return None
    fetch: _Fetch | None = peeked(call, _FETCH if version >= FIRST_WITH_GROUPS else _FETCH_OF_ONE)
    return fetch


def _only_group(call: Call) -> str:
    if (fetch := _by_name(call)) is not None:
        return fetch.groups[0].group_id
    request = call.entity()
    group_id: str = request.group_id if call.header.api_version < FIRST_WITH_GROUPS else request.groups[0].group_id
    return group_id


def _is_whole(call: Call) -> bool:
    """Whether one actor can serve the request as it is."""
    version = call.header.api_version
    if (fetch := _by_name(call)) is not None:
        return len(fetch.groups) == 1
    return version < FIRST_WITH_GROUPS or (version <= NEWEST_BY_NAME and len(call.entity().groups) == 1)


_WHOLE = Whole(group_id=_only_group, fits=_is_whole)


class _Guard:
    """Each group of a request is judged like a request of its own."""

    rules = (
        Rule((DESCRIBE_GROUP,), "", ErrorCode.group_authorization_failed),
        Rule((DESCRIBE_TOPIC,), "that the request names", ErrorCode.topic_authorization_failed),
        Rule((DESCRIBE_TOPIC,), "where it names none", None),
    )

    def passes(self, call: Call) -> bool:
        fetch = _by_name(call)
        if fetch is not None:
            return all(
                _all_allowed(call, group.group_id, None if group.topics is None else [name for (name,) in group.topics])
                for group in fetch.groups
            )
        return all(
            _all_allowed(call, group.group_id, None if group.topics is None else _names_of(call, group.topics))
            for group in _groups(call)
        )

    async def serve(self, api: Api, call: Call) -> Reply | None:
        if self.passes(call):
            return await api.handler(call)
        request = call.entity()
        if call.header.api_version < FIRST_WITH_GROUPS:
            if DESCRIBE_GROUP.allowed(call, request.group_id):
                return call.reply(await _allowed_part(api, call, request))
            return call.reply(error_body(call, ErrorCode.group_authorization_failed))
        responses = [_served(api, call, group) for group in request.groups]
        return call.reply({"throttle_time": 0, "groups": await asyncio.gather(*responses)})


def _groups(call: Call) -> Iterable[Any]:
    request = call.entity()
    return (request,) if call.header.api_version < FIRST_WITH_GROUPS else request.groups


def _names_of(call: Call, topics: Iterable[Any]) -> list[str | None]:
    return [topic_name(call, topic) for topic in topics]


def _all_allowed(call: Call, group_id: str, topics: Iterable[str | None] | None) -> bool:
    """Whether all of it may be fetched; None for all topics, of which some may not be seen."""
    if topics is None or not DESCRIBE_GROUP.allowed(call, group_id):
        return False
    return all(name is None or DESCRIBE_TOPIC.allowed(call, name) for name in topics)


async def _served(api: Api, call: Call, group: Any) -> Body:
    if not DESCRIBE_GROUP.allowed(call, group.group_id):
        return {"group_id": group.group_id, "topics": [], "error_code": ErrorCode.group_authorization_failed}
    return await _allowed_part(api, call, group)


async def _allowed_part(api: Api, call: Call, group: Any) -> Body:
    """Return the response to a group of the request, or to a request that is of one group."""
    topics = group.topics or ()
    is_allowed = [name is None or DESCRIBE_TOPIC.allowed(call, name) for name in _names_of(call, topics)]
    allowed = replace(group, topics=None if group.topics is None else tuple(compress(topics, is_allowed)))
    is_whole = call.header.api_version < FIRST_WITH_GROUPS
    part = call.narrowed(allowed if is_whole else replace(call.entity(), groups=(allowed,)))
    reply = await api.handler(part)
    assert reply is not None
    response = entity_of(call, await call.written(reply))
    found = response if is_whole else response.groups[0]
    if field(found, "error_code", ErrorCode.none) is not ErrorCode.none:
        refusal: Body = found
        return refusal
    seen = [topic for topic in found.topics if group.topics is not None or _is_seen(call, topic)]
    refused = [_refused(topic) for topic, is_ok in zip(topics, is_allowed, strict=True) if not is_ok]
    merged: Body = replace(found, topics=(*seen, *refused))
    return merged


def _is_seen(call: Call, topic: Any) -> bool:
    name = topic_name(call, topic)
    return name is not None and DESCRIBE_TOPIC.allowed(call, name, logged=False)


def _refused(topic: Any) -> dict[str, Any]:
    error = ErrorCode.topic_authorization_failed
    return {
        "name": field(topic, "name", None),
        "topic_id": field(topic, "topic_id", None),
        "partitions": [_missing(partition, error) for partition in topic.partition_indexes],
    }


@api(OFFSET_FETCH, "OffsetFetch", guard=_Guard(), error_body=error_body, forward=_WHOLE.forward)
async def offset_fetch(call: Call) -> Reply | None:
    if _is_whole(call):
        return await _WHOLE.serve(call)
    request = call.entity()
    by_id = call.header.api_version > NEWEST_BY_NAME
    topics = [_names(call.gateway, each.topics) if by_id else (_as_sent(each.topics), []) for each in request.groups]
    fetched = [
        _fetch_group(call, group, request.require_stable, *found)
        for group, found in zip(request.groups, topics, strict=True)
    ]
    groups = await asyncio.gather(*fetched)
    return call.reply({"throttle_time": 0, "groups": groups})


async def _fetch_group(
    call: Call,
    group: Any,
    require_stable: bool,
    topics: list[dict[str, Any]] | None,
    unknown: list[dict[str, Any]],
) -> dict[str, Any]:
    """``topics``: as the actor gets them; they were named when the request was judged. ``unknown``: other results."""
    version = min(call.header.api_version, NEWEST_BY_NAME)
    by_id = call.header.api_version > NEWEST_BY_NAME
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
