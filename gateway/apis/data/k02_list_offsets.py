"""ListOffsets (api key 2), v1-11: earliest, latest, by time, and the timestamps below -2 of KIP-734 and KIP-405.

A partition that occurs twice is refused with INVALID_REQUEST, as in Kafka.
"""

from __future__ import annotations

from typing import Any

from muster.actors.wire.kafka.codec import ErrorCode, field
from muster.gateway.apis.data import by_owner
from muster.gateway.apis.data.by_owner import Item
from muster.gateway.apis.guards.guard import Each, Guard
from muster.gateway.apis.guards.rights import DESCRIBE_TOPIC
from muster.gateway.apis.partitions import Named, by_topic, existence_error, grouped, named, repeated
from muster.gateway.listener.api import Call, Reply, api
from muster.gateway.listener.forward import ActorKey

LIST_OFFSETS = 2
INTERNAL_VERSION = 10


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


@api(LIST_OFFSETS, "ListOffsets", guard=Guard(each=Each((DESCRIBE_TOPIC,), "topics", "topics")), error_body=_error_body)
async def list_offsets(call: Call) -> Reply | None:
    request = call.entity()
    pairs = ((topic.name, item) for topic in request.topics for item in topic.partitions)
    wanted = await call.each(pairs, lambda pair: (named(call.gateway, pair[0], None, pair[1].partition_index), pair[1]))
    twice = repeated(partition for partition, _ in wanted)

    def refusal(partition: Named) -> ErrorCode | None:
        return ErrorCode.invalid_request if partition.key in twice else existence_error(partition)

    async def query(owner: ActorKey, items: list[Item]) -> dict[Any, dict[str, Any]]:
        return await _query(call, request, owner, items)

    results = await by_owner.results(call, wanted, refusal, _failed, query)
    return call.reply(
        {
            "throttle_time": 0,
            "topics": (
                {"name": topic.name, "partitions": (results[partition.key] for partition in partitions)}
                for topic, partitions in await grouped(call, (partition for partition, _ in wanted))
            ),
        }
    )


async def _query(call: Call, request: Any, owner: ActorKey, items: list[Item]) -> dict[Any, dict[str, Any]]:
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
        "timeout": round(by_owner.TIMEOUT_S * 1000),
    }
    response = await by_owner.response(call, owner, LIST_OFFSETS, INTERNAL_VERSION, body)
    if isinstance(response, ErrorCode):
        return {partition.key: _failed(partition.partition, response) for partition, _ in items}
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
