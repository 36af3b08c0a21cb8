"""The fetches that gateways send to an actor, over its logs: log actors and coordinators alike.

READ_COMMITTED ends at the last stable offset. Aborted records before it are served with the list of the transactions
that they are part of, as in Kafka: the reader leaves them out. Fetch sessions are the gateway's: a request to an actor
names all its partitions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from uuid import UUID

from muster.actors.log.errors import LogError
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
    write_fetched,
)
from muster.actors.wire.internal.listener import Peer
from muster.actors.wire.kafka.codec import ErrorCode

log = logging.getLogger(__name__)

_NOWHERE = -1
_OK = ErrorCode.none

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
        """Take the log. Raises LogError if the client knows another leader epoch, or records of an unknown one."""
        request = self.request
        if request.current_leader_epoch != NO_EPOCH:
            check_leader_epoch(log, request.current_leader_epoch)
        if request.last_fetched_epoch != NO_EPOCH:
            self.diverging = divergence(log, request.fetch_offset, request.last_fetched_epoch)
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
        start, high_watermark, stable = log.ends
        before = stable if self.reads_committed else None
        aborted: list[AbortedTransaction] | None = None
        places: list[Place] = []
        records, size_bytes = b"", 0
        try:
            if stable == offset and log.is_end(offset):  # as of most partitions of most fetches
                aborted = [] if self.reads_committed else None
                return FetchedPartition(_OK, offset, start, (), b"", stable, aborted), 0
            extents = log.extents(offset, limit, at_least_one=at_least_one, before=before)
            if by_place:
                for segment, begin, end in extents:
                    size_bytes += end - begin
                    base_offset = segment.name.base_offset
                    places.append(Place(segment.location, begin, end - begin, base_offset, segment.next_offset))
            else:
                records = log.read_extents(extents)
                size_bytes = len(records)
            if self.reads_committed:
                found = log.aborted_transactions(offset, extents, stable)
                aborted = [AbortedTransaction(each.producer_id, each.first_offset) for each in found]
        except LogError as error:
            self.error = error.with_traceback(None)
            return self._failed(), 0
        return FetchedPartition(_OK, high_watermark, start, places, records, stable, aborted), size_bytes

    def _diverged(self, log: PartitionLog, diverging: EpochEnd) -> FetchedPartition:
        start, high_watermark, stable = log.ends
        return FetchedPartition(_OK, high_watermark, start, (), b"", stable, None, diverging)

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
        self._size_bytes = 0
        """Size of the records in the last response."""

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
        self._size_bytes = self._max_bytes - remaining
        return response

    def response_now(self) -> list[FetchedPartition] | None:
        """Return :meth:`response` with places, or None if :meth:`has_to_wait`.

        To find where records are costs as much as to find how many there are, so that is not done twice.
        """
        if self.max_wait_s <= 0:
            return self.response()
        if self._has_read_everything():
            return None if self.has_to_wait() else self.response()
        response = self.response()
        return None if self._size_bytes < self._min_bytes and self.has_to_wait() else response

    def _has_read_everything(self) -> bool:
        """Whether there is nothing new, as in most fetches that wait. False if it is not known."""
        for each in self._wanted:
            if each.log is None or each.log.high_watermark != each.request.fetch_offset:
                return False
        return True


class WaitingFetch:
    """Calls ``ready`` once: as soon as there is enough, or when ``max_wait_ms`` have passed.

    It has no task, because many may wait for one append.
    """

    __slots__ = ("_fetch", "_is_over", "_logs", "_ready", "_timer")

    def __init__(self, fetch: OpenFetch, ready: Callable[[list[FetchedPartition] | None], None]) -> None:
        """``ready`` gets the response, if it is known: it has places, and is of this moment."""
        self._fetch = fetch
        self._ready = ready
        self._is_over = False
        self._logs = fetch.logs
        for log in self._logs:
            log.watch(self._check)
        self._timer = asyncio.get_running_loop().call_later(fetch.max_wait_s, self._end)

    def _check(self) -> None:
        if self._is_over:
            return
        response: list[FetchedPartition] | None = None
        if not self._fetch.by_place:
            if self._fetch.has_to_wait():
                return
        else:
            try:
                if (response := self._fetch.response_now()) is None:
                    return
            except Exception:  # the log that calls this must not fail; whoever responds meets the error again
                response = None
        self._end(response)

    def _end(self, response: list[FetchedPartition] | None = None) -> None:
        self.cancel()
        self._ready(response)

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


_Key = tuple[Peer, int]


class Fetches:
    """Responds at once where it can. Only a fetch whose log has to be opened has a task."""

    def __init__(self, open_log: OpenLog, log_by_id: LogById) -> None:
        self._open_log = open_log
        self._log_by_id = log_by_id
        self._waiting: dict[_Key, Callable[[], object]] = {}
        """The fetches that have no response yet, and how to cancel them."""
        self._lines: dict[Peer, dict[_Key, OpenFetch]] = {}
        """Fetches whose records are not read before the gateway has taken earlier responses, in order."""

    def serve(self, peer: Peer, token: int, request: FetchRequest) -> None:
        """Respond to the fetch, now or later."""
        fetch = open_now(request, self._open_log)
        if fetch is not None:
            self._begin((peer, token), fetch)
            return
        task = asyncio.get_running_loop().create_task(self._open((peer, token), request))
        self._waiting[peer, token] = task.cancel

    async def _open(self, key: _Key, request: FetchRequest) -> None:
        try:
            fetch = await open_soon(request, self._log_by_id)
        except Exception:
            log.exception("a fetch failed")
            self._waiting.pop(key, None)
            key[0].close()
            return
        self._waiting.pop(key, None)
        self._begin(key, fetch)

    def _begin(self, key: _Key, fetch: OpenFetch) -> None:
        if not fetch.by_place:  # records are not read before they can be sent
            if fetch.has_to_wait():
                self._wait(key, fetch)
            else:
                self._respond(key, fetch)
            return
        peer, token = key
        try:
            response = fetch.response_now()
            if response is None:
                self._wait(key, fetch)
            else:
                peer.send(*write_fetched(token, response))
        except Exception:
            log.exception("a fetch failed")
            peer.close()

    def _wait(self, key: _Key, fetch: OpenFetch) -> None:
        self._waiting[key] = WaitingFetch(fetch, partial(self._respond, key, fetch)).cancel

    def _respond(self, key: _Key, fetch: OpenFetch, response: list[FetchedPartition] | None = None) -> None:
        self._waiting.pop(key, None)
        peer, _ = key
        if not fetch.by_place and (peer in self._lines or peer.is_full):
            self._wait_in_line(key, fetch)
        else:
            self._send(key, fetch, response)

    def _wait_in_line(self, key: _Key, fetch: OpenFetch) -> None:
        peer, _ = key
        line = self._lines.get(peer)
        if line is None:
            line = self._lines[peer] = {}
            peer.when_drained(partial(self._next, peer))
        line[key] = fetch
        self._waiting[key] = partial(line.pop, key, None)

    def _next(self, peer: Peer) -> None:
        """Respond to the next fetches: the gateway has taken what it was sent."""
        line = self._lines.get(peer, {})
        while line and not peer.is_full:
            key = next(iter(line))
            self._waiting.pop(key, None)
            self._send(key, line.pop(key))
        if line:
            peer.when_drained(partial(self._next, peer))
        else:
            self._lines.pop(peer, None)

    def _send(self, key: _Key, fetch: OpenFetch, response: list[FetchedPartition] | None = None) -> None:
        peer, token = key
        try:
            peer.send(*write_fetched(token, fetch.response() if response is None else response))
        except Exception:  # a log that calls this must not fail because of it
            log.exception("a fetch failed")
            peer.close()

    def cancel(self, peer: Peer, token: int) -> None:
        """Drop the fetch: its response is no longer needed."""
        if cancel := self._waiting.pop((peer, token), None):
            cancel()

    def left(self, peer: Peer) -> None:
        """Drop the fetches of a gateway that is gone."""
        for key in [key for key in self._waiting if key[0] is peer]:
            self.cancel(*key)
        self._lines.pop(peer, None)

    def stop(self) -> None:
        """Give up all that have no response."""
        for key in list(self._waiting):
            self.cancel(*key)
