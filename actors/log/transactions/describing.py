"""DescribeProducers v0: the producers that a partition knows, with where their open transactions began."""

from __future__ import annotations

import asyncio
from typing import Any

from muster.actors.log.errors import LogError
from muster.actors.log.fetch import LogByName
from muster.actors.log.producers import ProducerEntry
from muster.actors.wire.kafka.codec import ErrorCode


async def describe_producers(entity: Any, log_of: LogByName) -> dict[str, Any]:
    """Return the response to a request for partitions of the caller's logs."""
    topics = []
    for topic in entity.topics:
        partitions = [await _describe(topic.name, int(partition), log_of) for partition in topic.partition_indexes]
        topics.append({"name": topic.name, "partitions": partitions})
    return {"throttle_time": 0, "topics": topics}


async def _describe(topic: str, partition: int, log_of: LogByName) -> dict[str, Any]:
    try:
        producers = (await log_of(topic, partition)).producers()
    except LogError as error:
        return described(partition, error.code, str(error))
    await asyncio.sleep(0)  # a partition may know many
    return described(partition, ErrorCode.none) | {
        "active_producers": [_producer(producer_id, entry) for producer_id, entry in sorted(producers.items())]
    }


def described(partition: int, error: ErrorCode, text: str | None = None) -> dict[str, Any]:
    """Return a partition of the response, without producers."""
    return {"partition_index": partition, "error_code": error, "error_message": text, "active_producers": []}


def _producer(producer_id: int, entry: ProducerEntry) -> dict[str, Any]:
    return {
        "producer_id": producer_id,
        "producer_epoch": entry.epoch,
        "last_sequence": entry.last_sequence,
        "last_timestamp": entry.last_ms,
        "coordinator_epoch": entry.coordinator_epoch,
        "current_txn_start_offset": entry.first_offset,
    }
