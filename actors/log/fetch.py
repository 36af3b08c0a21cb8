"""Fetch v16 and ListOffsets v10 over the logs of the caller: log actors and offsets actors alike.

The caller provides an asynchronous function from (topic id or name, partition) to the log. It may take time (to open
the log), and raises LogError if there is no log. Requests are kio entities, responses the dicts that
``muster.actors.wire.codec.encode_response`` takes.

Transactions are not supported yet: both isolation levels see the same records, and the last stable offset is the high
watermark. There are no fetch sessions: every request names all its partitions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any, TypeVar
from uuid import UUID

from muster.actors.log.errors import (
    FencedLeaderEpoch,
    LogError,
    StorageError,
    UnknownLeaderEpoch,
    UnknownTopicId,
    UnsupportedTimestamp,
)
from muster.actors.log.partition import NO_TIMESTAMP, PartitionLog
from muster.actors.wire.codec import ErrorCode, ms

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
_READ_COMMITTED = 1
_NOWHERE = -1
_NO_EPOCH = -1

IdOrName = TypeVar("IdOrName", UUID, str)
LogOf = Callable[[IdOrName, int], Awaitable[PartitionLog]]


class _Wanted:
    """A partition of a Fetch request: its log, or the error why there is none."""

    __slots__ = ("error", "log", "request", "topic_id")

    def __init__(self, topic_id: UUID | None, request: Any) -> None:
        self.topic_id = topic_id
        self.request = request
        self.log: PartitionLog | None = None
        self.error: LogError | None = None

    async def resolve(self, log_of: LogOf[UUID]) -> None:
        try:
            if self.topic_id is None:
                raise UnknownTopicId("no topic id")
            self.log = await log_of(self.topic_id, int(self.request.partition))
            check_leader_epoch(self.log, self.request.current_leader_epoch)
        except LogError as error:
            self.error = error

    def bytes_available(self) -> int:
        """How many bytes of this partition the response could hold; a failure is kept in ``error``."""
        if self.log is None or self.error is not None:
            return 0
        try:
            available = self.log.bytes_available(self.request.fetch_offset)
        except LogError as error:
            self.error = error
            return 0
        return min(available, max(int(self.request.partition_max_bytes), 0))

    def read(self, max_bytes: int, at_least_one: bool) -> bytes:
        if self.log is None or self.error is not None:
            return b""
        limit = min(max_bytes, self.request.partition_max_bytes)
        try:
            return self.log.read(self.request.fetch_offset, limit, at_least_one=at_least_one)
        except LogError as error:
            self.error = error
            return b""

    def response(self, records: bytes, aborted: list[Any] | None) -> dict[str, Any]:
        known = self.log if self.error is None else None
        return {
            "partition_index": self.request.partition,
            "error_code": self.error.code if self.error else ErrorCode.none,
            "high_watermark": known.high_watermark if known else _NOWHERE,
            "last_stable_offset": known.high_watermark if known else _NOWHERE,
            "log_start_offset": known.log_start_offset if known else _NOWHERE,
            "aborted_transactions": aborted,
            "preferred_read_replica": -1,
            "records": records,
        }


def check_leader_epoch(log: PartitionLog, known: int) -> None:
    """Check the leader epoch that the client knows; -1 if it sends none (KIP-320)."""
    if known == _NO_EPOCH or known == log.epoch:
        return
    message = f"{log.directory.name}: the client knows leader epoch {known}, it is {log.epoch}"
    raise FencedLeaderEpoch(message) if known < log.epoch else UnknownLeaderEpoch(message)


async def fetch(entity: Any, log_of: LogOf[UUID]) -> dict[str, Any]:
    """Respond as soon as ``min_bytes`` are available, a partition has an error, or ``max_wait`` has passed.

    ``max_bytes`` limits the whole response and ``partition_max_bytes`` each partition, except that the first
    partition with any records returns at least one batch (KIP-74).
    """
    topics = [(topic.topic_id, [_Wanted(topic.topic_id, part) for part in topic.partitions]) for topic in entity.topics]
    wanted = [partition for _, partitions in topics for partition in partitions]
    for partition in wanted:
        await partition.resolve(log_of)
    await _wait(wanted, min(entity.min_bytes, entity.max_bytes), ms(entity.max_wait) / 1000)
    aborted: list[Any] | None = [] if entity.isolation_level == _READ_COMMITTED else None
    responses: list[dict[str, Any]] = []
    remaining, first = entity.max_bytes, True
    for topic_id, partitions in topics:
        results = []
        for partition in partitions:
            records = partition.read(remaining, first)
            remaining = max(remaining - len(records), 0)
            first = first and not records
            results.append(partition.response(records, aborted))
        responses.append({"topic_id": topic_id, "partitions": results})
    return {"throttle_time": 0, "error_code": ErrorCode.none, "session_id": 0, "responses": responses}


async def _wait(wanted: list[_Wanted], min_bytes: int, max_wait_s: float) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + max_wait_s
    grown = asyncio.Event()
    with ExitStack() as watches:
        for log in {partition.log for partition in wanted if partition.log is not None}:
            watches.enter_context(log.watching(grown.set))
        while wanted and not _is_enough(wanted, min_bytes):
            grown.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await grown.wait()
            except TimeoutError:
                return


def _is_enough(wanted: list[_Wanted], min_bytes: int) -> bool:
    available = sum(partition.bytes_available() for partition in wanted)
    return available >= min_bytes or any(partition.error is not None for partition in wanted)


async def list_offsets(entity: Any, log_of: LogOf[str]) -> dict[str, Any]:
    """Offsets by time, and the special ones: latest, earliest, that of the largest timestamp; none is tiered."""
    topics = []
    for topic in entity.topics:
        responses = [await _list_offset(topic.name, partition, log_of) for partition in topic.partitions]
        topics.append({"name": topic.name, "partitions": responses})
    return {"throttle_time": 0, "topics": topics}


async def _list_offset(topic: str, request: Any, log_of: LogOf[str]) -> dict[str, Any]:
    nowhere = {"offset": _NOWHERE, "timestamp": NO_TIMESTAMP, "leader_epoch": _NO_EPOCH}
    response = {"partition_index": request.partition_index, "error_code": ErrorCode.none}
    try:
        log = await log_of(topic, int(request.partition_index))
        check_leader_epoch(log, request.current_leader_epoch)
        found = _find(log, int(request.timestamp))
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
        return _NO_EPOCH


def _find(log: PartitionLog, timestamp_ms: int) -> tuple[int, int] | None:
    """(offset, timestamp), without a timestamp for the ends of the log; None if there is no such record."""
    if timestamp_ms >= 0:
        return log.offset_for_time(timestamp_ms)
    if timestamp_ms == LATEST:
        return log.high_watermark, NO_TIMESTAMP
    if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
        return log.log_start_offset, NO_TIMESTAMP
    if timestamp_ms == MAX_TIMESTAMP:
        return log.offset_of_max_timestamp()
    if timestamp_ms == LATEST_TIERED:
        return None
    raise UnsupportedTimestamp(f"timestamp {timestamp_ms} has no meaning")
