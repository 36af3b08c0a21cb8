"""A partition's state of producers: to write each batch only once, and to know the open transactions.

The rules are those of Kafka's ProducerStateManager and ProducerAppendInfo: for each producer id, the current epoch, the
last five batches (a producer has at most five requests in flight), and where its open transaction began. A batch that
matches one of them is a retry and gets the original result.

The last stable offset is where the first transaction begins that is open, or whose end is not durable yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from muster.actors.log.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from muster.actors.log.format.batch import MAX_SEQUENCE, NO_PRODUCER, NO_SEQUENCE, BatchHeader
from muster.actors.log.format.control import EndOfTransaction
from muster.actors.log.transactions.aborted import AbortedTransaction
from muster.actors.log.transactions.guards import VerificationGuard, VerificationGuards

CACHED_BATCHES = 5
NO_EPOCH = -1
NO_OFFSET = -1
EPOCH_BUMPS = 2
"""The transaction version from which on each transaction has its own epoch (KIP-890)."""


class WrittenBatch(NamedTuple):
    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp_ms: int


class ProducerEntry(NamedTuple):
    epoch: int
    batches: tuple[WrittenBatch, ...]
    """Oldest first, up to five, all of this epoch. Without those that have no sequence."""
    last_offset: int
    """Last offset of its last batch, whichever kind."""
    last_ms: int
    """Timestamp of that batch."""
    coordinator_epoch: int = NO_EPOCH
    """Coordinator epoch of the last marker; NO_EPOCH before the first."""
    first_offset: int = NO_OFFSET
    """First offset of its open transaction; NO_OFFSET without one."""

    @property
    def is_open(self) -> bool:
        return self.first_offset != NO_OFFSET

    @property
    def last_sequence(self) -> int:
        """NO_SEQUENCE if it has written nothing in this epoch."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class ProducerStates:
    """Entries are immutable, which lets :meth:`restore` undo :meth:`update`."""

    def __init__(self) -> None:
        self._entries: dict[int, ProducerEntry] = {}
        self._unstable: dict[int, bool] = {}
        """By first offset, ascending: transactions that are open (True), or whose end is not durable yet (False)."""
        self.guards = VerificationGuards()

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the first transaction begins whose end is not durable; None without any."""
        return next(iter(self._unstable), None)

    def entries(self) -> dict[int, ProducerEntry]:
        """Return a copy of all entries, by producer id."""
        return dict(self._entries)

    def restore_all(self, entries: Mapping[int, ProducerEntry]) -> None:
        """Start with the entries as of some offset, at which everything is durable."""
        self._entries = dict(entries)
        self._unstable = dict.fromkeys(sorted(entry.first_offset for entry in entries.values() if entry.is_open), True)

    def entry(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def in_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether a transaction of that producer and epoch is open."""
        entry = self._entries.get(producer_id)
        return entry is not None and entry.is_open and entry.epoch == producer_epoch

    def repeated(self, header: BatchHeader) -> WrittenBatch | None:
        """Return the batch that this one repeats."""
        entry = self._entries.get(header.producer_id) if header.producer_id != NO_PRODUCER else None
        if entry is not None and entry.epoch == header.producer_epoch:
            for batch in entry.batches:
                if batch.base_sequence == header.base_sequence and batch.last_sequence == header.last_sequence:
                    return batch
        return None

    def check_epoch(self, producer_id: int, producer_epoch: int) -> None:
        """Raise InvalidProducerEpoch if a newer epoch has written."""
        entry = self._entries.get(producer_id)
        if entry is not None and producer_epoch < entry.epoch:
            raise InvalidProducerEpoch(f"producer {producer_id}: epoch {producer_epoch} is older than {entry.epoch}")

    def check(self, header: BatchHeader, guard: VerificationGuard | None = None) -> WrittenBatch | None:
        """None if the batch may be written, or the batch that it repeats.

        Raises InvalidTxnState for a transactional batch without an open transaction or the current guard, and for any
        other batch within one; InvalidProducerEpoch for an older epoch; OutOfOrderSequence for a gap. An unknown
        producer may start with any sequence: its state may have expired.
        """
        if header.producer_id == NO_PRODUCER:
            return None
        repeated = self.repeated(header)
        if repeated is not None:
            return repeated
        if header.is_transactional and not self.in_transaction(header.producer_id, header.producer_epoch):
            if guard is None or not self.guards.holds(guard, header.producer_id, header.producer_epoch):
                raise InvalidTxnState(f"producer {header.producer_id}: a transactional batch outside of a transaction")
            guard.check_sequence(header.base_sequence)
        entry = self._entries.get(header.producer_id)
        if entry is None:
            if guard is not None and guard.transaction_version >= EPOCH_BUMPS:
                _check_sequence(header, NO_SEQUENCE, "nothing")
            return None
        self.check_epoch(header.producer_id, header.producer_epoch)
        if header.producer_epoch > entry.epoch:
            _check_sequence(header, NO_SEQUENCE, f"epoch {entry.epoch}")
        else:
            _check_sequence(header, entry.last_sequence, f"{entry.last_sequence}")
        if entry.is_open and not header.is_transactional:
            raise InvalidTxnState(f"producer {header.producer_id}: a batch outside of its open transaction")
        return None

    def check_end(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> None:
        """Check a marker. Raises InvalidProducerEpoch or TransactionCoordinatorFenced."""
        entry = self._entries.get(producer_id)
        if entry is None:
            return
        self.check_epoch(producer_id, producer_epoch)
        if transaction_version >= EPOCH_BUMPS and producer_epoch == entry.epoch and entry.is_open:
            raise InvalidProducerEpoch(
                f"producer {producer_id}: a marker with epoch {producer_epoch}, that of the open transaction"
            )
        if coordinator_epoch < entry.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"producer {producer_id}: coordinator epoch {coordinator_epoch} is older than {entry.coordinator_epoch}"
            )

    def is_coordinator_newer(self, producer_id: int, producer_epoch: int, coordinator_epoch: int) -> bool:
        """Whether a marker of that coordinator would end nothing, and fence an older one."""
        entry = self._entries.get(producer_id)
        if entry is None or entry.is_open or entry.epoch != producer_epoch:
            return False
        return coordinator_epoch > entry.coordinator_epoch

    def update(self, header: BatchHeader, end: EndOfTransaction | None = None) -> ProducerEntry | None:
        """Record a batch with its offsets. Returns the entry for :meth:`restore` in case the write fails.

        ``end``: what a control batch says. Once that is durable, call :meth:`ended`.
        """
        before = self._entries.get(header.producer_id)
        if header.producer_id == NO_PRODUCER:
            return before
        earlier = before.batches if before is not None and before.epoch == header.producer_epoch else ()
        coordinator_epoch = before.coordinator_epoch if before is not None else NO_EPOCH
        first_offset = before.first_offset if before is not None else NO_OFFSET
        if header.is_control:
            if end is not None:
                coordinator_epoch = end.coordinator_epoch
                if first_offset != NO_OFFSET:
                    self._unstable[first_offset] = False
                    first_offset = NO_OFFSET
        else:
            if header.base_sequence != NO_SEQUENCE:
                earlier = (*earlier[-(CACHED_BATCHES - 1) :], _written(header))
            # A batch without records was cleaned, so its transaction has ended, and the marker may be gone.
            if header.is_transactional and header.record_count and first_offset == NO_OFFSET:
                first_offset = header.base_offset
                self._unstable[first_offset] = True
        if header.is_transactional:
            self.guards.drop(header.producer_id)
        self._entries[header.producer_id] = ProducerEntry(
            header.producer_epoch,
            earlier,
            header.last_offset,
            header.max_timestamp_ms,
            coordinator_epoch,
            first_offset,
        )
        return before

    def aborted(self, header: BatchHeader, before: ProducerEntry | None) -> AbortedTransaction | None:
        """Return the entry for the index of aborted transactions after an ABORT; None if nothing was open."""
        if before is None or not before.is_open:
            return None
        stable = next((offset for offset, is_open in self._unstable.items() if is_open), header.next_offset)
        return AbortedTransaction(header.producer_id, before.first_offset, header.last_offset, stable)

    def ended(self, before: ProducerEntry | None) -> None:
        """Note that the control batch which ended this entry's transaction is durable."""
        if before is not None and before.is_open:
            self._unstable.pop(before.first_offset, None)

    def replay(self, header: BatchHeader, end: EndOfTransaction | None) -> AbortedTransaction | None:
        """:meth:`update` with a batch that is durable. Returns the transaction that it aborts."""
        before = self.update(header, end)
        if end is None:
            return None
        aborted = None if end.commit else self.aborted(header, before)
        self.ended(before)
        return aborted

    def batch_offsets(self) -> frozenset[int]:
        """Return the base offsets of batches that the cleaner must leave: recorded ones, and each producer's last."""
        recorded = {batch.base_offset for entry in self._entries.values() for batch in entry.batches}
        return frozenset(recorded.union(entry.last_offset for entry in self._entries.values()))

    def expire(self, before_ms: int, below_offset: int) -> None:
        """Forget producers whose last batch is older than that and below that offset (producer.id.expiration.ms).

        None of a producer whose transaction is open.
        """
        old = [
            producer_id
            for producer_id, entry in self._entries.items()
            if entry.last_ms < before_ms and entry.last_offset < below_offset and not entry.is_open
        ]
        for producer_id in old:
            del self._entries[producer_id]
            self.guards.drop(producer_id)

    def restore(self, producer_id: int, before: ProducerEntry | None) -> None:
        """Undo one update. Undo several in reverse order, then call :meth:`restored`."""
        if before is None:
            self._entries.pop(producer_id, None)
        else:
            self._entries[producer_id] = before

    def restored(self) -> None:
        """All updates that are not durable have been undone."""
        self.restore_all(self._entries)


def _written(header: BatchHeader) -> WrittenBatch:
    return WrittenBatch(
        header.base_sequence,
        header.last_sequence,
        header.base_offset,
        header.last_offset,
        header.max_timestamp_ms,
    )


def _check_sequence(header: BatchHeader, last_sequence: int, after: str) -> None:
    """Raise OutOfOrderSequence unless the batch follows that sequence, or has none."""
    if header.base_sequence not in (NO_SEQUENCE, (last_sequence + 1) & MAX_SEQUENCE):
        producer = f"producer {header.producer_id} epoch {header.producer_epoch}"
        raise OutOfOrderSequence(f"{producer}: sequence {header.base_sequence} after {after}")
