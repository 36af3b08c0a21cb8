"""DescribeTransactions (65) and ListTransactions (66).

ListTransactions v1 filter by duration (KIP-994) | v2 filter by pattern of transactional ids (KIP-1152)
"""

from __future__ import annotations

from collections.abc import Callable

import re2
from kio.schema.errors import ErrorCode

from muster.actors.group.errors import ApiError
from muster.actors.group.types import Token
from muster.actors.transactions.messages import (
    DescribedTopic,
    DescribedTransaction,
    DescribeTransactions,
    DescribeTransactionsResponse,
    ListedTransaction,
    ListTransactions,
    ListTransactionsResponse,
    by_topic,
)
from muster.actors.transactions.shard import Shard
from muster.actors.transactions.state import TransactionMetadata, TransactionState
from muster.actors.transactions.types import NO_TIMESTAMP, TransactionalId

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_DEAD = "Dead"
_ONLY_IN_KAFKAS_MEMORY = "PrepareEpochFence"
_STATES = {state.title for state in TransactionState} | {_DEAD, _ONLY_IN_KAFKAS_MEMORY}
"""Names that ListTransactions knows; no id is ever in the last two."""


def describe_transactions(shard: Shard, request: DescribeTransactions, token: Token) -> None:
    states = tuple(_describe(shard, each) for each in request.transactional_ids)
    shard.reply_of_all(token, request, DescribeTransactionsResponse(transaction_states=states))


def list_transactions(shard: Shard, request: ListTransactions, token: Token) -> None:
    """Transactional ids of this partition that match all filters; an empty filter matches all."""
    matches = _filter(request, shard.now_ms)
    found = tuple(
        ListedTransaction(
            transactional_id=transactional_id,
            producer_id=entry.metadata.producer_id,
            transaction_state=entry.metadata.state.title,
        )
        for transactional_id, entry in shard.hard.entries.items()
        if matches(transactional_id, entry.metadata)
    )
    response = ListTransactionsResponse(unknown_state_filters=unknown_states(request), transaction_states=found)
    shard.reply_of_all(token, request, response)


def unknown_states(request: ListTransactions) -> tuple[str, ...]:
    """Names in the filter that are of no state."""
    return tuple(name for name in dict.fromkeys(request.state_filters) if name not in _STATES)


def pattern_of(request: ListTransactions) -> re2._Regexp:
    """Return the pattern for whole transactional ids, in RE2's syntax like Kafka: no pattern takes long.

    Raises ApiError with INVALID_REGULAR_EXPRESSION.
    """
    try:
        return re2.compile(request.transactional_id_pattern or "(?s:.*)", _OPTIONS)
    except re2.error as error:
        raise ApiError(ErrorCode.invalid_regular_expression) from error


def _filter(request: ListTransactions, now_ms: int) -> Callable[[TransactionalId, TransactionMetadata], bool]:
    pattern = pattern_of(request)
    states, producer_ids = set(request.state_filters), set(request.producer_id_filters)

    def matches(transactional_id: TransactionalId, metadata: TransactionMetadata) -> bool:
        return (
            (not states or metadata.state.title in states)
            and (not producer_ids or metadata.producer_id in producer_ids)
            and (request.duration_filter_ms < 0 or _has_lasted(metadata, request.duration_filter_ms, now_ms))
            and pattern.fullmatch(transactional_id) is not None
        )

    return matches


def _has_lasted(metadata: TransactionMetadata, duration_ms: int, now_ms: int) -> bool:
    return metadata.start_ms != NO_TIMESTAMP and now_ms - metadata.start_ms > duration_ms


def _describe(shard: Shard, transactional_id: TransactionalId) -> DescribedTransaction:
    if not transactional_id:
        return DescribedTransaction(transactional_id=transactional_id, error_code=ErrorCode.invalid_request)
    entry = shard.hard.entries.get(transactional_id)
    if entry is None:
        return DescribedTransaction(transactional_id=transactional_id, error_code=ErrorCode.transactional_id_not_found)
    metadata, sending = entry.metadata, shard.sendings.get(transactional_id)
    partitions = metadata.partitions if sending is None or sending.completing else sending.remaining
    return DescribedTransaction(
        transactional_id=transactional_id,
        transaction_state=metadata.state.title,
        transaction_timeout=metadata.timeout_ms,
        transaction_start_time=metadata.start_ms,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        topics=tuple(DescribedTopic(topic, tuple(indexes)) for topic, indexes in by_topic(sorted(partitions)).items()),
    )
