"""Requests and responses of the transaction APIs, independent of Kafka's versions. Durations are milliseconds.

Responses have the field names of Kafka's schemas, as kio spells them: ``muster.actors.wire.kafka.codec`` writes them as
they are. ``failed`` returns, for any request, the response for a failure of the whole request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from muster.actors.group.messages import Unthrottled
from muster.actors.transactions.types import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TopicPartition,
    TransactionalId,
)
from muster.actors.wire.internal.verification import VerifyRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerId:
    api_version: int
    transactional_id: TransactionalId | None
    transaction_timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    """The producer's present one, if it has one (KIP-360)."""
    producer_epoch: int = NO_PRODUCER_EPOCH
    enable_2pc: bool = False
    keep_prepared_txn: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerIdResponse(Unthrottled):
    error_code: ErrorCode = ErrorCode.none
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    ongoing_txn_producer_id: int = NO_PRODUCER_ID
    ongoing_txn_producer_epoch: int = NO_PRODUCER_EPOCH


BY_BROKERS_FROM = 4
"""The AddPartitionsToTxn version from which brokers send it, for producers of the newest protocol: of several
transactions at once, and of partitions of ``__consumer_offsets``, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsOfTransaction:
    """Partitions that AddPartitionsToTxn adds to one transaction."""

    transactional_id: TransactionalId
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    verify_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxn:
    api_version: int
    transactions: tuple[PartitionsOfTransaction, ...]
    """Exactly one below :data:`BY_BROKERS_FROM`."""


class PartitionResult(NamedTuple):
    partition_index: int
    partition_error_code: ErrorCode


@dataclass(frozen=True, slots=True)
class TopicResult:
    name: str
    results_by_partition: tuple[PartitionResult, ...]


@dataclass(frozen=True, slots=True)
class TransactionResult:
    transactional_id: TransactionalId
    topic_results: tuple[TopicResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnResponse(Unthrottled):
    error_code: ErrorCode = ErrorCode.none
    """Exists from v4 on."""
    results_by_transaction: tuple[TransactionResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOffsetsToTxn:
    api_version: int
    transactional_id: TransactionalId
    producer_id: int
    producer_epoch: int
    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOffsetsToTxnResponse(Unthrottled):
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTxn:
    api_version: int
    transactional_id: TransactionalId
    producer_id: int
    producer_epoch: int
    committed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTxnResponse(Unthrottled):
    error_code: ErrorCode = ErrorCode.none
    producer_id: int = NO_PRODUCER_ID
    """From v5 on, the one to use from now on, with ``producer_epoch``."""
    producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransactions:
    api_version: int
    transactional_ids: tuple[TransactionalId, ...]


@dataclass(frozen=True, slots=True)
class DescribedTopic:
    topic: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTransaction:
    transactional_id: TransactionalId
    error_code: ErrorCode = ErrorCode.none
    transaction_state: str = ""
    transaction_timeout: int = 0
    transaction_start_time: int = 0
    """ms since the epoch; NO_TIMESTAMP if there is no transaction."""
    producer_id: int = 0
    producer_epoch: int = 0
    topics: tuple[DescribedTopic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransactionsResponse(Unthrottled):
    transaction_states: tuple[DescribedTransaction, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTransactions:
    api_version: int
    state_filters: tuple[str, ...] = ()
    producer_id_filters: tuple[int, ...] = ()
    duration_filter_ms: int = NO_TIMESTAMP
    transactional_id_pattern: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTransaction:
    transactional_id: TransactionalId
    producer_id: int
    transaction_state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTransactionsResponse(Unthrottled):
    error_code: ErrorCode = ErrorCode.none
    unknown_state_filters: tuple[str, ...] = ()
    transaction_states: tuple[ListedTransaction, ...] = ()


@dataclass(frozen=True, slots=True)
class Verified:
    """The response to a VerifyRequest: one code for each partition, in order."""

    errors: tuple[ErrorCode, ...]


Request = (
    InitProducerId
    | AddPartitionsToTxn
    | AddOffsetsToTxn
    | EndTxn
    | DescribeTransactions
    | ListTransactions
    | VerifyRequest
)
Response = (
    InitProducerIdResponse
    | AddPartitionsToTxnResponse
    | AddOffsetsToTxnResponse
    | EndTxnResponse
    | DescribeTransactionsResponse
    | ListTransactionsResponse
    | Verified
)


def failed(request: Request, error: ErrorCode) -> Response:
    """Return the response to a request that failed as a whole, with the error where the API carries it."""
    match request:
        case InitProducerId():
            return InitProducerIdResponse(error_code=error)
        case AddPartitionsToTxn():
            results = tuple(results_of(each, dict.fromkeys(each.partitions, error)) for each in request.transactions)
            return AddPartitionsToTxnResponse(results_by_transaction=results)
        case AddOffsetsToTxn():
            return AddOffsetsToTxnResponse(error_code=error)
        case EndTxn():
            return EndTxnResponse(error_code=error)
        case DescribeTransactions():
            described = (
                DescribedTransaction(transactional_id=each, error_code=error) for each in request.transactional_ids
            )
            return DescribeTransactionsResponse(transaction_states=tuple(described))
        case ListTransactions():
            return ListTransactionsResponse(error_code=error)
        case VerifyRequest():
            return Verified((error,) * len(request.partitions))


def results_of(transaction: PartitionsOfTransaction, errors: Mapping[TopicPartition, ErrorCode]) -> TransactionResult:
    """Return the results of these partitions, by topic."""
    by_topic: dict[str, list[PartitionResult]] = {}
    for topic, partition in transaction.partitions:
        by_topic.setdefault(topic, []).append(PartitionResult(partition, errors[topic, partition]))
    return TransactionResult(
        transaction.transactional_id, tuple(TopicResult(name, tuple(found)) for name, found in by_topic.items())
    )


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partition indexes of each topic, in the given order."""
    found: dict[str, list[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, []).append(partition)
    return found
