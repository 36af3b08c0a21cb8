"""Transactions in a log without a coordinator, and what a client sees of them."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from muster.actors.log.format.batch import iter_headers
from muster.actors.log.format.control import read_control
from muster.actors.log.format.records import Record, read_records
from muster.actors.log.partition import Append, AppendResult, PartitionLog
from muster.actors.wire.internal.markers import NO_DECISION, Marker
from muster.actors.wire.kafka.framing import Buffer
from tests.log.support import client_batch

P, Q = 1000, 2000
"""Producer ids."""
ALL_BYTES = 1 << 30


def transactional(producer_id: int, epoch: int, sequence: int, count: int = 1, value: bytes = b"value") -> bytes:
    """Return a client's batch."""
    return client_batch(count, producer=(producer_id, epoch, sequence), value=value, transactional=True)


def enqueue(
    log: PartitionLog, producer_id: int, epoch: int, sequence: int, count: int = 1, value: bytes = b"v"
) -> Append:
    """Append a batch that the coordinator would confirm."""
    guard = log.guard_for(producer_id, epoch, sequence)
    return log.enqueue(transactional(producer_id, epoch, sequence, count, value), guard)


async def write(
    log: PartitionLog, producer_id: int, epoch: int, sequence: int, count: int = 1, value: bytes = b"v"
) -> AppendResult:
    """Write, and wait until it is durable."""
    return await enqueue(log, producer_id, epoch, sequence, count, value).durable()


def marker(
    producer_id: int,
    epoch: int,
    *,
    commit: bool,
    coordinator_epoch: int = 0,
    version: int = 0,
    decision: int = NO_DECISION,
) -> Marker:
    return Marker(producer_id, epoch, coordinator_epoch, commit, version, decision, 0, ())


async def commit(log: PartitionLog, producer_id: int, epoch: int) -> int:
    """Commit; return the offset of the marker."""
    return (await log.enqueue_marker(marker(producer_id, epoch, commit=True)).durable()).base_offset


async def abort(log: PartitionLog, producer_id: int, epoch: int) -> int:
    """Abort; return the offset of the marker."""
    return (await log.enqueue_marker(marker(producer_id, epoch, commit=False)).durable()).base_offset


def aborted_from(log: PartitionLog, start: int) -> list[tuple[int, int]]:
    """Return (producer id, first offset) of the transactions that a READ_COMMITTED fetch of everything would list."""
    stable = log.last_stable_offset
    extents = log.extents(start, ALL_BYTES, at_least_one=True, before=stable)
    return [(each.producer_id, each.first_offset) for each in log.aborted_transactions(start, extents, stable)]


def committed_from(log: PartitionLog, start: int, max_bytes: int = ALL_BYTES) -> tuple[list[Record], int]:
    """Return the records that a READ_COMMITTED client gets from one fetch, and its next position."""
    stable = log.last_stable_offset
    extents = log.extents(start, max_bytes, at_least_one=True, before=stable)
    found = log.aborted_transactions(start, extents, stable)
    return client_view(log.read_extents(extents), [(each.producer_id, each.first_offset) for each in found], start)


def client_view(content: Buffer, aborted: Iterable[Sequence[int]], start: int) -> tuple[list[Record], int]:
    """Filter like Kafka's CompletedFetch: return the records, and the position behind them."""
    heap = [(first_offset, producer_id) for producer_id, first_offset in aborted]
    heapq.heapify(heap)
    dropped: set[int] = set()
    records: list[Record] = []
    position = start
    for at, header in iter_headers(content):
        while heap and heap[0][0] <= header.last_offset:
            dropped.add(heapq.heappop(heap)[1])
        batch = memoryview(content)[at : at + header.size_bytes]
        position = header.next_offset
        if header.is_control:
            end = read_control(batch, header)
            if end is not None and not end.commit:
                dropped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in dropped):
            records += [record for record in read_records(batch, header) if record.offset >= start]
    return records, position


def committed(log: PartitionLog, start: int = 0) -> list[int]:
    """Return the offsets of all records that a READ_COMMITTED client gets."""
    return [record.offset for record in committed_from(log, start)[0]]
