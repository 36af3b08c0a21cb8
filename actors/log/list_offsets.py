"""ListOffsets v10 over the logs of the caller: log actors and coordinators alike."""

from __future__ import annotations

from typing import Any

from muster.actors.log.errors import LogError, StorageError, UnsupportedTimestamp
from muster.actors.log.fetch import LogByName
from muster.actors.log.format.batch import NO_TIMESTAMP
from muster.actors.log.leader_epochs import NO_EPOCH, check_leader_epoch
from muster.actors.log.partition import PartitionLog
from muster.actors.wire.internal.fetch import READ_COMMITTED
from muster.actors.wire.kafka.codec import ErrorCode

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
_NOWHERE = -1


async def list_offsets(entity: Any, log_of: LogByName) -> dict[str, Any]:
    """Offsets by time, and the special ones: latest, earliest, that of the largest timestamp; none is tiered.

    With READ_COMMITTED the latest is the last stable offset, and no record from there on is found.
    """
    reads_committed = int(entity.isolation_level) == READ_COMMITTED
    topics = []
    for topic in entity.topics:
        responses = [
            await _list_offset(topic.name, partition, log_of, reads_committed=reads_committed)
            for partition in topic.partitions
        ]
        topics.append({"name": topic.name, "partitions": responses})
    return {"throttle_time": 0, "topics": topics}


async def _list_offset(topic: str, request: Any, log_of: LogByName, *, reads_committed: bool) -> dict[str, Any]:
    nowhere = {"offset": _NOWHERE, "timestamp": NO_TIMESTAMP, "leader_epoch": NO_EPOCH}
    response = {"partition_index": request.partition_index, "error_code": ErrorCode.none}
    try:
        log = await log_of(topic, int(request.partition_index))
        check_leader_epoch(log, request.current_leader_epoch)
        end = log.last_stable_offset if reads_committed else log.high_watermark
        found = _find(log, int(request.timestamp), end)
        if found is None:
            return response | nowhere
        offset, timestamp_ms = found
        return response | {"offset": offset, "timestamp": timestamp_ms, "leader_epoch": _epoch_at(log, offset)}
    except LogError as error:
        return response | nowhere | {"error_code": error.code}


def _epoch_at(log: PartitionLog, offset: int) -> int:
    """-1 if the record cannot be read."""
    try:
        return log.epoch_at(offset)
    except StorageError:
        return NO_EPOCH


def _find(log: PartitionLog, timestamp_ms: int, end: int) -> tuple[int, int] | None:
    """(offset, timestamp), without a timestamp for the ends of the log; None if there is no such record before ``end``.

    As in Kafka, a search by time that finds a record behind the end does not look for another one.
    """
    if timestamp_ms >= 0:
        return _before(end, log.offset_for_time(timestamp_ms))
    if timestamp_ms == LATEST:
        return end, NO_TIMESTAMP
    if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
        return log.log_start_offset, NO_TIMESTAMP
    if timestamp_ms == MAX_TIMESTAMP:
        return _before(end, log.offset_of_max_timestamp())
    if timestamp_ms == LATEST_TIERED:
        return None
    raise UnsupportedTimestamp(f"timestamp {timestamp_ms} has no meaning")


def _before(end: int, found: tuple[int, int] | None) -> tuple[int, int] | None:
    return found if found is not None and found[0] < end else None
