"""OffsetDelete (api key 47), v0.

Topics and partitions that do not exist are answered here (UNKNOWN_TOPIC_OR_PARTITION). The group's actor is asked
even if nothing else is left, since an error of the group is the answer to all of it.
"""

from __future__ import annotations

from typing import Any

from actors.wire import codec
from actors.wire.codec import ErrorCode
from gateway.groups import ask_coordinator, down_error
from gateway.partitions import existence_error, named
from gateway.registry import Call, Reply, api

OFFSET_DELETE = 47
VERSION = 0

Results = dict[str, list[tuple[int, ErrorCode]]]
"""(partition, error) by topic."""


@api(OFFSET_DELETE, "OffsetDelete")
async def offset_delete(call: Call) -> Reply | None:
    request = call.entity()
    known: dict[str, list[int]] = {}
    results: Results = {}
    for topic in request.topics:
        for partition in topic.partitions:
            index = partition.partition_index
            if (error := existence_error(named(call.gateway, topic.name, None, index))) is None:
                known.setdefault(topic.name, []).append(index)
            else:
                results.setdefault(topic.name, []).append((index, error))
    error, deleted = await _delete(call, request.group_id, known)
    if error is not ErrorCode.none:
        return call.reply({"error_code": error, "throttle_time": 0, "topics": []})
    for name, partitions in deleted.items():
        results.setdefault(name, []).extend(partitions)
    return call.reply({"error_code": ErrorCode.none, "throttle_time": 0, "topics": _topics(results)})


async def _delete(call: Call, group_id: str, known: dict[str, list[int]]) -> tuple[ErrorCode, Results]:
    topics = [
        {"name": name, "partitions": [{"partition_index": index} for index in indexes]}
        for name, indexes in known.items()
    ]
    body = {"group_id": group_id, "topics": topics}
    header = call.header
    frame = codec.encode_request(OFFSET_DELETE, VERSION, header.correlation_id, header.client_id, body)
    answer = await ask_coordinator(call, group_id, frame)
    if answer is None:
        return down_error(call), {}
    response = codec.decode_response(OFFSET_DELETE, VERSION, answer)[1]
    deleted: Results = {}
    for topic in response.topics:
        deleted.setdefault(topic.name, []).extend((item.partition_index, item.error_code) for item in topic.partitions)
    return response.error_code, deleted


def _topics(results: Results) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "partitions": [{"partition_index": index, "error_code": error} for index, error in partitions],
        }
        for name, partitions in results.items()
    ]
