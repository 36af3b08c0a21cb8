"""Completion of a decided transaction: its markers, and the record that completes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from kio.schema.errors import ErrorCode

from muster.actors.transactions.events import (
    CoordinatorFenced,
    MarkerFailed,
    TransactionCompleted,
    TransactionDecided,
)
from muster.actors.transactions.shard import Sending, Shard, TimerKind, TimerName
from muster.actors.transactions.state import TransactionMetadata, TransactionState
from muster.actors.transactions.types import (
    NO_PRODUCER_ID,
    TOPIC_DELETED,
    MarkerRequest,
    TopicPartition,
    TransactionalId,
)

_DONE = frozenset(
    {
        ErrorCode.none,
        TOPIC_DELETED,
        ErrorCode.unsupported_for_message_format,
        ErrorCode.unsupported_version,
        ErrorCode.invalid_producer_epoch,
    }
)
"""Nothing of the transaction is open in the partition. INVALID_PRODUCER_EPOCH: it knows a later epoch, which begins
only when the transaction has ended. The two before: it could not take any of its batches."""


def decided(shard: Shard, transactional_id: TransactionalId) -> None:
    """Send markers once the record that decides, written by this step, is durable."""
    shard.follow(lambda offset: _begin(shard, transactional_id, offset))


def resume(shard: Shard, transactional_id: TransactionalId, decision: int) -> None:
    """Send the markers of a transaction that was decided before this coordinator was loaded."""
    metadata = shard.hard.entries[transactional_id].metadata
    sending = shard.sendings[transactional_id] = Sending(decision, set(metadata.partitions))
    if sending.remaining:
        _send(shard, transactional_id, sending.remaining)
    else:
        _complete(shard, transactional_id)


def marked(
    shard: Shard, transactional_id: TransactionalId, decision: int, results: Mapping[TopicPartition, ErrorCode]
) -> None:
    """Handle results of markers. Those of an earlier transaction, and of partitions that are done, are ignored."""
    sending = shard.sendings.get(transactional_id)
    if sending is None or sending.decision != decision:
        return
    for partition, error in results.items():
        if partition in sending.remaining:
            _take(shard, transactional_id, sending, partition, error)
    if sending.stopped or sending.completing:
        return
    if not sending.remaining:
        _complete(shard, transactional_id)
    elif sending.repeat:
        timer = TimerName(TimerKind.REPEAT, transactional_id)
        if shard.timers.get(timer) is None:
            shard.timers.set(timer, shard.now_ms + shard.config.transaction_marker_retry_backoff_ms)


def on_repeat(shard: Shard, transactional_id: TransactionalId) -> None:
    """Send again what could not be written: markers, or the last record."""
    sending = shard.sendings.get(transactional_id)
    if sending is None or sending.stopped or sending.completing:
        return
    if not sending.remaining:
        _complete(shard, transactional_id)
        return
    _send(shard, transactional_id, sending.repeat)
    sending.repeat = set()


def on_respond(shard: Shard, transactional_id: TransactionalId) -> None:
    """Respond to EndTxn without waiting any longer."""
    sending = shard.sendings.get(transactional_id)
    if sending is not None and sending.held is not None:
        shard.reply(sending.held.token, sending.held.response)
        sending.held = None


def _begin(shard: Shard, transactional_id: TransactionalId, offset: int) -> None:
    metadata = shard.hard.entries[transactional_id].metadata
    shard.report(
        TransactionDecided(
            transactional_id=transactional_id,
            commit=metadata.state is TransactionState.PREPARE_COMMIT,
            partitions=len(metadata.partitions),
        )
    )
    resume(shard, transactional_id, offset)


def _send(shard: Shard, transactional_id: TransactionalId, partitions: Iterable[TopicPartition]) -> None:
    metadata = shard.hard.entries[transactional_id].metadata
    shard.send_markers(
        MarkerRequest(
            transactional_id=transactional_id,
            decision=shard.sendings[transactional_id].decision,
            producer_id=metadata.producer_id,
            producer_epoch=metadata.producer_epoch,
            commit=metadata.state is TransactionState.PREPARE_COMMIT,
            transaction_version=metadata.client_transaction_version,
            partitions=tuple(sorted(partitions)),
        )
    )


def _take(
    shard: Shard, transactional_id: TransactionalId, sending: Sending, partition: TopicPartition, error: ErrorCode
) -> None:
    if error is ErrorCode.transaction_coordinator_fenced:
        sending.stopped = True
        shard.report(CoordinatorFenced(transactional_id=transactional_id, partition=partition))
        return
    done = error in _DONE
    if done:
        sending.remaining.discard(partition)
        sending.repeat.discard(partition)
    else:
        sending.repeat.add(partition)
    if error is not ErrorCode.none:
        failed = MarkerFailed(transactional_id=transactional_id, partition=partition, error=error, repeated=not done)
        shard.report(failed)


def _complete(shard: Shard, transactional_id: TransactionalId) -> None:
    """Write the last record. If that fails and the coordinator still serves, it is written again."""
    sending = shard.sendings[transactional_id]
    sending.completing = True
    before, last_epoch = shard.hard.entries[transactional_id]
    shard.write(transactional_id, _completed(before, shard.now_ms), last_epoch)
    shard.follow(*_ends(shard, transactional_id, sending, before))
    on_respond(shard, transactional_id)


def _ends(
    shard: Shard, transactional_id: TransactionalId, sending: Sending, metadata: TransactionMetadata
) -> tuple[Callable[[int], None], Callable[[], None]]:
    def written(_: int) -> None:
        del shard.sendings[transactional_id]
        shard.report(
            TransactionCompleted(
                transactional_id=transactional_id,
                commit=metadata.state is TransactionState.PREPARE_COMMIT,
                duration_ms=shard.now_ms - metadata.start_ms,
            )
        )

    def failed() -> None:
        sending.completing = False
        wait_ms = shard.config.transaction_marker_retry_backoff_ms
        shard.timers.set(TimerName(TimerKind.REPEAT, transactional_id), shard.now_ms + wait_ms)

    return written, failed


def _completed(metadata: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    commit = metadata.state is TransactionState.PREPARE_COMMIT
    after = replace(
        metadata,
        state=TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT,
        partitions=frozenset(),
        last_update_ms=now_ms,
    )
    if metadata.next_producer_id == NO_PRODUCER_ID:
        return after
    return replace(
        after,
        producer_id=metadata.next_producer_id,
        producer_epoch=0,
        previous_producer_id=metadata.producer_id,
        next_producer_id=NO_PRODUCER_ID,
    )
