"""A transactional id and its transaction: the coordinator's state. Immutable; each change makes a new one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from muster.actors.transactions.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition

MAX_EPOCH = 32_767
EXHAUSTED_EPOCH = MAX_EPOCH - 1
"""From this epoch on, a producer gets another id before it gets another epoch. No client gets ``MAX_EPOCH``."""
EPOCH_BUMP_VERSION = 2
"""``transaction.version`` from which every end of a transaction raises the epoch (KIP-890)."""


class TransactionState(IntEnum):
    """Numbers as in the records."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def title(self) -> str:
        """The name that DescribeTransactions and ListTransactions show."""
        return "".join(word.capitalize() for word in self.name.split("_"))


_E, _O, _PC, _PA, _CC, _CA = TransactionState
ENDED = frozenset({_E, _CC, _CA})
"""There is no transaction."""
PREPARED = frozenset({_PC, _PA})
"""The outcome is decided, and markers are written."""
MAY_COME_FROM: Mapping[TransactionState | None, frozenset[TransactionState | None]] = {
    _E: ENDED | {None},
    _O: ENDED | {_O},
    _PC: frozenset({_O}),
    _PA: ENDED | {_O},
    _CC: frozenset({_PC}),
    _CA: frozenset({_PA}),
    None: ENDED,
}
"""Legal transitions. None: the transactional id is not known."""


class IllegalMove(AssertionError):
    """The coordinator tried a transition that is not in ``MAY_COME_FROM``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMetadata:
    """The content of a record, of any version."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition] = frozenset()
    last_update_ms: int
    start_ms: int = NO_TIMESTAMP
    """When the transaction began; that of the last one once it is complete."""
    previous_producer_id: int = NO_PRODUCER_ID
    """The one before, whose epochs were exhausted."""
    next_producer_id: int = NO_PRODUCER_ID
    """Takes the place of the producer id when the transaction is complete."""
    client_transaction_version: int = 0
    """The protocol of the transaction; 1 and below are the same for clients."""

    @property
    def is_exhausted(self) -> bool:
        return self.producer_epoch >= EXHAUSTED_EPOCH

    @property
    def bumps_epoch(self) -> bool:
        """Whether the end of the transaction raises the epoch."""
        return self.client_transaction_version >= EPOCH_BUMP_VERSION


class Entry(NamedTuple):
    """State of a transactional id."""

    metadata: TransactionMetadata
    last_epoch: int = NO_PRODUCER_EPOCH
    """The epoch before the last change that the producer requested, whose response it may not have got. As in Kafka it
    is not in the log: after loading it is NO_PRODUCER_EPOCH."""
