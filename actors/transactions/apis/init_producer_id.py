"""InitProducerId (22): a producer takes over a transactional id, and fences who had it before.

v3 producer id and epoch of a producer that wants a higher epoch (KIP-360) | v4 may answer PRODUCER_FENCED
"""

from __future__ import annotations

from dataclasses import replace

from kio.schema.errors import ErrorCode

from muster.actors.group.errors import ApiError
from muster.actors.group.types import Token
from muster.actors.transactions.ends import fence
from muster.actors.transactions.events import FenceCause
from muster.actors.transactions.messages import InitProducerId, InitProducerIdResponse, failed
from muster.actors.transactions.shard import Shard
from muster.actors.transactions.state import (
    EXHAUSTED_EPOCH,
    PREPARED,
    Entry,
    TransactionMetadata,
    TransactionState,
)
from muster.actors.transactions.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, TransactionalId


def init_producer_id(shard: Shard, request: InitProducerId, token: Token) -> None:
    transactional_id = request.transactional_id
    if transactional_id is None:
        shard.reply(token, InitProducerIdResponse(producer_id=shard.new_producer_id(), producer_epoch=0))
        return
    entry = shard.hard.entries.get(transactional_id)
    if entry is None or entry.metadata.producer_epoch == NO_PRODUCER_EPOCH:
        _take_over(shard, transactional_id, request, token, Entry(_first(shard)))
        return
    if entry.metadata.state in PREPARED:
        raise ApiError(ErrorCode.concurrent_transactions)
    successor = _successor(shard, request, entry)
    if entry.metadata.state is TransactionState.ONGOING:
        fence(shard, transactional_id, FenceCause.INITIATED)
        refused = failed(request, ErrorCode.concurrent_transactions)
        shard.reply_of(transactional_id, token, request, refused)
        return
    _take_over(shard, transactional_id, request, token, successor)


def _take_over(
    shard: Shard, transactional_id: TransactionalId, request: InitProducerId, token: Token, successor: Entry
) -> None:
    metadata = replace(
        successor.metadata,
        state=TransactionState.EMPTY,
        timeout_ms=request.transaction_timeout_ms,
        partitions=frozenset(),
        last_update_ms=shard.now_ms,
        start_ms=NO_TIMESTAMP,
    )
    shard.write(transactional_id, metadata, successor.last_epoch)
    given = InitProducerIdResponse(producer_id=metadata.producer_id, producer_epoch=metadata.producer_epoch)
    shard.reply_of(transactional_id, token, request, given)


def _first(shard: Shard) -> TransactionMetadata:
    """Return a new entry, also for a producer that names an id and epoch: its transactional id has expired."""
    return TransactionMetadata(
        producer_id=shard.new_producer_id(),
        producer_epoch=0,
        timeout_ms=0,
        state=TransactionState.EMPTY,
        last_update_ms=shard.now_ms,
    )


def _successor(shard: Shard, request: InitProducerId, entry: Entry) -> Entry:
    """Return the entry with the producer id and epoch that the request leads to, if no transaction is Ongoing.

    PRODUCER_FENCED if the request names others than the present ones, or those before a change whose response it may
    not have got.
    """
    metadata, last_epoch = entry
    if request.producer_id == NO_PRODUCER_ID:
        return _bumped(shard, metadata, NO_PRODUCER_EPOCH)
    if (request.producer_id, request.producer_epoch) == (metadata.producer_id, metadata.producer_epoch):
        return _bumped(shard, metadata, metadata.producer_epoch)
    if last_epoch != NO_PRODUCER_EPOCH and request.producer_epoch == last_epoch:
        rotated = request.producer_id == metadata.previous_producer_id and last_epoch >= EXHAUSTED_EPOCH
        if rotated or request.producer_id == metadata.producer_id:
            return entry
    raise ApiError(ErrorCode.producer_fenced)


def _bumped(shard: Shard, metadata: TransactionMetadata, last_epoch: int) -> Entry:
    if metadata.state is TransactionState.ONGOING:
        return Entry(metadata)  # it is fenced, which has its own rules
    if not metadata.is_exhausted:
        return Entry(replace(metadata, producer_epoch=metadata.producer_epoch + 1), last_epoch)
    rotated = replace(
        metadata,
        producer_id=shard.new_producer_id(),
        producer_epoch=0,
        previous_producer_id=metadata.producer_id,
    )
    return Entry(rotated, last_epoch)
