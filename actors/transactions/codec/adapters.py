"""Translates between the codec's entities, one class per API version, and the version-neutral messages of the core.

Every version that kio has is served. A producer that is fenced gets INVALID_PRODUCER_EPOCH in versions that are older
than PRODUCER_FENCED.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from kio.schema.errors import ErrorCode

from muster.actors.transactions.messages import (
    BY_BROKERS_FROM,
    AddOffsetsToTxn,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxn,
    AddPartitionsToTxnResponse,
    DescribeTransactions,
    EndTxn,
    EndTxnResponse,
    InitProducerId,
    InitProducerIdResponse,
    ListTransactions,
    PartitionResult,
    PartitionsOfTransaction,
    Request,
    Response,
    TopicResult,
    TransactionResult,
    failed,
)
from muster.actors.transactions.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, TransactionalId
from muster.actors.wire.kafka import codec

INIT_PRODUCER_ID = 22
ADD_PARTITIONS_TO_TXN = 24
ADD_OFFSETS_TO_TXN = 25
END_TXN = 26
DESCRIBE_TRANSACTIONS = 65
LIST_TRANSACTIONS = 66
_FENCED_FROM = {INIT_PRODUCER_ID: 4, ADD_PARTITIONS_TO_TXN: 2, ADD_OFFSETS_TO_TXN: 2, END_TXN: 2}
"""Versions that know PRODUCER_FENCED (KIP-588)."""


def read(header: codec.Header, frame: bytes) -> Request:
    """Return the request in a frame. Raises the errors of ``codec.decode_request``.

    Raises KeyError for an API that is not of transactions.
    """
    return decode(header.api_key, header.api_version, codec.decode_request(header, frame))


def decode(api_key: int, api_version: int, entity: Any) -> Request:
    """Return the request in an entity of ``codec.decode_request``.

    Raises KeyError for an API that is not of transactions.
    """
    return _DECODERS[api_key](api_version, entity)


def encode(api_version: int, response: Response) -> codec.Body:
    """Return the body for ``codec.encode_response``: the response itself, where its version does not differ."""
    match response:
        case InitProducerIdResponse():
            return _with_old_error(response, api_version, INIT_PRODUCER_ID)
        case AddOffsetsToTxnResponse():
            return _with_old_error(response, api_version, ADD_OFFSETS_TO_TXN)
        case EndTxnResponse():
            return _with_old_error(response, api_version, END_TXN)
        case AddPartitionsToTxnResponse():
            return _partitions_added(api_version, response)
    return response


def write(header: codec.Header, response: Response) -> bytes:
    """Return the response frame, of the request's version."""
    version = header.api_version
    return codec.encode_response(header.api_key, version, header.correlation_id, encode(version, response))


def error_body(api_key: int, api_version: int, entity: Any, error: ErrorCode) -> codec.Body:
    """Return the response to a request that failed as a whole, in the format of its API and version."""
    return encode(api_version, failed(decode(api_key, api_version, entity), error))


def _init_producer_id(version: int, entity: Any) -> InitProducerId:
    return InitProducerId(
        api_version=version,
        transactional_id=entity.transactional_id,
        transaction_timeout_ms=entity.transaction_timeout,
        producer_id=codec.field(entity, "producer_id", NO_PRODUCER_ID),
        producer_epoch=codec.field(entity, "producer_epoch", NO_PRODUCER_EPOCH),
        enable_2pc=codec.field(entity, "enable2_pc", False),
        keep_prepared_txn=codec.field(entity, "keep_prepared_txn", False),
    )


def _add_partitions(version: int, entity: Any) -> AddPartitionsToTxn:
    if version >= BY_BROKERS_FROM:
        transactions = tuple(_transaction(each, each.transactional_id) for each in entity.transactions)
    else:
        transactions = (
            PartitionsOfTransaction(
                transactional_id=TransactionalId(entity.v3_and_below_transactional_id),
                producer_id=entity.v3_and_below_producer_id,
                producer_epoch=entity.v3_and_below_producer_epoch,
                partitions=_partitions(entity.v3_and_below_topics),
            ),
        )
    return AddPartitionsToTxn(api_version=version, transactions=transactions)


def _transaction(entity: Any, transactional_id: str) -> PartitionsOfTransaction:
    return PartitionsOfTransaction(
        transactional_id=TransactionalId(transactional_id),
        producer_id=entity.producer_id,
        producer_epoch=entity.producer_epoch,
        partitions=_partitions(entity.topics),
        verify_only=entity.verify_only,
    )


def _partitions(topics: Any) -> tuple[tuple[str, int], ...]:
    return tuple((topic.name, index) for topic in topics for index in topic.partitions)


def _add_offsets(version: int, entity: Any) -> AddOffsetsToTxn:
    return AddOffsetsToTxn(
        api_version=version,
        transactional_id=TransactionalId(entity.transactional_id),
        producer_id=entity.producer_id,
        producer_epoch=entity.producer_epoch,
        group_id=entity.group_id,
    )


def _end_txn(version: int, entity: Any) -> EndTxn:
    return EndTxn(
        api_version=version,
        transactional_id=TransactionalId(entity.transactional_id),
        producer_id=entity.producer_id,
        producer_epoch=entity.producer_epoch,
        committed=entity.committed,
    )


def _describe_transactions(version: int, entity: Any) -> DescribeTransactions:
    return DescribeTransactions(api_version=version, transactional_ids=tuple(entity.transactional_ids))


def _list_transactions(version: int, entity: Any) -> ListTransactions:
    return ListTransactions(
        api_version=version,
        state_filters=tuple(entity.state_filters),
        producer_id_filters=tuple(entity.producer_id_filters),
        duration_filter_ms=codec.field(entity, "duration_filter", NO_TIMESTAMP),
        transactional_id_pattern=codec.field(entity, "transactional_id_pattern", None),
    )


_WithError = InitProducerIdResponse | AddOffsetsToTxnResponse | EndTxnResponse


def _with_old_error(response: _WithError, version: int, api_key: int) -> _WithError:
    error = _old(response.error_code, version, api_key)
    return response if error is response.error_code else replace(response, error_code=error)


def _old(error: ErrorCode, version: int, api_key: int) -> ErrorCode:
    if error is ErrorCode.producer_fenced and version < _FENCED_FROM[api_key]:
        return ErrorCode.invalid_producer_epoch
    return error


@dataclass(frozen=True, slots=True)
class _OneTransaction:
    """AddPartitionsToTxn below v4."""

    throttle_time: int
    results_by_topic_v3_and_below: tuple[TopicResult, ...]


def _partitions_added(version: int, response: AddPartitionsToTxnResponse) -> codec.Body:
    if version >= BY_BROKERS_FROM:
        return response
    result: TransactionResult = response.results_by_transaction[0]
    topics = tuple(TopicResult(topic.name, _old_results(version, topic)) for topic in result.topic_results)
    return _OneTransaction(response.throttle_time, topics)


def _old_results(version: int, topic: TopicResult) -> tuple[PartitionResult, ...]:
    return tuple(
        PartitionResult(index, _old(error, version, ADD_PARTITIONS_TO_TXN))
        for index, error in topic.results_by_partition
    )


_DECODERS: dict[int, Callable[[int, Any], Request]] = {
    INIT_PRODUCER_ID: _init_producer_id,
    ADD_PARTITIONS_TO_TXN: _add_partitions,
    ADD_OFFSETS_TO_TXN: _add_offsets,
    END_TXN: _end_txn,
    DESCRIBE_TRANSACTIONS: _describe_transactions,
    LIST_TRANSACTIONS: _list_transactions,
}
