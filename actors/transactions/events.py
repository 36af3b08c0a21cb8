"""Events of the transactional ids of a partition, for operators: they feed metrics and the log."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kio.schema.errors import ErrorCode

from muster.actors.transactions.types import TopicPartition, TransactionalId


class FenceCause(StrEnum):
    """Why the coordinator itself aborted a transaction."""

    INITIATED = "another InitProducerId"
    TIMED_OUT = "transaction timed out"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLoaded:
    transactional_ids: int
    undecided: int
    """Ongoing transactions."""
    unfinished: int
    """Transactions whose markers are written again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionFenced:
    """A transaction is aborted, with an epoch that its producer does not have."""

    transactional_id: TransactionalId
    producer_id: int
    producer_epoch: int
    """The new one."""
    cause: FenceCause


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDecided:
    """The outcome is in the log."""

    transactional_id: TransactionalId
    commit: bool
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionCompleted:
    """Every partition has its marker, and that is in the log."""

    transactional_id: TransactionalId
    commit: bool
    duration_ms: int
    """Since the beginning of the transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerFailed:
    """A partition did not take its marker; ``repeated`` unless the partition counts as done."""

    transactional_id: TransactionalId
    partition: TopicPartition
    error: ErrorCode
    repeated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorFenced:
    """A partition has a marker of a coordinator with a higher epoch: this one is not the coordinator any more, and
    sends no more markers of this transaction."""

    transactional_id: TransactionalId
    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalIdsExpired:
    """They were not used for ``transactional.id.expiration.ms``."""

    transactional_ids: tuple[TransactionalId, ...]


Event = (
    PartitionLoaded
    | TransactionFenced
    | TransactionDecided
    | TransactionCompleted
    | MarkerFailed
    | CoordinatorFenced
    | TransactionalIdsExpired
)
