"""ListOffsets (api key 2), v1-11: earliest, latest, by time, and the timestamps below -2 of KIP-734 and KIP-405.

A partition that occurs twice is refused with INVALID_REQUEST, as in Kafka.
"""

from __future__ import annotations

import asyncio
from typing import Any

from muster.actors.wire import codec
from muster.actors.wire.channel import ChannelLost
from muster.actors.wire.codec import ErrorCode, field
from muster.gateway.apis.partitions import Named, by_topic, existence_error, named, owner_of, repeated, send
from muster.gateway.listener.forward import ActorKey
from muster.gateway.listener.registry import Call, Reply, api

LIST_OFFSETS = 2
INTERNAL_VERSION = 10
_TIMEOUT_S = 30.0


def _error_body(call: Call, error: ErrorCode) -> dict[str, Any]:
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [_failed(item.partition_index, error) for item in topic.partitions],
            }
            for topic in call.entity().topics
        ]
    }


@api(LIST_OFFSETS, "ListOffsets", error_body=_error_body)
async def list_offsets(call: Call) -> Reply | None:
    request = call.entity()
    wanted = [
        (named(call.gateway, topic.name, None, item.partition_index), item)
        for topic in request.topics
        for item in topic.partitions
    ]
    results: dict[Any, dict[str, Any]] = {}
    owners: dict[ActorKey, list[tuple[Named, Any]]] = {}
    twice = repeated(partition for partition, _ in wanted)
    for partition, item in wanted:
        error = ErrorCode.invalid_request if partition.key in twice else existence_error(partition)
        if error is not None:
            results[partition.key] = _failed(partition.partition, error)
        else:
            assert partition.topic is not None
            owner = owner_of(call.gateway, partition.topic, partition.partition)
            owners.setdefault(owner, []).append((partition, item))
    for found in await asyncio.gather(*(_send(call, request, owner, items) for owner, items in owners.items())):
        results.update(found)
    return call.reply(
        {
            "throttle_time": 0,
            "topics": [
                {"name": topic.name, "partitions": [results[partition.key] for partition in partitions]}
                for topic, partitions in by_topic(partition for partition, _ in wanted)
            ],
        }
    )


async def _send(call: Call, request: Any, owner: ActorKey, items: list[tuple[Named, Any]]) -> dict[Any, dict[str, Any]]:
    requested = {partition.key: item for partition, item in items}
    body = {
        "replica_id": -1,
        "isolation_level": field(request, "isolation_level", 0),
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": partition.partition,
                        "current_leader_epoch": field(requested[partition.key], "current_leader_epoch", -1),
                        "timestamp": requested[partition.key].timestamp,
                    }
                    for partition in partitions
                ],
            }
            for topic, partitions in by_topic(partition for partition, _ in items)
        ],
        "timeout": round(_TIMEOUT_S * 1000),
    }
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            frame = await send(call, owner, LIST_OFFSETS, INTERNAL_VERSION, body)
    except ChannelLost:
        return {partition.key: _failed(partition.partition, ErrorCode.not_leader_or_follower) for partition, _ in items}
    except TimeoutError:
        return {partition.key: _failed(partition.partition, ErrorCode.request_timed_out) for partition, _ in items}
    _, response = codec.decode_response(LIST_OFFSETS, INTERNAL_VERSION, frame)
    return {
        (topic.name, None, item.partition_index): {
            "partition_index": item.partition_index,
            "error_code": item.error_code,
            "timestamp": item.timestamp,
            "offset": item.offset,
            "leader_epoch": item.leader_epoch,
        }
        for topic in response.topics
        for item in topic.partitions
    }


def _failed(partition: int, error: ErrorCode) -> dict[str, Any]:
    return {
        "partition_index": partition,
        "error_code": error,
        "timestamp": -1,
        "offset": -1,
        "leader_epoch": -1,
    }
