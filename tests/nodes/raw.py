"""Requests on an actor's internal socket, as a gateway sends them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from muster.actors.wire.internal import envelope
from muster.actors.wire.internal.channel import Channel, ChannelLost
from muster.actors.wire.internal.produce import ProducedPartition, ProducePartition, ProduceRequest
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.view import Topic
from tests.log.support import client_batch

_PRODUCE_S = 3600.0
_CONTEXT = envelope.write_context("127.0.0.1", "1-1", "User:ANONYMOUS")


async def _call(channel: Channel, api_key: int, version: int, body: dict[str, Any]) -> Any:
    frame = codec.encode_request(api_key, version, 1, "client", body)
    return codec.decode_response(api_key, version, await channel.call(_CONTEXT, frame))[1]


async def commit(channel: Channel, group: str, offset: int) -> ErrorCode:
    """Commit an offset of partition 0 of ``t`` for a group without members. Raises ChannelLost."""
    items = [{"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}]
    body = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": ""}
    response = await _call(channel, 8, 7, {**body, "topics": [{"name": "t", "partitions": items}]})
    return ErrorCode(response.topics[0].partitions[0].error_code)


async def produce(channel: Channel, topic: Topic, partition: int, value: bytes) -> ErrorCode:
    """Produce a batch of one record. Raises ChannelLost."""
    response: asyncio.Future[Sequence[ProducedPartition] | ChannelLost] = asyncio.get_running_loop().create_future()
    batch = ProducePartition(topic.topic_id, partition, client_batch(value=value))
    token = channel.produce(ProduceRequest([batch]), response.set_result, timeout_s=_PRODUCE_S)
    try:
        produced = await response
    finally:
        channel.cancel(token)
    if isinstance(produced, ChannelLost):
        raise produced
    return produced[0].error_code
