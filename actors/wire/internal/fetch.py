"""FETCH and FETCHED: what a gateway wants of an actor's logs, and where it is.

To a gateway of its own node an actor does not send records. It sends where they are, and the gateway reads the segment
files itself: the bytes are copied once on their way from the page cache to the client's socket. Places stay valid:
batches that are durable do not change, and no name of a segment file is ever used twice. A file may be removed before
it is read; then the gateway asks for the bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from muster.actors.wire.internal.envelope import Kind
from muster.actors.wire.kafka.codec import ErrorCode
from muster.actors.wire.kafka.framing import Buffer

_HEAD = struct.Struct(">BI")
_LIMITS = struct.Struct(">?IiibI")
_WANTED = struct.Struct(">16siiqii")
_STATE = struct.Struct(">hqqqiIi")
_PLACE = struct.Struct(">qiqqH")
_ABORTED = struct.Struct(">qq")
_DIVERGING = struct.Struct(">iq")
_MAX_KEPT_BYTES = 8 << 10
_OK = ErrorCode.none
_NO_ABORTED, _DIVERGES = -1, -2
"""In place of the number of aborted transactions."""

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
"""Kafka's isolation levels. READ_COMMITTED ends at the last stable offset and has the aborted transactions."""


class FetchPartition(NamedTuple):
    """A partition to read. Fields as in Kafka's Fetch."""

    topic_id: UUID
    partition: int
    current_leader_epoch: int
    fetch_offset: int
    partition_max_bytes: int
    last_fetched_epoch: int = -1


class FetchRequest(NamedTuple):
    """Limits as in Kafka's Fetch."""

    by_place: bool
    """Whether places are wanted instead of bytes."""
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partitions: Sequence[FetchPartition]
    isolation_level: int = READ_UNCOMMITTED
    packed: bytes = b""
    """The partitions as :func:`pack_partition` writes them, in place of ``partitions``, of a request that is sent."""


class Place(NamedTuple):
    """Whole batches in a segment file."""

    path: str
    position: int
    size_bytes: int
    base_offset: int
    """All offsets of the batches are at least this, and below ``next_offset``."""
    next_offset: int


class AbortedTransaction(NamedTuple):
    """A transaction in what was fetched whose records the reader must leave out. Fields as in Kafka's Fetch."""

    producer_id: int
    first_offset: int


class EpochEnd(NamedTuple):
    """A leader epoch, and the offset at which it ends."""

    epoch: int
    end_offset: int


class FetchedPartition(NamedTuple):
    """Response for one partition: one of ``places`` and ``records`` is empty."""

    error_code: ErrorCode
    high_watermark: int
    log_start_offset: int
    places: Sequence[Place] = ()
    records: Buffer = b""
    last_stable_offset: int = -1
    aborted_transactions: Sequence[AbortedTransaction] | None = None
    """None with READ_UNCOMMITTED."""
    diverging: EpochEnd | None = None
    """From where on the log has other records than the reader; then there are no records (KIP-595)."""


def pack_partition(
    topic_id: UUID,
    partition: int,
    current_leader_epoch: int,
    fetch_offset: int,
    partition_max_bytes: int,
    last_fetched_epoch: int = -1,
) -> bytes:
    """Return a partition of :attr:`FetchRequest.packed`; the arguments are the fields of :class:`FetchPartition`."""
    return _WANTED.pack(
        topic_id.bytes, partition, current_leader_epoch, fetch_offset, partition_max_bytes, last_fetched_epoch
    )


def write_fetch(token: int, request: FetchRequest) -> bytes:
    """Return a FETCH."""
    by_place, max_wait_ms, min_bytes, max_bytes, partitions, isolation_level, packed = request
    packed = packed or b"".join([pack_partition(*partition) for partition in partitions])
    count = len(packed) // _WANTED.size
    limits = _LIMITS.pack(by_place, max_wait_ms, min_bytes, max_bytes, isolation_level, count)
    return b"".join((_HEAD.pack(Kind.FETCH, token), limits, packed))


def read_fetch(message: bytes) -> tuple[int, FetchRequest]:
    """Token and request of a FETCH. Raises ValueError if it is cut off."""
    try:
        _, token = _HEAD.unpack_from(message)
        by_place, max_wait_ms, min_bytes, max_bytes, isolation_level, count = _LIMITS.unpack_from(message, _HEAD.size)
        start = _HEAD.size + _LIMITS.size
        wanted = message[start : start + count * _WANTED.size]
        partitions = (_read_again if len(wanted) <= _MAX_KEPT_BYTES else _read_wanted)(wanted)
    except struct.error as error:
        raise ValueError(f"a FETCH: {error}") from error
    if len(partitions) != count:
        raise ValueError(f"a FETCH of {count} partitions with {len(partitions)}")
    return token, FetchRequest(by_place, max_wait_ms, min_bytes, max_bytes, partitions, isolation_level)


def _read_wanted(wanted: bytes) -> tuple[FetchPartition, ...]:
    """struct.error if they are cut off."""
    return tuple(FetchPartition(topic_id_of(topic_id), *rest) for topic_id, *rest in _WANTED.iter_unpack(wanted))


_read_again = lru_cache(maxsize=128)(_read_wanted)
"""Consumers that wait for records send the same again and again."""


@lru_cache(maxsize=4096)
def topic_id_of(data: bytes) -> UUID:
    """Return the topic id of those bytes."""
    return UUID(bytes=data)


def write_fetched(token: int, partitions: Iterable[FetchedPartition]) -> list[Buffer]:
    """Return a FETCHED, in parts; partitions in the order of the FETCH."""
    parts: list[Buffer] = [_HEAD.pack(Kind.FETCHED, token)]
    for error_code, high_watermark, log_start_offset, places, records, stable, aborted, diverging in partitions:
        offsets = (high_watermark, stable, log_start_offset)
        if diverging is not None:
            parts += (_STATE.pack(error_code, *offsets, _DIVERGES, 0, 0), _DIVERGING.pack(*diverging))
            continue
        count = _NO_ABORTED if aborted is None else len(aborted)
        parts.append(_STATE.pack(error_code, *offsets, count, len(places), len(records)))
        for transaction in aborted or ():
            parts.append(_ABORTED.pack(*transaction))
        for path, *numbers in places:
            name = path.encode()
            parts += (_PLACE.pack(*numbers, len(name)), name)
        if records:
            parts.append(records)
    return parts


def read_fetched(body: bytes) -> list[FetchedPartition]:
    """Return the partitions of a FETCHED without its token. Records are views of ``body``.

    Raises ValueError if it is cut off.
    """
    view, at, unpack = memoryview(body), 0, _STATE.unpack_from
    found: list[FetchedPartition] = []
    try:
        while at < len(body):
            error, high_watermark, stable, log_start_offset, aborted_count, count, size_bytes = unpack(body, at)
            at += _STATE.size
            state = (_OK if error == 0 else ErrorCode(error), high_watermark, log_start_offset)
            if aborted_count == _DIVERGES:
                diverging = EpochEnd._make(_DIVERGING.unpack_from(body, at))
                at += _DIVERGING.size
                found.append(FetchedPartition(*state, (), b"", stable, None, diverging))
                continue
            aborted: list[AbortedTransaction] | None = None
            if aborted_count != _NO_ABORTED:
                aborted, at = _read_aborted(body, at, aborted_count)
            places: list[Place] = []
            for _ in range(count):
                *numbers, length = _PLACE.unpack_from(body, at)
                at += _PLACE.size
                places.append(Place(body[at : at + length].decode(), *numbers))
                at += length
            records = view[at : at + size_bytes] if size_bytes else b""
            at += size_bytes
            found.append(FetchedPartition(*state, places, records, stable, aborted))
    except struct.error as error:
        raise ValueError(f"a FETCHED: {error}") from error
    if at != len(body):
        raise ValueError("a FETCHED that is cut off")
    return found


def _read_aborted(body: bytes, at: int, count: int) -> tuple[list[AbortedTransaction], int]:
    """Return the aborted transactions of a partition, and where they end. Raises struct.error if they are cut off."""
    end = at + count * _ABORTED.size
    return [AbortedTransaction._make(fields) for fields in _ABORTED.iter_unpack(memoryview(body)[at:end])], end


class LastFetched:
    """Reads the FETCHED of a FETCH that is repeated: one that is like the one before it is not read again."""

    __slots__ = ("_body", "_partitions")

    def __init__(self) -> None:
        self._body = b""
        self._partitions: list[FetchedPartition] = []

    def read(self, body: bytes) -> list[FetchedPartition]:
        """Read like :func:`read_fetched`.

        Returns the same list again if nothing has changed and there are no records.
        """
        if body == self._body:
            return self._partitions
        found = read_fetched(body)
        if len(body) == len(found) * _STATE.size:
            self._body, self._partitions = body, found
        return found
