"""DeleteRecords (api key 21), v0-2: the log start moves to an offset, -1 for the high watermark.

Changes are durable before the response. As in Kafka: of a partition that occurs twice, the last offset counts; internal
topics get INVALID_TOPIC_EXCEPTION, and a topic that is only compacted gets POLICY_VIOLATION.
"""

from __future__ import annotations

import asyncio
from typing import Any

from muster.actors.wire.internal.channel import ChannelLost, NotSent
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.guards.guard import Each, Guard
from muster.gateway.apis.guards.rights import DELETE_TOPIC
from muster.gateway.apis.partitions import (
    WRITE_GRACE_S,
    Named,
    by_topic,
    existence_error,
    grouped,
    named,
    owner_of,
    send,
)
from muster.gateway.listener.api import Call, Reply, api
from muster.gateway.listener.forward import ActorKey

DELETE_RECORDS = 21
INTERNAL_VERSION = 2


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


@api(
    DELETE_RECORDS,
    "DeleteRecords",
    guard=Guard(each=Each((DELETE_TOPIC,), "topics", "topics")),
    error_body=_error_body,
    is_change=True,
)
async def delete_records(call: Call) -> Reply | None:
    request = call.entity()
    wanted: dict[Any, tuple[Named, int]] = {}

    def add(pair: tuple[str, Any]) -> None:
        partition = named(call.gateway, pair[0], None, pair[1].partition_index)
        wanted[partition.key] = (partition, int(pair[1].offset))

    await call.each(((topic.name, item) for topic in request.topics for item in topic.partitions), add)
    results: dict[Any, dict[str, Any]] = {}
    owners: dict[ActorKey, list[tuple[Named, int]]] = {}

    def divide(item: tuple[Named, int]) -> None:
        partition, offset = item
        error = _refusal(partition)
        if error is not None:
            results[partition.key] = _failed(partition.partition, error)
        else:
            assert partition.topic is not None
            owner = owner_of(call.gateway, partition.topic, partition.partition)
            owners.setdefault(owner, []).append((partition, offset))

    await call.each(wanted.values(), divide)
    pending = (_send(call, owner, items, max(request.timeout, 0)) for owner, items in owners.items())
    for found in await asyncio.gather(*pending):
        results.update(found)
    return call.reply(
        {
            "throttle_time": 0,
            "topics": (
                {"name": topic.name, "partitions": (results[partition.key] for partition in partitions)}
                for topic, partitions in await grouped(call, (partition for partition, _ in wanted.values()))
            ),
        }
    )


def _refusal(partition: Named) -> ErrorCode | None:
    if (error := existence_error(partition)) is not None:
        return error
    assert partition.topic is not None
    return ErrorCode.invalid_topic_exception if partition.topic.internal else None


async def _send(
    call: Call, owner: ActorKey, items: list[tuple[Named, int]], timeout_ms: int
) -> dict[Any, dict[str, Any]]:
    offsets = {partition.key: offset for partition, offset in items}
    body = {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {"partition_index": partition.partition, "offset": offsets[partition.key]}
                    for partition in partitions
                ],
            }
            for topic, partitions in by_topic(partition for partition, _ in items)
        ],
        "timeout": timeout_ms,
    }
    try:
        async with asyncio.timeout(timeout_ms / 1000 + WRITE_GRACE_S):
            frame = await send(call, owner, DELETE_RECORDS, INTERNAL_VERSION, body)
    except NotSent:
        return {partition.key: _failed(partition.partition, ErrorCode.not_leader_or_follower) for partition, _ in items}
    except (ChannelLost, TimeoutError):  # deleted or not
        return {partition.key: _failed(partition.partition, ErrorCode.request_timed_out) for partition, _ in items}
    _, response = codec.decode_response(DELETE_RECORDS, INTERNAL_VERSION, frame)
    return {
        (topic.name, None, item.partition_index): {
            "partition_index": item.partition_index,
            "low_watermark": item.low_watermark,
            "error_code": item.error_code,
        }
        for topic in response.topics
        for item in topic.partitions
    }


def _failed(partition: int, error: ErrorCode) -> dict[str, Any]:
    return {"partition_index": partition, "low_watermark": -1, "error_code": error}
