"""VERIFY and VERIFIED: whether partitions belong to a producer's transaction.

A partition's owner sends this to the transaction coordinator before it appends the first batch of a transaction
(KIP-890). Otherwise a batch that was delayed past the end of its transaction would begin one that never ends.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from muster.actors.wire.internal.envelope import Kind, token_head
from muster.actors.wire.kafka.codec import ErrorCode

_HEAD = struct.Struct(">BI")
_PRODUCER = struct.Struct(">qh?bHI")
_PARTITION = struct.Struct(">iH")
_ERROR = struct.Struct(">h")


class VerifyRequest(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[tuple[str, int]]
    """Topics by name."""
    add: bool
    """Whether to add the partitions to the transaction, which may begin it, instead of only verifying them."""
    transaction_version: int
    """The protocol that the client follows: 2 from Produce v12 and TxnOffsetCommit v5 on, else 0."""


class TransactionVerifier(Protocol):
    """The way to the transaction coordinators."""

    async def verify(self, request: VerifyRequest) -> list[ErrorCode]:
        """One code for each of the partitions, in order: those of Kafka's coordinator, for its newest versions.

        NONE: the partition is in the transaction, and that is durable. TRANSACTION_ABORTABLE: it is not (only without
        ``add``). CONCURRENT_TRANSACTIONS, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
        and, if the connection was lost, NETWORK_EXCEPTION can be tried again. PRODUCER_FENCED,
        INVALID_PRODUCER_ID_MAPPING, INVALID_REQUEST and UNKNOWN_SERVER_ERROR can not. What of this a client gets
        depends on its version, and is the caller's to decide. Raises nothing but CancelledError.
        """


def write_verify(token: int, request: VerifyRequest) -> bytes:
    """Return a VERIFY."""
    name = request.transactional_id.encode()
    producer = _PRODUCER.pack(
        request.producer_id,
        request.producer_epoch,
        request.add,
        request.transaction_version,
        len(name),
        len(request.partitions),
    )
    parts = [_HEAD.pack(Kind.VERIFY, token), producer, name]
    for topic, partition in request.partitions:
        text = topic.encode()
        parts += (_PARTITION.pack(partition, len(text)), text)
    return b"".join(parts)


def read_verify(message: bytes) -> tuple[int, VerifyRequest]:
    """Token and request of a VERIFY. Raises ValueError if it is cut off."""
    try:
        _, token = _HEAD.unpack_from(message)
        producer_id, epoch, add, version, size, count = _PRODUCER.unpack_from(message, _HEAD.size)
        at = _HEAD.size + _PRODUCER.size + size
        name = message[at - size : at].decode()
        partitions = []
        for _ in range(count):
            partition, size = _PARTITION.unpack_from(message, at)
            at += _PARTITION.size + size
            partitions.append((message[at - size : at].decode(), partition))
    except struct.error as error:
        raise ValueError(f"a VERIFY: {error}") from error
    if at != len(message):
        raise ValueError("a VERIFY that is cut off")
    return token, VerifyRequest(name, producer_id, epoch, partitions, add, version)


def write_verified(token: int, errors: Sequence[ErrorCode]) -> bytes:
    """Return a VERIFIED; errors in the order of the partitions of the VERIFY."""
    return token_head(Kind.VERIFIED, token) + struct.pack(f">{len(errors)}h", *errors)


def read_verified(body: bytes) -> list[ErrorCode]:
    """Return the errors of a VERIFIED without its token. Raises ValueError if it is cut off."""
    try:
        return [ErrorCode(code) for (code,) in _ERROR.iter_unpack(body)]
    except struct.error as error:
        raise ValueError(f"a VERIFIED: {error}") from error
