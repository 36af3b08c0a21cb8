"""DescribeProducers (api key 61), v0 (KIP-664): who writes to partitions, and whose transactions are open there."""

from __future__ import annotations

import asyncio
from typing import Any

from muster.actors.wire import codec
from muster.actors.wire.channel import ChannelLost
from muster.actors.wire.codec import ErrorCode
from muster.gateway.apis.partitions import Named, by_topic, existence_error, named, owner_of, send
from muster.gateway.listener.forward import ActorKey
from muster.gateway.listener.registry import INJECTED, Call, Reply, api
from muster.placement.topics import InvalidTopic, check_name

DESCRIBE_PRODUCERS = 61
_VERSION = 0
_TIMEOUT_S = 30.0


def _error_body(call: Call, error: ErrorCode) -> dict[str, Any]:
    wanted = _wanted(call)
    return _body(wanted, {each.key: _failed(each.partition, error, INJECTED) for each in wanted})


@api(DESCRIBE_PRODUCERS, "DescribeProducers", error_body=_error_body)
async def describe_producers(call: Call) -> Reply | None:
    wanted = _wanted(call)
    results: dict[Any, dict[str, Any]] = {}
    owners: dict[ActorKey, list[Named]] = {}
    for partition in wanted:
        if (error := _refusal(partition)) is not None:
            results[partition.key] = _failed(partition.partition, error)
        else:
            assert partition.topic is not None
            owners.setdefault(owner_of(call.gateway, partition.topic, partition.partition), []).append(partition)
    for found in await asyncio.gather(*(_send(call, owner, items) for owner, items in owners.items())):
        results.update(found)
    return call.reply(_body(wanted, results))


def _wanted(call: Call) -> list[Named]:
    return [
        named(call.gateway, topic.name, None, partition)
        for topic in call.entity().topics
        for partition in topic.partition_indexes
    ]


def _refusal(partition: Named) -> ErrorCode | None:
    try:
        check_name(partition.name or "")
    except InvalidTopic:
        return ErrorCode.invalid_topic_exception
    return existence_error(partition)


async def _send(call: Call, owner: ActorKey, items: list[Named]) -> dict[Any, dict[str, Any]]:
    body = {
        "topics": [
            {"name": topic.name, "partition_indexes": [each.partition for each in members]}
            for topic, members in by_topic(items)
        ]
    }
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            frame = await send(call, owner, DESCRIBE_PRODUCERS, _VERSION, body)
    except (ChannelLost, TimeoutError):
        return {each.key: _failed(each.partition, ErrorCode.not_leader_or_follower) for each in items}
    _, response = codec.decode_response(DESCRIBE_PRODUCERS, _VERSION, frame)
    return {
        (topic.name, None, each.partition_index): {
            "partition_index": each.partition_index,
            "error_code": each.error_code,
            "error_message": each.error_message,
            "active_producers": each.active_producers,
        }
        for topic in response.topics
        for each in topic.partitions
    }


def _body(wanted: list[Named], results: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    return {
        "throttle_time": 0,
        "topics": [
            {"name": topic.name, "partitions": [results[each.key] for each in members]}
            for topic, members in by_topic(wanted)
        ],
    }


def _failed(partition: int, error: ErrorCode, text: str | None = None) -> dict[str, Any]:
    return {"partition_index": partition, "error_code": error, "error_message": text, "active_producers": []}
