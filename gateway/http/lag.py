"""``GET /v1/groups/lag?group=G``: the lag of the group, in messages and in seconds, as JSON.

``{"group": G, "state": Kafka's name, "partitions": [...]}`` with the rows of :mod:`muster.gateway.http.group_lag`.
If a log does not respond, its partitions have no end. Errors are those of :mod:`muster.gateway.http.groups`.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from aiohttp import web

from muster.actors.group.codec.consumer_protocol import PROTOCOL_TYPE, assigned_partitions
from muster.actors.wire import codec, envelope
from muster.actors.wire.channel import ChannelLost
from muster.actors.wire.codec import ErrorCode
from muster.gateway.apis.partitions import channel_to, owner_of
from muster.gateway.http.callers import current_caller
from muster.gateway.http.group_lag import End, Owner, TopicPartition, rows
from muster.gateway.http.groups import Failed, as_json, from_coordinator, required
from muster.gateway.listener.forward import ActorKey
from muster.gateway.listener.gateway import Gateway

log = logging.getLogger(__name__)

OFFSET_FETCH, DESCRIBE_GROUPS, CONSUMER_GROUP_DESCRIBE = 9, 15, 69
_OFFSET_FETCH_VERSION, _DESCRIBE_GROUPS_VERSION = 9, 5
_DEAD = "Dead"
_NOT_COMMITTED = -1
_REQUEST_TIMEOUT_S = 5.0
_CONTEXT = envelope.write_context("", "", "")
"""The context of a gateway that fetches all offsets of a group, as no consumer does: it is not taken for one."""


def add_routes(app: web.Application, gateway: Gateway) -> None:
    """Serve the route of this module; the app has not been started yet."""

    async def lag(request: web.Request) -> dict[str, Any]:
        found = await lag_of(gateway, required(request, "group"))
        sees = current_caller().sees_topic
        return {**found, "partitions": [row for row in found["partitions"] if sees(row["topic"])]}

    app.router.add_get("/v1/groups/lag", as_json(lag))


async def lag_of(gateway: Gateway, group: str) -> dict[str, Any]:
    """The route's response. Failed if there is no such group, or its coordinator does not respond."""
    (state, owners), (fetched,) = await asyncio.gather(_describe(gateway, group), _committed(gateway, group))
    committed = {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in fetched.topics
        for partition in topic.partitions
        if partition.committed_offset != _NOT_COMMITTED
    }
    if state == _DEAD and not committed:
        raise Failed(404, f"unknown group {group}")
    ends = await _ends(gateway, {key: committed.get(key, _NOT_COMMITTED) for key in {*committed, *owners}})
    return {"group": group, "state": state, "partitions": rows(committed, ends, owners)}


async def _describe(gateway: Gateway, group: str) -> tuple[str, dict[TopicPartition, Owner]]:
    """The state of the group, and the owners of partitions."""
    body = {"groups": [group], "include_authorized_operations": False}
    classic = await _call_coordinator(gateway, group, DESCRIBE_GROUPS, _DESCRIBE_GROUPS_VERSION, body)
    if classic.groups[0].group_state != _DEAD:
        return classic.groups[0].group_state, _owners(classic.groups[0])
    body = {"group_ids": [group], "include_authorized_operations": False}
    allowed = frozenset({ErrorCode.group_id_not_found, ErrorCode.unsupported_version})
    consumer = (await _call_coordinator(gateway, group, CONSUMER_GROUP_DESCRIBE, 0, body, allowed)).groups[0]
    if consumer.error_code is not ErrorCode.none:
        return _DEAD, {}
    return consumer.group_state, {
        (topic.topic_name, index): Owner(member.member_id, member.client_id, member.client_host)
        for member in consumer.members
        for topic in member.assignment.topic_partitions
        for index in topic.partitions
    }


async def _committed(gateway: Gateway, group: str) -> Any:
    body = {"groups": [{"group_id": group, "member_id": None, "topics": None}], "require_stable": False}
    return (await _call_coordinator(gateway, group, OFFSET_FETCH, _OFFSET_FETCH_VERSION, body)).groups


async def _call_coordinator(
    gateway: Gateway,
    group: str,
    api_key: int,
    version: int,
    body: dict[str, Any],
    allowed: frozenset[ErrorCode] = frozenset(),
) -> Any:
    """The response to one of Kafka's requests about one group, as an entity.

    Failed if there is none, or an error that is not one of ``allowed``.
    """
    request = codec.encode_request(api_key, version, 0, None, body)
    frame = await from_coordinator(gateway, group, lambda channel: channel.call(_CONTEXT, request))
    _, response = codec.decode_response(api_key, version, frame)
    errors = [found.error_code for found in response.groups if found.error_code not in {ErrorCode.none, *allowed}]
    if failed := next(iter(errors), None):
        partition = gateway.partition_of(group)
        raise Failed(503, f"the coordinator of the group, offsets-{partition}, answers {failed.name.upper()}")
    return response


def _owners(described: Any) -> dict[TopicPartition, Owner]:
    """The owners of partitions; members of another protocol type than consumer own none."""
    if described.protocol_type != PROTOCOL_TYPE:
        return {}
    return {
        key: Owner(member.member_id, member.client_id, member.client_host)
        for member in described.members
        for key in assigned_partitions(member.member_assignment) or ()
    }


async def _ends(gateway: Gateway, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, End]:
    """The ends in the logs that respond; ``wanted`` are the offsets whose append times are needed."""
    by_actor: dict[ActorKey, list[TopicPartition]] = {}
    for name, partition in wanted:
        topic = gateway.view.topics.get(name)
        if topic is not None and 0 <= partition < topic.partitions:
            by_actor.setdefault(owner_of(gateway, topic, partition), []).append((name, partition))
    found = await asyncio.gather(*(_query_log(gateway, actor, keys, wanted) for actor, keys in by_actor.items()))
    return {key: end for ends in found for key, end in ends.items()}


async def _query_log(
    gateway: Gateway, actor: ActorKey, keys: list[TopicPartition], wanted: dict[TopicPartition, int]
) -> dict[TopicPartition, End]:
    query = {"ask": "append_times", "partitions": [[*key, wanted[key]] for key in keys]}
    channel = channel_to(gateway, actor)
    if channel is None:
        return {}
    try:
        async with asyncio.timeout(_REQUEST_TIMEOUT_S):
            response = await channel.query(query)
    except (ChannelLost, TimeoutError) as error:
        log.warning("%s-%d does not tell append times: %r", *actor, error)
        return {}
    if "error" in response:
        log.warning("%s-%d does not tell append times: %s", *actor, response["error"])
        return {}
    return {
        key: End(part["end_offset"], part["append_time_ms"], response["now_ms"])
        for key, part in zip(keys, response["partitions"], strict=True)
        if "error" not in part
    }
