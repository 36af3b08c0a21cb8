"""Types for the input and output of the transaction coordinator core. No I/O, no clock, no Ray."""

from __future__ import annotations

from typing import Any, NamedTuple, NewType

from kio.schema.errors import ErrorCode

from muster.actors.group.types import Record, Token, WriteId

TransactionalId = NewType("TransactionalId", str)
TopicPartition = tuple[str, int]
"""Topic name and partition index."""

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIMESTAMP = -1

TOPIC_DELETED = ErrorCode.unknown_topic_id
"""The result of a marker for a topic that is known to be deleted: the partition counts as done."""


class MarkerRequest(NamedTuple):
    """Write a marker into these partitions, and report what became of it to ``marked``."""

    transactional_id: TransactionalId
    decision: int
    """Offset of the record that decided the transaction."""
    producer_id: int
    producer_epoch: int
    commit: bool
    transaction_version: int
    """The protocol of the transaction: with 2, the epoch is higher than any before."""
    partitions: tuple[TopicPartition, ...]
    """Sorted."""


class Outcome(NamedTuple):
    """Work for the shell after one step of the core.

    ``replies`` may be sent immediately. If ``write`` is set, the shell appends ``records`` as one atomic batch. It
    calls ``written(write, base_offset, now_ms)`` for each write, in order, once its records *and everything appended
    before* are durable, or else ``write_failed(write, error, now_ms)``. ``records`` are already applied to memory when
    the Outcome is returned.

    Each of ``markers`` is sent to the owners of its partitions. Each of its partitions is reported to ``marked``
    exactly once, in any number of calls: with the owner's error code, TOPIC_DELETED if the topic is known not to exist
    any more, or NETWORK_EXCEPTION if there is no response. The core asks again for those that must be repeated, so the
    shell looks up the owner each time and repeats nothing itself.
    """

    replies: tuple[tuple[Token, Any], ...] = ()
    records: tuple[Record, ...] = ()
    write: WriteId | None = None
    markers: tuple[MarkerRequest, ...] = ()
    events: tuple[Any, ...] = ()
    """Events for operators (:mod:`muster.actors.transactions.events`)."""
