"""AddPartitionsToTxn (24), AddOffsetsToTxn (25) and VERIFY: the partitions of a transaction.

AddPartitionsToTxn v4 several transactions, as brokers send them, and verification (KIP-890)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

from kio.schema.errors import ErrorCode

from muster.actors.group.errors import ApiError
from muster.actors.group.types import Token
from muster.actors.transactions.messages import (
    BY_BROKERS_FROM,
    AddOffsetsToTxn,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxn,
    AddPartitionsToTxnResponse,
    PartitionsOfTransaction,
    TransactionResult,
    Verified,
    results_of,
)
from muster.actors.transactions.shard import Shard
from muster.actors.transactions.state import EPOCH_BUMP_VERSION, PREPARED, TransactionMetadata, TransactionState
from muster.actors.transactions.types import TopicPartition, TransactionalId
from muster.actors.wire.internal.verification import VerifyRequest
from muster.placement import partition_for
from muster.placement.view import OFFSETS_TOPIC, TRANSACTIONS_TOPIC

_INTERNAL = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
Errors = dict[TopicPartition, ErrorCode]


class FromProducer(Protocol):
    """A request that names the producer which it speaks for."""

    @property
    def transactional_id(self) -> str: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...


def add_partitions(shard: Shard, request: AddPartitionsToTxn, token: Token) -> None:
    version = EPOCH_BUMP_VERSION if request.api_version >= BY_BROKERS_FROM else 0
    results = tuple(_result(shard, each, version) for each in request.transactions)
    response = AddPartitionsToTxnResponse(results_by_transaction=results)
    if len(request.transactions) == 1:
        shard.reply_of(request.transactions[0].transactional_id, token, request, response)
    else:
        shard.reply_of_all(token, request, response)


def add_offsets(shard: Shard, request: AddOffsetsToTxn, token: Token) -> None:
    place = partition_for(request.group_id, shard.config.offsets_topic_num_partitions)
    _add(shard, request, {(OFFSETS_TOPIC, place)}, transaction_version=0)
    shard.reply_of(request.transactional_id, token, request, AddOffsetsToTxnResponse())


def verify(shard: Shard, request: VerifyRequest, token: Token) -> None:
    transactional_id = TransactionalId(request.transactional_id)
    if request.add:
        _add(shard, request, request.partitions, request.transaction_version)
        errors = (ErrorCode.none,) * len(request.partitions)
    else:
        found = _verify(shard, request, request.partitions)
        errors = tuple(found[each] for each in request.partitions)
    shard.reply_of(transactional_id, token, request, Verified(errors))


def refused(
    transaction: PartitionsOfTransaction, api_version: int, error_of: Callable[[str, int], ErrorCode]
) -> TransactionResult | None:
    """Return the results if not all of the partitions may be added: then none is. None if they may.

    ``error_of`` gives the error for a topic and partition that do not exist. Clients add no internal topics: they add
    offsets with AddOffsetsToTxn.
    """

    def error(topic: str, partition: int) -> ErrorCode:
        if topic in _INTERNAL and api_version < BY_BROKERS_FROM:
            return ErrorCode.topic_authorization_failed
        return error_of(topic, partition)

    errors = {place: error(*place) for place in transaction.partitions}
    if any(errors.values()):
        not_attempted = ErrorCode.operation_not_attempted
        return results_of(transaction, {place: error or not_attempted for place, error in errors.items()})
    return None


def check_producer(metadata: TransactionMetadata, request: FromProducer) -> None:
    """INVALID_PRODUCER_ID_MAPPING or PRODUCER_FENCED unless the request is of the present producer."""
    if request.producer_id != metadata.producer_id:
        raise ApiError(ErrorCode.invalid_producer_id_mapping)
    if request.producer_epoch != metadata.producer_epoch:
        raise ApiError(ErrorCode.producer_fenced)


def _result(shard: Shard, transaction: PartitionsOfTransaction, transaction_version: int) -> TransactionResult:
    """Return the results for one of possibly several transactions, whose errors are its own."""
    try:
        if transaction.verify_only:
            return results_of(transaction, _verify(shard, transaction, transaction.partitions))
        _add(shard, transaction, transaction.partitions, transaction_version)
        error = ErrorCode.none
    except ApiError as refusal:
        error = refusal.error
    return results_of(transaction, dict.fromkeys(transaction.partitions, error))


def _add(shard: Shard, request: FromProducer, partitions: Iterable[TopicPartition], transaction_version: int) -> None:
    """Add the partitions to the transaction, or begin one with them. Writes nothing if they are in it."""
    transactional_id = TransactionalId(request.transactional_id)
    before, last_epoch = shard.entry(transactional_id)
    if before.state in PREPARED:
        raise ApiError(ErrorCode.concurrent_transactions)
    check_producer(before, request)
    is_ongoing = before.state is TransactionState.ONGOING
    if is_ongoing and before.partitions.issuperset(partitions):
        return
    after = replace(
        before,
        state=TransactionState.ONGOING,
        partitions=before.partitions.union(partitions),
        last_update_ms=shard.now_ms,
        start_ms=before.start_ms if is_ongoing else shard.now_ms,
        client_transaction_version=transaction_version,
    )
    shard.write(transactional_id, after, last_epoch)


def _verify(shard: Shard, request: FromProducer, partitions: Iterable[TopicPartition]) -> Errors:
    """Which of the partitions are in the transaction."""
    metadata = shard.entry(TransactionalId(request.transactional_id)).metadata
    check_producer(metadata, request)
    if metadata.state in PREPARED:
        raise ApiError(ErrorCode.concurrent_transactions)
    missing = ErrorCode.transaction_abortable
    return {each: ErrorCode.none if each in metadata.partitions else missing for each in partitions}
