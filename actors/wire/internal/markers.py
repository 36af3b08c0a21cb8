"""MARKERS and MARKED: the ends of transactions that a coordinator wants in an actor's logs, and what became of them.

What Kafka's WriteTxnMarkers carries, with the number of the decision. Under the classic protocol a producer's next
transaction has the same producer id and epoch, so a marker that was given up and arrives late would end it. An actor
therefore executes no decision of a coordinator that is not newer than the one that it has executed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from msgspec.msgpack import Decoder

from muster.actors.wire.internal.envelope import Kind, pack, read_token, token_head
from muster.actors.wire.kafka.codec import ErrorCode

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


_MARKERS, _MARKED = Decoder(list[Marker]), Decoder(Marked)


def write_markers(token: int, markers: Iterable[Marker]) -> bytes:
    """Return a MARKERS."""
    return token_head(Kind.MARKERS, token) + pack([*markers])


def read_markers(message: bytes) -> tuple[int, list[Marker]]:
    """Token and markers of a MARKERS. Raises ValueError if it is none."""
    token, body = read_token(message)
    return token, _MARKERS.decode(body)


def write_marked(token: int, results: Iterable[Sequence[ErrorCode]]) -> bytes:
    """Return a MARKED; results in the order of the MARKERS."""
    return token_head(Kind.MARKED, token) + pack([*results])


def read_marked(body: bytes) -> Marked:
    """Return the results of a MARKED without its token. Raises ValueError if it is none."""
    return _MARKED.decode(body)
