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
from collections.abc import Awaitable, Collection, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from muster.actors.log import routing
from muster.actors.wire.internal.channel import Channel, ChannelLost, NotSent, OnProduced
from muster.actors.wire.internal.produce import ProducedPartition, ProducePartition, ProduceRequest
from muster.actors.wire.kafka.codec import ErrorCode, field
from muster.gateway.apis.batches import record_count, transactional_producer
from muster.gateway.apis.guards.guard import Each, Guard, Need
from muster.gateway.apis.guards.rights import WRITE_TOPIC, WRITE_TRANSACTIONAL_ID, transactional_id
from muster.gateway.apis.partitions import WRITE_GRACE_S, channel_to
from muster.gateway.listener.api import Call, Cancel, Reply, Responder, api
from muster.gateway.listener.complaints import BadRequest, Cause
from muster.gateway.listener.forward import ActorKey
from muster.placement.view import Topic

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


_ABORTABLE_VERSION, _ADDING_VERSION, _FIRST_WITH_IDS = 11, 12, 13
_ADDS = 2
"""The transaction version of a producer that sends the latter."""


class _Batch:
    """The batch of one partition."""

    __slots__ = ("index", "is_repeated", "records", "result", "topic")

    def __init__(self, topic: Topic | None, index: int, records: bytes) -> None:
        self.topic = topic
        self.index = index
        self.records = records
        self.is_repeated = False
        self.result: dict[str, Any] = {}
        """The partition in the response."""

    def fail(self, error: ErrorCode) -> None:
        self.result = _failed(self.index, error)


class _Produce:
    """A request that is served."""

    __slots__ = ("_call", "_request", "accepted", "topics", "unknown")

    def __init__(self, call: Call) -> None:
        """Refuse what has an error, and divide the rest among the actors that own the logs."""
        request = call.entity()
        self._call = call
        self._request = request
        self.topics: dict[str | UUID, dict[int, _Batch]] = {}
        """By name or, in versions that name topics by id, by id. A partition that occurs twice is here once."""
        self.unknown: list[UUID] = []
        """Ids of topics that this gateway does not know."""
        self.accepted: dict[ActorKey, list[_Batch]] = {}
        view, has_ids = call.gateway.view, call.header.api_version >= _FIRST_WITH_IDS
        producers: set[tuple[int, int]] = set()
        for named in request.topic_data:
            key = named.topic_id if has_ids else named.name
            topic = view.topic_by_id(key) if has_ids else view.topics.get(key)
            if has_ids and topic is None and key is not None:
                self.unknown.append(key)
            batches = self.topics.setdefault(key, {})
            for data in named.partition_data:
                if (producer := transactional_producer(data.records)) is not None:
                    producers.add(producer)
                if (repeated := batches.get(data.index)) is not None:
                    repeated.is_repeated = True
                else:
                    batches[data.index] = _Batch(topic, data.index, data.records)
        of_all = _error_of_all(request, producers)
        for batches in self.topics.values():
            for batch in batches.values():
                error = ErrorCode.invalid_request if batch.is_repeated else of_all
                error = error or _refusal(call, batch, has_ids=has_ids)
                if error is not None:
                    batch.fail(error)
                else:
                    assert batch.topic is not None
                    owner = ("log", view.log_of(batch.topic, batch.index))
                    self.accepted.setdefault(owner, []).append(batch)

    def down(self) -> list[ActorKey]:
        """Return the owners that are not connected."""
        return [owner for owner in self.accepted if channel_to(self._call.gateway, owner) is None]

    def send(self, channel: Channel, batches: Sequence[_Batch], on_produced: OnProduced) -> Cancel:
        """Send an actor its batches."""
        request, version = self._request, self._call.header.api_version
        partitions = [
            ProducePartition(batch.topic.topic_id, batch.index, batch.records or b"")
            for batch in batches
            if batch.topic is not None
        ]
        if request.transactional_id is None:
            produce = ProduceRequest(partitions)
        else:
            transaction_version = _ADDS if version >= _ADDING_VERSION else 0
            knows_abortable = version >= _ABORTABLE_VERSION
            produce = ProduceRequest(partitions, request.transactional_id, transaction_version, knows_abortable)
        timeout_s = max(request.timeout, 0) / 1000 + WRITE_GRACE_S
        return partial(channel.cancel, channel.produce(produce, on_produced, timeout_s=timeout_s))

    def forward(self, channel: Channel, batches: Sequence[_Batch], responder: Responder) -> Cancel:
        """Send an actor its batches, which are all that are accepted, and the response to the client."""

        def on_produced(found: Sequence[ProducedPartition] | ChannelLost) -> None:
            try:
                self._take(batches, found)
                responder.reply(self.reply())
            except Exception as error:
                responder.fail(error)

        return self.send(channel, batches, on_produced)

    def serve(self, owner: ActorKey, batches: Sequence[_Batch]) -> Awaitable[None]:
        """Send an actor its batches, before anything is awaited; what is returned waits for their results."""
        produced: asyncio.Future[Sequence[ProducedPartition] | ChannelLost]
        produced = asyncio.get_running_loop().create_future()

        def on_produced(found: Sequence[ProducedPartition] | ChannelLost) -> None:
            if not produced.done():
                produced.set_result(found)

        channel = channel_to(self._call.gateway, owner)
        if channel is None:
            produced.set_result(NotSent(f"{owner[0]}-{owner[1]} is down"))
        else:
            self.send(channel, batches, on_produced)

        async def collect() -> None:
            self._take(batches, await produced)

        return collect()

    def _take(self, batches: Sequence[_Batch], found: Sequence[ProducedPartition] | ChannelLost) -> None:
        if isinstance(found, ChannelLost):
            # Written or not, unless it was not sent: to librdkafka, NOT_LEADER_OR_FOLLOWER would mean "not".
            is_unsent = isinstance(found, NotSent)
            for batch in batches:
                batch.fail(ErrorCode.not_leader_or_follower if is_unsent else ErrorCode.request_timed_out)
            return
        produced = self._call.gateway.metrics.produced
        for batch, (error, base_offset, append_time_ms, log_start_offset, message, record_errors) in zip(
            batches, found, strict=True
        ):
            batch.result = {
                "index": batch.index,
                "error_code": error,
                "base_offset": base_offset,
                "log_append_time": None if append_time_ms < 0 else append_time_ms,
                "log_start_offset": log_start_offset,
                "record_errors": [
                    {"batch_index": index, "batch_index_error_message": text} for index, text in record_errors
                ],
                "error_message": message,
            }
            if error is ErrorCode.none and batch.topic is not None:
                produced(batch.topic.name, record_count(batch.records), len(batch.records))

    def reply(self) -> Reply | None:
        """Return the response, once the results of all batches are there."""
        if self._request.acks == 0:
            for batches in self.topics.values():
                for batch in batches.values():
                    if batch.result["error_code"] is not ErrorCode.none:
                        raise _closed(batch.result["error_code"])
            return None
        names = ("topic_id", "name") if self._call.header.api_version >= _FIRST_WITH_IDS else ("name", "topic_id")
        responses = [
            {names[0]: key, names[1]: None, "partition_responses": [batch.result for batch in batches.values()]}
            for key, batches in self.topics.items()
        ]
        return self._call.reply({"responses": responses, "throttle_time": 0})


def _forward(call: Call, responder: Responder) -> Cancel | None:
    """Serve a request for one actor's partitions without a task."""
    if call.connection.late_produces:
        return None
    produce = _Produce(call)
    if produce.unknown or len(produce.accepted) != 1:
        return None
    ((owner, batches),) = produce.accepted.items()
    channel = channel_to(call.gateway, owner)
    return None if channel is None else produce.forward(channel, batches, responder)


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
    request = _Produce(call)
    if call.connection.late_produces or request.unknown or request.down():
        await _until_ready(call, request.unknown)
        request = _Produce(call)
    await asyncio.gather(*[request.serve(owner, batches) for owner, batches in request.accepted.items()])
    return request.reply()


async def _until_ready(call: Call, unknown: Collection[UUID]) -> None:
    """Wait a little for topics that this gateway does not know, and for actors that were lost a moment ago.

    A producer has a topic's id from another gateway, or from a view that is on its way to this one, and librdkafka
    takes UNKNOWN_TOPIC_ID as final. A standby serves in place of an actor sooner than a producer repeats a request.
    Requests of one connection keep their order.
    """
    gateway, connection = call.gateway, call.connection
    connection.late_produces += 1
    try:
        async with connection.late_turn:
            await gateway.until_view(
                lambda view: all(view.topic_by_id(topic_id) is not None for topic_id in unknown), routing.LATE_S
            )
            await asyncio.gather(*(gateway.forwarder.soon(owner) for owner in _Produce(call).down()))
    finally:
        connection.late_produces -= 1


def _error_of_all(request: Any, producers: Collection[tuple[int, int]]) -> ErrorCode | None:
    """Return the error of a request that is refused as a whole. ``producers``: those of transactional batches."""
    if request.acks not in (-1, 0, 1):
        return ErrorCode.invalid_required_acks
    if producers and request.transactional_id is None:
        return ErrorCode.transactional_id_authorization_failed
    return ErrorCode.invalid_producer_id_mapping if len(producers) > 1 else None


def _refusal(call: Call, batch: _Batch, *, has_ids: bool) -> ErrorCode | None:
    topic = batch.topic
    if topic is None:
        return ErrorCode.unknown_topic_id if has_ids else ErrorCode.unknown_topic_or_partition
    if not 0 <= batch.index < topic.partitions:
        return ErrorCode.unknown_topic_or_partition
    if has_ids and not WRITE_TOPIC.allowed(call, topic.name):  # unknown when it was judged
        return ErrorCode.topic_authorization_failed
    return ErrorCode.invalid_topic_exception if topic.internal else None


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
