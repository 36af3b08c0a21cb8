"""VERIFY and VERIFIED: whether partitions belong to a producer's transaction.

A partition's owner sends this to the transaction coordinator before it appends the first batch of a transaction
(KIP-890). Otherwise a batch that was delayed past the end of its transaction would begin one that never ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from msgspec.msgpack import Decoder

from muster.actors.wire.internal.envelope import Kind, pack, read_token, token_head
from muster.actors.wire.kafka.codec import ErrorCode


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


_REQUEST, _ERRORS = Decoder(VerifyRequest), Decoder(list[ErrorCode])


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
    return token_head(Kind.VERIFY, token) + pack(request)


def read_verify(message: bytes) -> tuple[int, VerifyRequest]:
    """Token and request of a VERIFY. Raises ValueError if it is none."""
    token, body = read_token(message)
    return token, _REQUEST.decode(body)


def write_verified(token: int, errors: Sequence[ErrorCode]) -> bytes:
    """Return a VERIFIED; errors in the order of the partitions of the VERIFY."""
    return token_head(Kind.VERIFIED, token) + pack(errors)


def read_verified(body: bytes) -> list[ErrorCode]:
    """Return the errors of a VERIFIED without its token. Raises ValueError if it is none."""
    return _ERRORS.decode(body)
