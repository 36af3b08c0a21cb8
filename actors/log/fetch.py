"""Fetches and ListOffsets v10 over the logs of the caller: log actors and coordinators alike.

READ_COMMITTED ends at the last stable offset. Aborted records before it are served with the list of the transactions
that they are part of, as in Kafka: the reader leaves them out. Fetch sessions are the gateway's: a request to an actor
names all its partitions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

from muster.actors.log.errors import (
    LogError,
    StorageError,
    UnsupportedTimestamp,
)
from muster.actors.log.format.batch import NO_TIMESTAMP
from muster.actors.log.leader_epochs import NO_EPOCH, check_leader_epoch, divergence
from muster.actors.log.partition import PartitionLog
from muster.actors.wire.internal.fetch import (
    READ_COMMITTED,
    AbortedTransaction,
    EpochEnd,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    Place,
)
from muster.actors.wire.kafka.codec import ErrorCode

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
_NOWHERE = -1

OpenLog = Callable[[UUID, int], PartitionLog | None]
"""From topic id and partition to the log; None if it takes time to open, or to hear of the topic. Raises LogError."""
LogById = Callable[[UUID, int], Awaitable[PartitionLog]]
LogByName = Callable[[str, int], Awaitable[PartitionLog]]


class _Wanted:
    """A partition of a fetch: its log, or the error why there is none."""

    __slots__ = ("diverging", "error", "log", "reads_committed", "request")

    def __init__(self, request: FetchPartition, *, reads_committed: bool) -> None:
        self.request = request
        self.reads_committed = reads_committed
        self.log: PartitionLog | None = None
        self.error: LogError | None = None
        self.diverging: EpochEnd | None = None

    def use(self, log: PartitionLog) -> None:
        check_leader_epoch(log, self.request.current_leader_epoch)
        self.diverging = divergence(log, self.request.fetch_offset, self.request.last_fetched_epoch)
        self.log = log

    @property
    def is_over(self) -> bool:
        """Whether no records can come of it."""
        return self.error is not None or self.diverging is not None

    def bytes_available(self) -> int:
        """How many bytes of this partition the response could hold; a failure is kept in ``error``."""
        if self.log is None or self.is_over:
            return 0
        try:
            before = self.log.last_stable_offset if self.reads_committed else None
            available = self.log.bytes_available(self.request.fetch_offset, before)
        except LogError as error:
            self.error = error.with_traceback(None)  # which has this object: a cycle
            return 0
        return min(available, max(self.request.partition_max_bytes, 0))

    def fetched(self, max_bytes: int, *, at_least_one: bool, by_place: bool) -> tuple[FetchedPartition, int]:
        """Return the partition's records or error, and their size in bytes."""
        log, offset = self.log, self.request.fetch_offset
        if log is None or self.error is not None:
            return self._failed(), 0
        if self.diverging is not None:
            return self._diverged(log, self.diverging), 0
        limit = min(max_bytes, self.request.partition_max_bytes)
        stable = log.last_stable_offset
        before = stable if self.reads_committed else None
        aborted: list[AbortedTransaction] | None = None
        places: list[Place] = []
        records = b""
        try:
            if stable == offset and log.is_end(offset):  # as of most partitions of most fetches
                aborted = [] if self.reads_committed else None
                return FetchedPartition(ErrorCode.none, offset, log.log_start_offset, (), b"", stable, aborted), 0
            extents = log.extents(offset, limit, at_least_one=at_least_one, before=before)
            if by_place:
                places = [
                    Place(str(segment.path), start, end - start, segment.base_offset, segment.next_offset)
                    for segment, start, end in extents
                ]
            else:
                records = log.read_extents(extents)
            if self.reads_committed:
                found = log.aborted_transactions(offset, extents, stable)
                aborted = [AbortedTransaction(each.producer_id, each.first_offset) for each in found]
        except LogError as error:
            self.error = error.with_traceback(None)
            return self._failed(), 0
        ends = (log.high_watermark, log.log_start_offset)
        size_bytes = len(records) + sum(place.size_bytes for place in places)
        return FetchedPartition(ErrorCode.none, *ends, places, records, stable, aborted), size_bytes

    def _diverged(self, log: PartitionLog, diverging: EpochEnd) -> FetchedPartition:
        ends = (log.high_watermark, log.log_start_offset)
        return FetchedPartition(ErrorCode.none, *ends, (), b"", log.last_stable_offset, None, diverging)

    def _failed(self) -> FetchedPartition:
        code = self.error.code if self.error is not None else ErrorCode.unknown_server_error
        return FetchedPartition(code, _NOWHERE, _NOWHERE)


class OpenFetch:
    """A fetch whose logs are open, or have an error.

    ``max_bytes`` limits the whole response and ``partition_max_bytes`` each partition, except that the first partition
    with any records returns at least one batch (KIP-74).
    """

    def __init__(self, request: FetchRequest, wanted: Sequence[_Wanted]) -> None:
        self.max_wait_s = request.max_wait_ms / 1000
        self._max_bytes = request.max_bytes
        self._min_bytes = min(request.min_bytes, request.max_bytes)
        self.by_place = request.by_place
        self._wanted = wanted

    @property
    def logs(self) -> set[PartitionLog]:
        return {each.log for each in self._wanted if each.log is not None}

    def has_to_wait(self) -> bool:
        """Whether there is less than ``min_bytes``, time to wait for more, and no partition that ends the wait."""
        if self.max_wait_s <= 0 or not self._wanted:
            return False
        available = sum(partition.bytes_available() for partition in self._wanted)
        return available < self._min_bytes and not any(partition.is_over for partition in self._wanted)

    def response(self) -> list[FetchedPartition]:
        """Return the partitions as they are now."""
        remaining, is_first = self._max_bytes, True
        response = []
        for each in self._wanted:
            found, size_bytes = each.fetched(remaining, at_least_one=is_first, by_place=self.by_place)
            remaining = max(remaining - size_bytes, 0)
            is_first = is_first and not size_bytes
            response.append(found)
        return response


class WaitingFetch:
    """Calls ``ready`` once: as soon as there is enough, or when ``max_wait_ms`` have passed.

    It has no task, because many may wait for one append.
    """

    def __init__(self, fetch: OpenFetch, ready: Callable[[], None]) -> None:
        self._fetch = fetch
        self._ready = ready
        self._is_over = False
        self._logs = fetch.logs
        for log in self._logs:
            log.watch(self._check)
        self._timer = asyncio.get_running_loop().call_later(fetch.max_wait_s, self._end)

    def _check(self) -> None:
        if not self._is_over and not self._fetch.has_to_wait():
            self._end()

    def _end(self) -> None:
        self.cancel()
        self._ready()

    def cancel(self) -> None:
        """Do not call ``ready`` any more."""
        self._is_over = True
        self._timer.cancel()
        for log in self._logs:
            log.unwatch(self._check)


def open_now(request: FetchRequest, open_log: OpenLog) -> OpenFetch | None:
    """None if a log has to be opened first."""
    wanted = _wanted(request)
    for each in wanted:
        try:
            log = open_log(each.request.topic_id, each.request.partition)
            if log is None:
                return None
            each.use(log)
        except LogError as error:
            each.error = error.with_traceback(None)
    return OpenFetch(request, wanted)


async def open_soon(request: FetchRequest, log_by_id: LogById) -> OpenFetch:
    """``log_by_id`` may take time (to open the log), and raises LogError if there is no log."""
    wanted = _wanted(request)
    for each in wanted:
        try:
            each.use(await log_by_id(each.request.topic_id, each.request.partition))
        except LogError as error:
            each.error = error.with_traceback(None)
    return OpenFetch(request, wanted)


def _wanted(request: FetchRequest) -> list[_Wanted]:
    reads_committed = request.isolation_level == READ_COMMITTED
    return [_Wanted(each, reads_committed=reads_committed) for each in request.partitions]


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
