"""``GET /v1/groups/lag``: how far groups are behind, in messages and in seconds, as JSON.

With ``group=G``, one group: ``{"group", "state", "lag", "lag_s", "behind", "without_commit",
"messages_without_commit", "unread", "partitions": [...]}`` with the rows of :mod:`muster.gateway.lag.partitions`, and
sums as in :class:`muster.gateway.lag.groups.Total`. If a log does not respond, its partitions have no end. With
``topic=T``, once or more, the partitions of these topics have rows even if the group, which need not exist then, has
neither a commit nor a member there: for what starts its first member.

Without, all groups: ``{"groups": [...], "total", "offset", "limit", "partial", "missing_partitions",
"missing_actors"}``. ``sort`` is ``worst`` (:func:`muster.gateway.lag.partitions.worst_first`), ``lag_s``, ``lag``,
``members`` or ``group``; ``limit`` and ``offset`` choose the page. It is at most a second old.

Errors are those of :mod:`muster.gateway.http.groups`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from aiohttp import web

from muster.actors.group.codec.consumer_protocol import PROTOCOL_TYPE, assigned_partitions
from muster.actors.wire.internal import envelope
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.http.callers import Caller, current_caller
from muster.gateway.http.groups import Failed, as_json, from_coordinator, number
from muster.gateway.lag.ends import ends_of
from muster.gateway.lag.groups import GroupLag, Lags, PartitionLag, WithoutCommit, in_turns, total
from muster.gateway.lag.partitions import Owner, TopicPartition, largest_first, oldest_first, rows, worst_first
from muster.gateway.lag.shared import REQUEST_TIMEOUT_S, SharedLags
from muster.gateway.listener.gateway import Gateway

OFFSET_FETCH, DESCRIBE_GROUPS, CONSUMER_GROUP_DESCRIBE = 9, 15, 69
_OFFSET_FETCH_VERSION, _DESCRIBE_GROUPS_VERSION = 9, 5
_DEAD = "Dead"
UNKNOWN = 404
"""The status for an unknown group."""
_NOT_COMMITTED = -1
DEFAULT_LIMIT, LARGEST_LIMIT = 100, 10_000
"""Groups on a page."""
_CONTEXT = envelope.write_context("", "", "")
"""The context of a gateway that fetches all offsets of a group, as no consumer does: it is not taken for one."""
_SORTS: dict[str, Callable[[dict[str, Any]], tuple[Any, ...]]] = {
    "worst": worst_first,
    "lag_s": oldest_first,
    "lag": lambda row: (*largest_first(row["lag"]), *largest_first(row["lag_s"]), row["group"]),
    "members": lambda row: (-row["members"], row["group"]),
    "group": lambda row: (row["group"],),
}


def add_routes(app: web.Application, gateway: Gateway, shared: SharedLags) -> None:
    """Serve the route of this module; the app has not been started yet."""

    async def lag(request: web.Request) -> dict[str, Any]:
        if "group" not in request.query:
            return await _page(request, await shared.lags(), current_caller())
        if not (group := request.query["group"]):
            raise Failed(400, "the parameter group is empty")
        sees = current_caller().sees_topic
        state, found = await lag_of(gateway, group, filter(sees, request.query.getall("topic", [])))
        return _one(group, state, [row for row in found if sees(row["topic"])])

    app.router.add_get("/v1/groups/lag", as_json(lag))


async def _page(request: web.Request, lags: Lags, caller: Caller) -> dict[str, Any]:
    sort = request.query.get("sort", "worst")
    if sort not in _SORTS:
        raise Failed(400, f"sort must be one of {', '.join(_SORTS)}")
    limit = number(request, "limit", DEFAULT_LIMIT, 1, LARGEST_LIMIT)
    offset = number(request, "offset", 0, 0, 10**9 - 1)
    if not lags.groups and lags.missing_partitions:
        raise Failed(503, "no coordinator responds")
    found = [_summary(each, caller) async for each in in_turns(lags.groups) if caller.sees_group(each.group)]
    found.sort(key=_SORTS[sort])
    return {
        "groups": found[offset : offset + limit],
        "total": len(found),
        "offset": offset,
        "limit": limit,
        "partial": bool(lags.missing_partitions or lags.silent),
        "missing_partitions": lags.missing_partitions,
        "missing_actors": lags.silent,
    }


def _summary(group: GroupLag, caller: Caller) -> dict[str, Any]:
    return {
        "group": group.group,
        "state": group.state,
        "type": group.type,
        "protocol_type": group.protocol_type or None,
        "members": group.members,
        **group.total(caller.sees_topic).to_json(),
    }


def _one(group: str, state: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    committed, others = [], []
    for row in found:
        key = row["topic"], row["partition"]
        if row["committed_offset"] is None:
            others.append(WithoutCommit(*key, row["messages_without_commit"]))
        else:
            committed.append(PartitionLag(*key, _of(row["lag"]), row["lag_s"]))
    sums = total(committed, others).to_json()
    del sums["partitions"]  # their number
    return {"group": group, "state": state, **sums, "partitions": found}


def _of(lag: int | None) -> int | None:
    return None if lag is None else max(lag, 0)


async def lag_of(gateway: Gateway, group: str, topics: Iterable[str] = ()) -> tuple[str, list[dict[str, Any]]]:
    """Return the state of one group, and its rows; also those of all partitions of these topics, as far as they exist.

    Raises Failed if its coordinator does not respond; or if there is no such group, and no topic is given.
    """
    wanted = {(name, index) for name in topics for index in _partitions(gateway, name)}
    try:
        (state, owners), (fetched,) = await asyncio.gather(_describe(gateway, group), _committed(gateway, group))
    except Failed as failed:
        if failed.status != UNKNOWN or not wanted:
            raise
        state, owners, committed = _DEAD, {}, {}
    else:
        committed = {
            (topic.name, partition.partition_index): partition.committed_offset
            for topic in fetched.topics
            for partition in topic.partitions
            if partition.committed_offset != _NOT_COMMITTED
        }
    if state == _DEAD and not committed and not wanted:
        raise Failed(UNKNOWN, f"unknown group {group}")
    others = {*owners, *wanted}
    positions = {key: [committed[key]] if key in committed else [] for key in {*committed, *others}}
    ends = await ends_of(gateway, positions, REQUEST_TIMEOUT_S)
    by_partition = {key: end for key in positions if (end := ends.at(key, committed.get(key, _NOT_COMMITTED)))}
    messages = {key: count for key in others if (count := ends.messages(key)) is not None}
    return state, rows(committed, by_partition, owners, messages, wanted)


def _partitions(gateway: Gateway, name: str) -> range:
    topic = gateway.view.topics.get(name)
    return range(0 if topic is None else topic.partitions)


async def _describe(gateway: Gateway, group: str) -> tuple[str, dict[TopicPartition, Owner]]:
    """Return the state of the group, and the owners of partitions."""
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
    """Return the response to one of Kafka's requests about one group, as an entity.

    Raises Failed if there is none, or an error that is not one of ``allowed``.
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
    """Return the owners of partitions; members of another protocol type than consumer own none."""
    if described.protocol_type != PROTOCOL_TYPE:
        return {}
    return {
        key: Owner(member.member_id, member.client_id, member.client_host)
        for member in described.members
        for key in assigned_partitions(member.member_assignment) or ()
    }
