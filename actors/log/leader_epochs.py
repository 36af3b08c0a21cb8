"""Leader epochs, by which clients notice that their metadata is old, or that a log was cut (KIP-101, KIP-320)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from muster.actors.log.errors import FencedLeaderEpoch, LogError, OffsetOutOfRange, UnknownLeaderEpoch
from muster.actors.log.partition import PartitionLog
from muster.actors.wire.internal.fetch import EpochEnd
from muster.actors.wire.kafka.codec import ErrorCode

NO_EPOCH = -1
_NOWHERE = -1


def check_leader_epoch(log: PartitionLog, known: int) -> None:
    """Check the leader epoch that the client knows; -1 if it sends none (KIP-320)."""
    if known == NO_EPOCH or known == log.epoch:
        return
    message = f"{log.directory.name}: the client knows leader epoch {known}, it is {log.epoch}"
    raise FencedLeaderEpoch(message) if known < log.epoch else UnknownLeaderEpoch(message)


def divergence(log: PartitionLog, fetch_offset: int, last_fetched_epoch: int) -> EpochEnd | None:
    """Where the log parts from one that has records of that epoch up to the offset; None if it has all of them.

    As Kafka's ``Partition.readRecords`` (KIP-595). Raises OffsetOutOfRange if the log has never seen the epoch.
    """
    if last_fetched_epoch == NO_EPOCH or fetch_offset < log.log_start_offset:
        return None
    epoch, end_offset = log.end_offset_for_epoch(last_fetched_epoch)
    if epoch == NO_EPOCH:
        raise OffsetOutOfRange(f"{log.directory.name}: leader epoch {last_fetched_epoch} is not known")
    return EpochEnd(epoch, end_offset) if epoch < last_fetched_epoch or end_offset < fetch_offset else None


async def offset_for_leader_epoch(entity: Any, log_of: Callable[[str, int], Awaitable[PartitionLog]]) -> dict[str, Any]:
    """OffsetForLeaderEpoch v4."""
    topics = []
    for topic in entity.topics:
        partitions = [await _end_offset(topic.topic, partition, log_of) for partition in topic.partitions]
        topics.append({"topic": topic.topic, "partitions": partitions})
    return {"throttle_time": 0, "topics": topics}


async def _end_offset(
    topic: str, request: Any, log_of: Callable[[str, int], Awaitable[PartitionLog]]
) -> dict[str, Any]:
    response = {
        "partition": request.partition,
        "error_code": ErrorCode.none,
        "leader_epoch": NO_EPOCH,
        "end_offset": _NOWHERE,
    }
    try:
        log = await log_of(topic, int(request.partition))
        check_leader_epoch(log, request.current_leader_epoch)
        epoch, end_offset = log.end_offset_for_epoch(request.leader_epoch)
    except LogError as error:
        return response | {"error_code": error.code}
    return response | {"leader_epoch": epoch, "end_offset": end_offset}
