"""Produce (api key 0), v3-13.

The batches go to the log actors as the producer sent them; a request for several actors is split and their
responses are merged. v13 names topics by id (KIP-516); v10 adds the current leader (not sent: every gateway
serves every partition). A partition that occurs twice is refused (INVALID_REQUEST): Kafka writes the last occurrence
and does not report the others. The transactional batches of a request are all of one producer, whose transactional id
the request names; from v11 on the producer knows TRANSACTION_ABORTABLE, from v12 on the partitions are added to its
transaction (KIP-890).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from muster.actors.log import routing
from muster.actors.wire.internal.channel import Channel, ChannelLost, NotSent, OnProduced
from muster.actors.wire.internal.produce import ProducedPartition, ProducePartition, ProduceRequest
from muster.actors.wire.kafka.codec import ErrorCode, field, ms
from muster.gateway.apis.batches import summarize, transactional_producer
from muster.gateway.apis.guards.guard import Each, Guard, Need
from muster.gateway.apis.guards.rights import WRITE_TOPIC, WRITE_TRANSACTIONAL_ID, transactional_id
from muster.gateway.apis.partitions import (
    WRITE_GRACE_S,
    Named,
    by_topic,
    channel_to,
    existence_error,
    named,
    owner_of,
    repeated,
)
from muster.gateway.listener.api import Call, Cancel, Reply, Responder, api
from muster.gateway.listener.complaints import BadRequest, Cause
from muster.gateway.listener.forward import ActorKey
from muster.placement.view import ClusterView

PRODUCE = 0


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


_ABORTABLE_VERSION, _ADDING_VERSION = 11, 12
_ADDS = 2
"""The transaction version of a producer that sends the latter."""

_Wanted = list[tuple[Named, bytes]]
_Results = dict[Any, dict[str, Any]]


def _forward(call: Call, responder: Responder) -> Cancel | None:
    """Serve a request for one actor's partitions without a task."""
    request = call.entity()
    if call.connection.late_produces or not _knows(call, request):
        return None
    wanted, results, accepted = _accept(call, request)
    channel = channel_to(call.gateway, next(iter(accepted))) if len(accepted) == 1 else None
    if channel is None:
        return None
    (partitions,) = accepted.values()

    def on_produced(found: Sequence[ProducedPartition] | ChannelLost) -> None:
        try:
            _take(partitions, found, results)
            responder.reply(_reply(call, request, wanted, results))
        except Exception as error:
            responder.fail(error)

    return _send(call, channel, request, partitions, on_produced)


class _OfTransaction(Need):
    """Needed for the transactional id of transactional batches, which no client may write without one."""

    def refusal(self, call: Call) -> ErrorCode | None:
        request = call.entity()
        all_records = (data.records for topic in request.topic_data for data in topic.partition_data)
        if all(transactional_producer(records) is None for records in all_records):
            return None
        return self.error if request.transactional_id is None else super().refusal(call)


_GUARD = Guard(
    _OfTransaction((WRITE_TRANSACTIONAL_ID,), transactional_id, "of transactional batches"),
    each=Each((WRITE_TOPIC,), "topic_data", "responses"),
)


@api(PRODUCE, "Produce", guard=_GUARD, error_body=_error_body, forward=_forward)
async def produce(call: Call) -> Reply | None:
    request = call.entity()
    wanted, results, accepted = _accept(call, request)
    if call.connection.late_produces or not _knows(call, request) or _down(call, accepted):
        await _until_ready(call, request)
        wanted, results, accepted = _accept(call, request)
    await asyncio.gather(
        *[_produce(call, request, owner, partitions, results) for owner, partitions in accepted.items()]
    )
    return _reply(call, request, wanted, results)


def _accept(call: Call, request: Any) -> tuple[_Wanted, _Results, dict[ActorKey, _Wanted]]:
    """Return the partitions of the request, the results of those that are refused, and the others by their actors."""
    wanted = [
        (named(call.gateway, field(topic, "name", None), field(topic, "topic_id", None), data.index), data.records)
        for topic in request.topic_data
        for data in topic.partition_data
    ]
    results: _Results = {}
    accepted: dict[ActorKey, _Wanted] = {}
    twice = repeated(partition for partition, _ in wanted) if len(wanted) > 1 else ()
    of_all = _error_of_all(request, wanted)
    for partition, records in wanted:
        error = ErrorCode.invalid_request if partition.key in twice else of_all or _refusal(call, partition)
        if error is not None:
            results[partition.key] = _failed(partition.partition, error)
        else:
            assert partition.topic is not None
            owner = owner_of(call.gateway, partition.topic, partition.partition)
            accepted.setdefault(owner, []).append((partition, records))
    return wanted, results, accepted


def _produce(call: Call, request: Any, owner: ActorKey, partitions: _Wanted, results: _Results) -> Awaitable[None]:
    """Send an actor its batches, before anything is awaited; what is returned waits for their results."""
    produced: asyncio.Future[Sequence[ProducedPartition] | ChannelLost] = asyncio.get_running_loop().create_future()

    def on_produced(found: Sequence[ProducedPartition] | ChannelLost) -> None:
        if not produced.done():
            produced.set_result(found)

    channel = channel_to(call.gateway, owner)
    if channel is None:
        produced.set_result(NotSent(f"{owner[0]}-{owner[1]} is down"))
    else:
        _send(call, channel, request, partitions, on_produced)

    async def collect() -> None:
        _take(partitions, await produced, results)

    return collect()


def _send(call: Call, channel: Channel, request: Any, partitions: _Wanted, on_produced: OnProduced) -> Cancel:
    batches = [
        ProducePartition(partition.topic.topic_id, partition.partition, records or b"")
        for partition, records in partitions
        if partition.topic is not None
    ]
    timeout_s = max(ms(request.timeout), 0) / 1000 + WRITE_GRACE_S
    token = channel.produce(_produce_request(call, request, batches), on_produced, timeout_s=timeout_s)
    return partial(channel.cancel, token)


def _produce_request(call: Call, request: Any, batches: list[ProducePartition]) -> ProduceRequest:
    if request.transactional_id is None:
        return ProduceRequest(batches)
    version = call.header.api_version
    transaction_version = _ADDS if version >= _ADDING_VERSION else 0
    return ProduceRequest(batches, request.transactional_id, transaction_version, version >= _ABORTABLE_VERSION)


def _take(partitions: _Wanted, found: Sequence[ProducedPartition] | ChannelLost, results: _Results) -> None:
    if isinstance(found, ChannelLost):
        # Written or not, unless it was not sent: to librdkafka, NOT_LEADER_OR_FOLLOWER would mean "not".
        is_unsent = isinstance(found, NotSent)
        error = ErrorCode.not_leader_or_follower if is_unsent else ErrorCode.request_timed_out
        results.update({item.key: _failed(item.partition, error) for item, _ in partitions})
        return
    for (item, _), result in zip(partitions, found, strict=True):
        results[item.key] = _result(item.partition, result)


def _reply(call: Call, request: Any, wanted: _Wanted, results: _Results) -> Reply | None:
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


def _knows(call: Call, request: Any) -> bool:
    """Whether this gateway knows the topics that the request names by their ids."""
    return _has_all(_topic_ids(request), call.gateway.view)


def _topic_ids(request: Any) -> set[UUID]:
    return {topic_id for topic in request.topic_data if (topic_id := field(topic, "topic_id", None)) is not None}


def _has_all(ids: set[UUID], view: ClusterView) -> bool:
    return all(view.topic_by_id(topic_id) is not None for topic_id in ids)


async def _until_ready(call: Call, request: Any) -> None:
    """Wait a little for topics that this gateway does not know, and for actors that were lost a moment ago.

    A producer has a topic's id from another gateway, or from a view that is on its way to this one, and librdkafka
    takes UNKNOWN_TOPIC_ID as final. A standby serves in place of an actor sooner than a producer repeats a request.
    Requests of one connection keep their order.
    """
    gateway, connection = call.gateway, call.connection
    connection.late_produces += 1
    try:
        async with connection.late_turn:
            await gateway.until_view(partial(_has_all, _topic_ids(request)), routing.LATE_S)
            _, _, accepted = _accept(call, request)
            await asyncio.gather(*(gateway.forwarder.soon(owner) for owner in _down(call, accepted)))
    finally:
        connection.late_produces -= 1


def _down(call: Call, owners: Iterable[ActorKey]) -> list[ActorKey]:
    """Return the owners that are not connected."""
    return [owner for owner in owners if channel_to(call.gateway, owner) is None]


def _error_of_all(request: Any, wanted: _Wanted) -> ErrorCode | None:
    """Return the error of a request that is refused as a whole."""
    if request.acks not in (-1, 0, 1):
        return ErrorCode.invalid_required_acks
    producers = {producer for _, records in wanted if (producer := transactional_producer(records)) is not None}
    if producers and request.transactional_id is None:
        return ErrorCode.transactional_id_authorization_failed
    return ErrorCode.invalid_producer_id_mapping if len(producers) > 1 else None


def _refusal(call: Call, partition: Named) -> ErrorCode | None:
    if (error := existence_error(partition)) is not None:
        return error
    assert partition.topic is not None
    if partition.name is None and not WRITE_TOPIC.allowed(call, partition.topic.name):  # unknown when it was judged
        return ErrorCode.topic_authorization_failed
    return ErrorCode.invalid_topic_exception if partition.topic.internal else None


def _result(partition: int, result: ProducedPartition) -> dict[str, Any]:
    return {
        "index": partition,
        "error_code": result.error_code,
        "base_offset": result.base_offset,
        "log_append_time": None if result.log_append_time_ms < 0 else result.log_append_time_ms,
        "log_start_offset": result.log_start_offset,
        "record_errors": [
            {"batch_index": index, "batch_index_error_message": message} for index, message in result.record_errors
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
            call.gateway.metrics.produced(partition.topic.name, summarize((records,)).messages, len(records))
