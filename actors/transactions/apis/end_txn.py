"""EndTxn (26): the producer's decision.

v5 every end raises the epoch, and the response has the producer id and epoch to use from then on (KIP-890)
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from muster.actors.group.errors import ApiError
from muster.actors.group.types import Token
from muster.actors.transactions import markers
from muster.actors.transactions.apis.partitions import check_producer
from muster.actors.transactions.ends import prepare
from muster.actors.transactions.messages import EndTxn, EndTxnResponse
from muster.actors.transactions.shard import Shard
from muster.actors.transactions.state import EXHAUSTED_EPOCH, PREPARED, TransactionMetadata, TransactionState
from muster.actors.transactions.types import NO_PRODUCER_ID

_BUMPS_EPOCH_FROM = 5
_COMPLETE = {True: TransactionState.COMPLETE_COMMIT, False: TransactionState.COMPLETE_ABORT}
"""The state after a commit, and after an abort."""


def end_txn(shard: Shard, request: EndTxn, token: Token) -> None:
    entry = shard.entry(request.transactional_id)
    if entry.metadata.state in PREPARED:
        raise ApiError(ErrorCode.concurrent_transactions)
    bumps_epoch = request.api_version >= _BUMPS_EPOCH_FROM
    is_new = _is_new_by_epoch(entry.metadata, request) if bumps_epoch else _is_new(entry.metadata, request)
    if not is_new:
        response = _response(entry.metadata)
        shard.reply_of(request.transactional_id, token, request, response)
        return
    prepared = prepare(shard, entry, commit=request.committed, bumps_epoch=bumps_epoch)
    shard.write(request.transactional_id, prepared.metadata, prepared.last_epoch)
    markers.decided(shard, request.transactional_id)
    shard.reply_after_markers(request.transactional_id, token, request, _response(prepared.metadata))


def _is_new(metadata: TransactionMetadata, request: EndTxn) -> bool:
    """Whether the request ends a transaction; else it repeats one that did. INVALID_TXN_STATE if it does neither."""
    check_producer(metadata, request)
    if metadata.state is TransactionState.ONGOING:
        return True
    if metadata.state is _COMPLETE[request.committed]:
        return False
    raise ApiError(ErrorCode.invalid_txn_state)


def _is_new_by_epoch(metadata: TransactionMetadata, request: EndTxn) -> bool:
    """Return :func:`_is_new` for the newest protocol: a repeated request has the epoch before.

    An abort may end nothing, because the producer does not know whether a batch that failed has begun a transaction.
    """
    is_complete = metadata.state in _COMPLETE.values()
    if is_complete and _is_repeated(metadata, request):
        if metadata.state is _COMPLETE[request.committed]:
            return False
        raise ApiError(ErrorCode.invalid_txn_state)
    check_producer(metadata, request)
    if request.committed and metadata.state is not TransactionState.ONGOING:
        raise ApiError(ErrorCode.invalid_txn_state)
    return True


def _is_repeated(metadata: TransactionMetadata, request: EndTxn) -> bool:
    if request.producer_id == metadata.producer_id:
        return metadata.bumps_epoch and request.producer_epoch + 1 == metadata.producer_epoch
    return (
        request.producer_id == metadata.previous_producer_id
        and request.producer_epoch == EXHAUSTED_EPOCH
        and metadata.producer_epoch == 0
    )


def _response(metadata: TransactionMetadata) -> EndTxnResponse:
    """With the producer id and epoch that are valid when the transaction is complete."""
    if metadata.next_producer_id != NO_PRODUCER_ID:
        return EndTxnResponse(producer_id=metadata.next_producer_id, producer_epoch=0)
    return EndTxnResponse(producer_id=metadata.producer_id, producer_epoch=metadata.producer_epoch)
