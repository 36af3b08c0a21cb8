"""OffsetCommit (api key 8), v2-10.

Topics and partitions that do not exist are answered here (UNKNOWN_TOPIC_OR_PARTITION, v10 by id:
UNKNOWN_TOPIC_ID); the rest goes to the group's actor, which is not asked when nothing is left. v10 names
topics by id (KIP-848); the actor is told names.
"""

from __future__ import annotations

from typing import Any

from actors.wire import codec
from actors.wire.codec import ErrorCode, field
from gateway.groups import ask_coordinator, down_error, forward_whole, saw_group
from gateway.partitions import Named, by_topic, existence_error, named
from gateway.registry import Call, Reply, api

OFFSET_COMMIT = 8
NEWEST_BY_NAME = 9


@api(OFFSET_COMMIT, "OffsetCommit")
async def offset_commit(call: Call) -> Reply | None:
    request = call.entity()
    wanted = [
        (named(call.gateway, field(topic, "name", None), field(topic, "topic_id", None), item.partition_index), item)
        for topic in request.topics
        for item in topic.partitions
    ]
    results: dict[Any, ErrorCode] = {}
    known: list[tuple[Named, Any]] = []
    for partition, item in wanted:
        if (error := existence_error(partition)) is not None:
            results[partition.key] = error
        else:
            known.append((partition, item))
    if len(known) == len(wanted) and call.header.api_version <= NEWEST_BY_NAME:
        return await forward_whole(call)
    saw_group(call, request.group_id)
    if known:
        results.update(await _commit(call, request, known))
    return call.reply(
        {
            "throttle_time": 0,
            "topics": [
                {
                    "name": topic.name,
                    "topic_id": topic.topic_id,
                    "partitions": [
                        {"partition_index": partition.partition, "error_code": results[partition.key]}
                        for partition in partitions
                    ],
                }
                for topic, partitions in by_topic(partition for partition, _ in wanted)
            ],
        }
    )


async def _commit(call: Call, request: Any, known: list[tuple[Named, Any]]) -> dict[Any, ErrorCode]:
    version = min(call.header.api_version, NEWEST_BY_NAME)
    items = {partition.key: item for partition, item in known}
    body = {
        "group_id": request.group_id,
        "generation_id_or_member_epoch": field(request, "generation_id_or_member_epoch", -1),
        "member_id": field(request, "member_id", ""),
        "group_instance_id": field(request, "group_instance_id", None),
        "retention_time": codec.ms(request.retention_time) if hasattr(request, "retention_time") else -1,
        "topics": [
            {
                "name": topic.topic.name if topic.topic else "",
                "partitions": [_partition(items[partition.key]) for partition in partitions],
            }
            for topic, partitions in by_topic(partition for partition, _ in known)
        ],
    }
    frame = codec.encode_request(OFFSET_COMMIT, version, call.header.correlation_id, call.header.client_id, body)
    answer = await ask_coordinator(call, request.group_id, frame)
    if answer is None:
        return {partition.key: down_error(call) for partition, _ in known}
    _, response = codec.decode_response(OFFSET_COMMIT, version, answer)
    by_name = {(partition.topic.name, partition.partition): partition.key for partition, _ in known if partition.topic}
    return {
        by_name[topic.name, item.partition_index]: item.error_code
        for topic in response.topics
        for item in topic.partitions
    }


def _partition(item: Any) -> dict[str, Any]:
    return {
        "partition_index": item.partition_index,
        "committed_offset": item.committed_offset,
        "committed_leader_epoch": field(item, "committed_leader_epoch", -1),
        "committed_metadata": item.committed_metadata,
    }
