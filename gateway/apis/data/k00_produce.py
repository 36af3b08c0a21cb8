"""Produce (api key 0), v3-13.

The batches go to the log actors as the producer sent them; a request for several actors is split and their
responses are merged. v13 names topics by id (KIP-516); v10 adds the current leader (not sent: every gateway
serves every partition). Transactions are not served yet: a transactional id is refused. A partition that occurs
twice is refused, too (INVALID_REQUEST): Kafka writes the last occurrence and does not report the others.
"""

from __future__ import annotations

import asyncio
from typing import Any

from muster.actors.log import routing
from muster.actors.wire import codec
from muster.actors.wire.channel import ChannelLost, NotSent
from muster.actors.wire.codec import ErrorCode, field, ms
from muster.gateway.apis.partitions import (
    WRITE_GRACE_S,
    Named,
    by_topic,
    existence_error,
    named,
    owner_of,
    repeated,
    send,
    summarize,
)
from muster.gateway.listener.complaints import BadRequest, Cause
from muster.gateway.listener.forward import ActorKey
from muster.gateway.listener.registry import Call, Reply, api
from muster.placement.view import ClusterView

PRODUCE = 0
INTERNAL_VERSION = 13


def _error_body(call: Call, error: ErrorCode) -> dict[str, Any]:
    request = call.entity()
    if request.acks == 0:
        raise _closed(error)
    return {
        "responses": [
            {
                "name": field(topic, "name", None),
                "topic_id": field(topic, "topic_id", None),
                "partition_responses": [_failed(data.index, error) for data in topic.partition_data],
            }
            for topic in request.topic_data
        ]
    }


def _closed(error: ErrorCode) -> BadRequest:
    """No response can carry the error: the connection is closed, as in Kafka."""
    return BadRequest(Cause.PRODUCE_FAILED, f"Produce with acks=0 failed: {error.name}")


@api(PRODUCE, "Produce", error_body=_error_body)
async def produce(call: Call) -> Reply | None:
    request = call.entity()
    await _until_known(call, request)
    wanted = [
        (named(call.gateway, field(topic, "name", None), field(topic, "topic_id", None), data.index), data.records)
        for topic in request.topic_data
        for data in topic.partition_data
    ]
    results: dict[Any, dict[str, Any]] = {}
    accepted: dict[ActorKey, list[tuple[Named, bytes]]] = {}
    twice = repeated(partition for partition, _ in wanted)
    for partition, records in wanted:
        error = ErrorCode.invalid_request if partition.key in twice else _refusal(request, partition)
        if error is not None:
            results[partition.key] = _failed(partition.partition, error)
        else:
            assert partition.topic is not None
            owner = owner_of(call.gateway, partition.topic, partition.partition)
            accepted.setdefault(owner, []).append((partition, records))
    responses = {
        owner: send(call, owner, PRODUCE, INTERNAL_VERSION, _body(request, accepted[owner])) for owner in accepted
    }
    timeout_ms = max(ms(request.timeout), 0)
    collected = await asyncio.gather(
        *(
            _collect(responses[owner], [partition for partition, _ in accepted[owner]], timeout_ms)
            for owner in responses
        )
    )
    for found in collected:
        results.update(found)
    _count(call, wanted, results)
    if request.acks == 0:
        failed = next((result["error_code"] for result in results.values() if result["error_code"]), None)
        if failed is not None:
            raise _closed(ErrorCode(failed))
        return None
    return call.reply(
        {
            "responses": [
                {
                    "name": topic.name,
                    "topic_id": topic.topic_id,
                    "partition_responses": [results[partition.key] for partition in partitions],
                }
                for topic, partitions in by_topic(partition for partition, _ in wanted)
            ],
            "throttle_time": 0,
        }
    )


async def _until_known(call: Call, request: Any) -> None:
    """Wait a little for topics that are named by an id which this gateway does not know.

    Their producer has the id from another gateway, or from a view that is on its way to this one, and librdkafka takes
    UNKNOWN_TOPIC_ID as final. Requests of one connection keep their order. Does not await if all topics are known.
    """
    gateway, connection = call.gateway, call.connection
    ids = {topic_id for topic in request.topic_data if (topic_id := field(topic, "topic_id", None)) is not None}

    def known(view: ClusterView) -> bool:
        return all(view.topic_by_id(topic_id) is not None for topic_id in ids)

    if not connection.late_produces and known(gateway.view):
        return
    connection.late_produces += 1
    try:
        async with connection.late_turn:
            await gateway.until_view(known, routing.LATE_S)
    finally:
        connection.late_produces -= 1


def _refusal(request: Any, partition: Named) -> ErrorCode | None:
    if request.acks not in (-1, 0, 1):
        return ErrorCode.invalid_required_acks
    if request.transactional_id is not None:
        return ErrorCode.invalid_txn_state
    if (error := existence_error(partition)) is not None:
        return error
    assert partition.topic is not None
    return ErrorCode.invalid_topic_exception if partition.topic.internal else None


def _body(request: Any, partitions: list[tuple[Named, bytes]]) -> dict[str, Any]:
    records = {partition.key: data for partition, data in partitions}
    return {
        "transactional_id": None,
        "acks": -1,
        "timeout": ms(request.timeout),
        "topic_data": [
            {
                "topic_id": topic.topic.topic_id if topic.topic else None,
                "partition_data": [{"index": item.partition, "records": records[item.key]} for item in members],
            }
            for topic, members in by_topic(partition for partition, _ in partitions)
        ],
    }


async def _collect(
    waiting: asyncio.Future[bytes], partitions: list[Named], timeout_ms: int
) -> dict[Any, dict[str, Any]]:
    try:
        async with asyncio.timeout(timeout_ms / 1000 + WRITE_GRACE_S):
            _, response = codec.decode_response(PRODUCE, INTERNAL_VERSION, await waiting)
    except NotSent:
        return {item.key: _failed(item.partition, ErrorCode.not_leader_or_follower) for item in partitions}
    except (ChannelLost, TimeoutError):  # written or not: to librdkafka, NOT_LEADER_OR_FOLLOWER would mean "not"
        return {item.key: _failed(item.partition, ErrorCode.request_timed_out) for item in partitions}
    by_id = {(item.topic.topic_id, item.partition): item for item in partitions if item.topic}
    return {
        by_id[topic.topic_id, result.index].key: _result(result)
        for topic in response.responses
        for result in topic.partition_responses
    }


def _result(result: Any) -> dict[str, Any]:
    appended = result.log_append_time
    return {
        "index": result.index,
        "error_code": result.error_code,
        "base_offset": result.base_offset,
        "log_append_time": None if appended is None else round(appended.timestamp() * 1000),
        "log_start_offset": result.log_start_offset,
        "record_errors": [
            {"batch_index": item.batch_index, "batch_index_error_message": item.batch_index_error_message}
            for item in result.record_errors
        ],
        "error_message": result.error_message,
    }


def _failed(partition: int, error: ErrorCode) -> dict[str, Any]:
    return {
        "index": partition,
        "error_code": error,
        "base_offset": -1,
        "log_append_time": None,
        "log_start_offset": -1,
        "record_errors": [],
        "error_message": None,
    }


def _count(call: Call, wanted: list[tuple[Named, bytes]], results: dict[Any, dict[str, Any]]) -> None:
    for partition, records in wanted:
        if not results[partition.key]["error_code"] and partition.topic is not None and records:
            call.gateway.metrics.produced(partition.topic.name, summarize((records,))[2], len(records))
