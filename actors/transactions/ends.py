"""The decision of a transaction: at its producer's request, or by the coordinator."""

from __future__ import annotations

from dataclasses import replace

from muster.actors.transactions import markers
from muster.actors.transactions.events import FenceCause, TransactionFenced
from muster.actors.transactions.shard import Shard
from muster.actors.transactions.state import (
    EPOCH_BUMP_VERSION,
    MAX_EPOCH,
    Entry,
    TransactionMetadata,
    TransactionState,
)
from muster.actors.transactions.types import NO_PRODUCER_ID, NO_TIMESTAMP, TransactionalId


def prepare(shard: Shard, entry: Entry, *, commit: bool, bumps_epoch: bool) -> Entry:
    """Return the entry with its outcome decided. With ``bumps_epoch`` the markers carry the next epoch.

    COORDINATOR_LOAD_IN_PROGRESS if that needs a producer id and there is none.
    """
    before = entry.metadata
    prepared = replace(
        before,
        state=TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
        last_update_ms=shard.now_ms,
        start_ms=before.start_ms if before.state is TransactionState.ONGOING else shard.now_ms,
        client_transaction_version=EPOCH_BUMP_VERSION if bumps_epoch else 0,
    )
    if not bumps_epoch:
        return Entry(prepared, entry.last_epoch)
    next_producer_id = shard.new_producer_id() if before.is_exhausted else NO_PRODUCER_ID
    bumped = replace(prepared, producer_epoch=before.producer_epoch + 1, next_producer_id=next_producer_id)
    return Entry(bumped, last_epoch=before.producer_epoch)


def fence(shard: Shard, transactional_id: TransactionalId, cause: FenceCause) -> None:
    """Abort an Ongoing transaction with an epoch that its producer does not have.

    With the newest protocol that is as if the producer had aborted it: a producer that repeats its own abort, or names
    itself to InitProducerId, may continue. Before, only a plain InitProducerId gets an epoch again.
    COORDINATOR_LOAD_IN_PROGRESS if that needs a producer id and there is none.
    """
    entry = shard.hard.entries[transactional_id]
    epoch, version = entry.metadata.producer_epoch, shard.config.transaction_version
    if version >= EPOCH_BUMP_VERSION and epoch < MAX_EPOCH:
        after = prepare(shard, entry, commit=False, bumps_epoch=True)
    else:  # a marker of the newest protocol without a higher epoch would be refused
        prepared = prepare(shard, entry, commit=False, bumps_epoch=False)
        older = min(version, EPOCH_BUMP_VERSION - 1)
        bumped = min(epoch + 1, MAX_EPOCH)
        after = Entry(replace(prepared.metadata, producer_epoch=bumped, client_transaction_version=older))
    shard.write(transactional_id, *after)
    markers.decided(shard, transactional_id)
    shard.report(
        TransactionFenced(
            transactional_id=transactional_id,
            producer_id=after.metadata.producer_id,
            producer_epoch=after.metadata.producer_epoch,
            cause=cause,
        )
    )


def has_timed_out(metadata: TransactionMetadata, now_ms: int) -> bool:
    """Whether an Ongoing transaction has lasted longer than its timeout."""
    return metadata.start_ms != NO_TIMESTAMP and metadata.start_ms + metadata.timeout_ms < now_ms
