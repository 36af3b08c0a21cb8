"""Holds the first batches of a transaction in a partition until the coordinator has confirmed the transaction.

The batches of one producer for one partition wait in order, and nothing else waits for them: neither the log's writes
nor other producers. There is at most one query per transactional id at a time; partitions that come meanwhile share the
next one.

The errors are those of Kafka's ReplicaManager and AddPartitionsToTxnManager: clients of an old Produce version do not
know CONCURRENT_TRANSACTIONS and TRANSACTION_ABORTABLE, and get NOT_ENOUGH_REPLICAS, which all of them repeat, and
INVALID_TXN_STATE instead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from muster.actors.log.config import LogConfig
from muster.actors.log.errors import InvalidTxnState, NotLeader, NotVerified
from muster.actors.log.format.batch import read_header
from muster.actors.log.format.client_batch import ClientBatch
from muster.actors.log.partition import PartitionLog
from muster.actors.log.producers import EPOCH_BUMPS
from muster.actors.log.produces import Submitted
from muster.actors.log.transactions.guards import VerificationGuard
from muster.actors.wire.internal.verification import TransactionVerifier, VerifyRequest
from muster.actors.wire.kafka.codec import ErrorCode

log = logging.getLogger(__name__)

_REPEAT_LATER = frozenset(
    {
        ErrorCode.network_exception,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)


class Transaction(NamedTuple):
    """Transactional part of a Produce request."""

    transactional_id: str
    transaction_version: int
    """2: the partitions are added to the transaction, not only verified."""
    knows_abortable: bool
    """Whether the producer knows TRANSACTION_ABORTABLE."""

    @property
    def adds(self) -> bool:
        return self.transaction_version >= EPOCH_BUMPS


class _Key(NamedTuple):
    """Batches that wait for the same confirmation."""

    log: PartitionLog
    producer_id: int
    producer_epoch: int
    transactional_id: str
    transaction_version: int


@dataclass(slots=True, eq=False)
class _Held:
    key: _Key
    topic: str
    partition: int
    guard: VerificationGuard
    batches: list[tuple[ClientBatch, Transaction, Submitted]] = field(default_factory=list)


class Verification:
    """For the event loop of one actor."""

    def __init__(self, verifier: TransactionVerifier | None, config: Callable[[], LogConfig]) -> None:
        """Without a verifier, only transactions that need no verification can begin."""
        self._verifier = verifier
        self._config = config
        self._held: dict[_Key, _Held] = {}
        """Where further batches join."""
        self._waiting: set[_Held] = set()
        self._unverified: dict[str, list[_Held]] = {}
        """By transactional id: what the next query is about. Has a key while a query is under way."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def submit(
        self,
        partition_log: PartitionLog,
        topic: str,
        partition: int,
        batch: ClientBatch,
        transaction: Transaction,
        outcome: Submitted,
    ) -> None:
        """Append a batch now, or once its transaction is confirmed; ``outcome`` gets the result. Raises LogError."""
        try:
            outcome.set_result(partition_log.enqueue_batch(batch))
        except InvalidTxnState:
            header = read_header(batch.records)
            if not header.is_transactional:
                raise
            if self._is_closed:
                raise NotLeader("the log actor is closing") from None
            producer = (header.producer_id, header.producer_epoch)
            guard = partition_log.guard_for(*producer, header.base_sequence, transaction.transaction_version)
            assert guard is not None
            if not transaction.adds and not self._config().transaction_partition_verification_enable:
                outcome.set_result(partition_log.enqueue_batch(batch, guard))
                return
            if self._verifier is None:
                partition_log.release(guard)
                raise
            key = _Key(partition_log, *producer, transaction.transactional_id, transaction.transaction_version)
            held = self._held.get(key)
            if held is None or held.guard is not guard:
                held = self._held[key] = _Held(key, topic, partition, guard)
                self._waiting.add(held)
                self._query_about(held)
            held.batches.append((batch, transaction, outcome))

    def close(self) -> None:
        """Give up all batches that wait, and later ones that would: they get NOT_LEADER_OR_FOLLOWER."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        for held in self._waiting:
            for _, _, outcome in held.batches:
                outcome.cancel()
        self._waiting.clear()
        self._held.clear()
        self._unverified.clear()

    def _query_about(self, held: _Held) -> None:
        transactional_id = held.key.transactional_id
        if transactional_id in self._unverified:
            self._unverified[transactional_id].append(held)
            return
        self._unverified[transactional_id] = [held]
        task = asyncio.get_running_loop().create_task(self._query_all(transactional_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _query_all(self, transactional_id: str) -> None:
        """One query after the other, until nothing is left that waits for one."""
        while waiting := self._unverified[transactional_id]:
            first = waiting[0].key[1:]
            same = [held for held in waiting if held.key[1:] == first]
            self._unverified[transactional_id] = [held for held in waiting if held.key[1:] != first]
            try:
                assert self._verifier is not None
                errors = await self._query(self._verifier, same)
            except Exception:
                log.exception("%s cannot be verified", transactional_id)
                errors = [ErrorCode.unknown_server_error] * len(same)
            for held, error in zip(same, errors, strict=True):
                self._settle(held, error)
        del self._unverified[transactional_id]

    async def _query(self, verifier: TransactionVerifier, held: Sequence[_Held]) -> list[ErrorCode]:
        """Return the coordinator's response about each of them.

        A partition can be added only once the transaction before has ended, which a fast producer does not wait for:
        for a short time, that is tried again.
        """
        key, loop, config = held[0].key, asyncio.get_running_loop(), self._config()
        until_s = loop.time() + config.add_partitions_to_txn_retry_backoff_max_ms / 1000
        adds = key.transaction_version >= EPOCH_BUMPS
        partitions = [(each.topic, each.partition) for each in held]
        producer = (key.transactional_id, key.producer_id, key.producer_epoch)
        while True:
            request = VerifyRequest(*producer, partitions, adds, key.transaction_version)
            errors = await verifier.verify(request)
            if not adds or ErrorCode.concurrent_transactions not in errors or loop.time() >= until_s:
                return errors
            await asyncio.sleep(config.add_partitions_to_txn_retry_backoff_ms / 1000)

    def _settle(self, held: _Held, error: ErrorCode) -> None:
        """Append what waited, or refuse it."""
        self._waiting.discard(held)
        if self._held.get(held.key) is held:
            del self._held[held.key]
        if error is not ErrorCode.none:
            held.key.log.release(held.guard)
        for batch, transaction, outcome in held.batches:
            try:
                if error is not ErrorCode.none:
                    raise refusal(error, transaction)
                outcome.set_result(held.key.log.enqueue_batch(batch, _guard_of(held)))
            except Exception as refused:  # whatever it is, the others still get their outcome
                outcome.set_exception(refused)
                outcome.exception()  # the one who waits may be gone


def _guard_of(held: _Held) -> VerificationGuard | None:
    """Return the guard for confirmed batches. Raises LogError.

    The marker of the transaction before takes their guard away if it arrives while the coordinator is queried. If the
    query adds the partition, they get another one: nothing is added before that marker is written, and the marker of
    their own transaction has a newer epoch, which refuses them.
    """
    key, guard = held.key, held.guard
    if key.transaction_version < EPOCH_BUMPS:
        return guard
    return key.log.guard_for(key.producer_id, key.producer_epoch, guard.lowest_sequence, key.transaction_version)


def refusal(error: ErrorCode, transaction: Transaction) -> NotVerified:
    """Return the producer's error for the coordinator's error."""
    text = f"transactional id {transaction.transactional_id!r} is not confirmed: {error.name}"
    if error in _REPEAT_LATER or (error is ErrorCode.concurrent_transactions and not transaction.adds):
        return NotVerified(ErrorCode.not_enough_replicas, text)
    if error is ErrorCode.producer_fenced:
        return NotVerified(ErrorCode.invalid_producer_epoch, text)
    if error is ErrorCode.cluster_authorization_failed:
        return NotVerified(ErrorCode.invalid_txn_state, text)
    if error is ErrorCode.transaction_abortable and not transaction.knows_abortable:
        return NotVerified(ErrorCode.invalid_txn_state, text)
    return NotVerified(error, text)
