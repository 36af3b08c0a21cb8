"""MARKERS and MARKED: the ends of transactions that a coordinator wants in an actor's logs, and what became of them.

What Kafka's WriteTxnMarkers carries, with the number of the decision. Under the classic protocol a producer's next
transaction has the same producer id and epoch, so a marker that was given up and arrives late would end it. An actor
therefore executes no decision of a coordinator that is not newer than the one that it has executed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from muster.actors.wire.internal.envelope import Kind
from muster.actors.wire.kafka.codec import ErrorCode

_HEAD = struct.Struct(">BI")
_MARKER = struct.Struct(">qhi?bqiI")
_PARTITION = struct.Struct(">16si")
_COUNT = struct.Struct(">I")

NO_DECISION = -1
"""The decision of a marker that an administrator sends: it is always executed."""

TopicIdPartition = tuple[UUID, int]
"""Topic id and partition."""


class Marker(NamedTuple):
    """The end of one transaction, for some of its partitions."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    transaction_version: int
    """From 2 on, the epoch is higher than that of the transaction (KIP-890, part 2)."""
    decision: int
    """Offset of the record in ``__transaction_state`` that decides the transaction, or NO_DECISION."""
    coordinator_partition: int
    """The partition of ``__transaction_state``; any number if there is no decision."""
    partitions: Sequence[TopicIdPartition]


Marked = list[list[ErrorCode]]
"""For each marker, the result of each of its partitions, in order."""


def write_markers(token: int, markers: Iterable[Marker]) -> bytes:
    """Return a MARKERS."""
    parts = [_HEAD.pack(Kind.MARKERS, token)]
    for *fields, partitions in markers:
        parts.append(_MARKER.pack(*fields, len(partitions)))
        parts += (_PARTITION.pack(topic_id.bytes, partition) for topic_id, partition in partitions)
    return b"".join(parts)


def read_markers(message: bytes) -> tuple[int, list[Marker]]:
    """Token and markers of a MARKERS. Raises ValueError if it is cut off."""
    markers: list[Marker] = []
    view, at = memoryview(message), _HEAD.size
    try:
        _, token = _HEAD.unpack_from(message)
        while at < len(message):
            *fields, count = _MARKER.unpack_from(message, at)
            at += _MARKER.size
            end = at + count * _PARTITION.size
            found = [(UUID(bytes=topic_id), number) for topic_id, number in _PARTITION.iter_unpack(view[at:end])]
            markers.append(Marker._make((*fields, found)))
            at = end
    except struct.error as error:
        raise ValueError(f"a MARKERS: {error}") from error
    if at != len(message):
        raise ValueError("a MARKERS that is cut off")
    return token, markers


def write_marked(token: int, results: Iterable[Sequence[ErrorCode]]) -> bytes:
    """Return a MARKED; results in the order of the MARKERS."""
    parts = [_HEAD.pack(Kind.MARKED, token)]
    for codes in results:
        parts.append(_COUNT.pack(len(codes)) + struct.pack(f">{len(codes)}h", *codes))
    return b"".join(parts)


def read_marked(body: bytes) -> Marked:
    """Return the results of a MARKED without its token. Raises ValueError if it is cut off."""
    results: Marked = []
    at = 0
    try:
        while at < len(body):
            (count,) = _COUNT.unpack_from(body, at)
            at += _COUNT.size
            codes = struct.Struct(f">{count}h")
            results.append([ErrorCode(code) for code in codes.unpack_from(body, at)])
            at += codes.size
    except struct.error as error:
        raise ValueError(f"a MARKED: {error}") from error
    return results
