"""DescribeProducers (api key 61), v0 (KIP-664): who writes to partitions, and whose transactions are open there."""

from __future__ import annotations

from typing import Any

from muster.actors.wire.kafka.codec import ErrorCode
from muster.gateway.apis.data import by_owner
from muster.gateway.apis.data.by_owner import Item
from muster.gateway.apis.guards.guard import Each, Guard
from muster.gateway.apis.guards.rights import READ_TOPIC
from muster.gateway.apis.partitions import Named, by_topic, existence_error, grouped, named
from muster.gateway.listener.api import Call, Reply, api
from muster.gateway.listener.forward import ActorKey
from muster.placement.topics import InvalidTopic, check_name

DESCRIBE_PRODUCERS = 61
_VERSION = 0


def _error_body(call: Call, error: ErrorCode) -> dict[str, Any]:
    wanted = _wanted(call)
    return _body(by_topic(wanted), {each.key: _failed(each.partition, error, call.reason) for each in wanted})


@api(
    DESCRIBE_PRODUCERS,
    "DescribeProducers",
    guard=Guard(each=Each((READ_TOPIC,), "topics", "topics")),
    error_body=_error_body,
)
async def describe_producers(call: Call) -> Reply | None:
    pairs = ((topic.name, partition) for topic in call.entity().topics for partition in topic.partition_indexes)
    wanted = await call.each(pairs, lambda pair: named(call.gateway, pair[0], None, pair[1]))

    async def query(owner: ActorKey, members: list[Item]) -> dict[Any, dict[str, Any]]:
        return await _query(call, owner, members)

    items = [(partition, None) for partition in wanted]
    results = await by_owner.results(call, items, _refusal, _failed, query)
    return call.reply(_body(await grouped(call, wanted), results))


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


async def _query(call: Call, owner: ActorKey, items: list[Item]) -> dict[Any, dict[str, Any]]:
    topics = [
        {"name": topic.name, "partition_indexes": [each.partition for each in members]}
        for topic, members in by_topic(partition for partition, _ in items)
    ]
    response = await by_owner.response(call, owner, DESCRIBE_PRODUCERS, _VERSION, {"topics": topics})
    if isinstance(response, ErrorCode):
        return {partition.key: _failed(partition.partition, response) for partition, _ in items}
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


def _body(topics: list[tuple[Named, list[Named]]], results: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    found = (
        {"name": topic.name, "partitions": (results[each.key] for each in partitions)} for topic, partitions in topics
    )
    return {"throttle_time": 0, "topics": found}


def _failed(partition: int, error: ErrorCode, text: str | None = None) -> dict[str, Any]:
    return {"partition_index": partition, "error_code": error, "error_message": text, "active_producers": []}
