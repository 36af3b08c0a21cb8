"""OffsetForLeaderEpoch (api key 23), v2-4: where the records of a leader epoch end (KIP-101, KIP-320).

A consumer requests it after the leader epoch has changed: if its position is behind that end, records that it has read
were lost, and it resets its position or reports that the log was truncated. librdkafka compares with its position when
the response comes, not with the one that it had: the end must not be older than the responses to its earlier Fetches.
"""

from __future__ import annotations

from typing import Any

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.data import by_owner
from muster.gateway.apis.data.by_owner import Item
from muster.gateway.apis.guards.guard import Each, Guard
from muster.gateway.apis.guards.rights import DESCRIBE_TOPIC
from muster.gateway.apis.partitions import Named, by_topic, existence_error, grouped, named
from muster.gateway.listener.api import Call, Reply, api
from muster.gateway.listener.forward import ActorKey

OFFSET_FOR_LEADER_EPOCH = 23
_VERSION = 4


def _error_body(call: Call, error: ErrorCode) -> dict[str, Any]:
    partitions = [
        named(call.gateway, topic.topic, None, item.partition)
        for topic in call.entity().topics
        for item in topic.partitions
    ]
    return _body(by_topic(partitions), {each.key: _failed(each.partition, error) for each in partitions})


@api(
    OFFSET_FOR_LEADER_EPOCH,
    "OffsetForLeaderEpoch",
    guard=Guard(each=Each((DESCRIBE_TOPIC,), "topics", "topics")),
    error_body=_error_body,
    in_order=True,
)
async def offset_for_leader_epoch(call: Call) -> Reply | None:
    pairs = ((topic.topic, item) for topic in call.entity().topics for item in topic.partitions)
    items = await call.each(pairs, lambda pair: (named(call.gateway, pair[0], None, pair[1].partition), pair[1]))

    async def query(owner: ActorKey, members: list[Item]) -> dict[Any, dict[str, Any]]:
        return await _query(call, owner, members)

    results = await by_owner.results(call, items, existence_error, _failed, query)
    return call.reply(_body(await grouped(call, (partition for partition, _ in items)), results))


async def _query(call: Call, owner: ActorKey, items: list[Item]) -> dict[Any, dict[str, Any]]:
    requested = {partition.key: item for partition, item in items}
    topics = [
        {
            "topic": topic.name,
            "partitions": [
                {
                    "partition": partition.partition,
                    "current_leader_epoch": requested[partition.key].current_leader_epoch,
                    "leader_epoch": requested[partition.key].leader_epoch,
                }
                for partition in partitions
            ],
        }
        for topic, partitions in by_topic(partition for partition, _ in items)
    ]
    response = await by_owner.response(call, owner, OFFSET_FOR_LEADER_EPOCH, _VERSION, {"topics": topics})
    if isinstance(response, ErrorCode):
        return {partition.key: _failed(partition.partition, response) for partition, _ in items}
    return {
        (topic.topic, None, item.partition): {
            "partition": item.partition,
            "error_code": item.error_code,
            "leader_epoch": item.leader_epoch,
            "end_offset": item.end_offset,
        }
        for topic in response.topics
        for item in topic.partitions
    }


def _body(topics: list[tuple[Named, list[Named]]], results: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    found = (
        {"topic": topic.name, "partitions": (results[partition.key] for partition in partitions)}
        for topic, partitions in topics
    )
    return {"throttle_time": 0, "topics": found}


def _failed(partition: int, error: ErrorCode) -> dict[str, Any]:
    return {"partition": partition, "error_code": error, "leader_epoch": -1, "end_offset": -1}
