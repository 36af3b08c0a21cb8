"""A partition's state of idempotent producers, to write each batch only once.

The rules are those of Kafka's ProducerStateManager and ProducerAppendInfo: for each producer id, the current epoch and
the last five batches (a producer has at most five requests in flight). A batch that matches one of them is a retry and
gets the original result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from muster.actors.log.errors import InvalidProducerEpoch, OutOfOrderSequence
from muster.actors.log.format.batch import MAX_SEQUENCE, NO_PRODUCER, BatchHeader

CACHED_BATCHES = 5


class WrittenBatch(NamedTuple):
    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp_ms: int


class ProducerEntry(NamedTuple):
    epoch: int
    batches: tuple[WrittenBatch, ...]
    """Oldest first, one to five."""


class ProducerStates:
    """Entries are immutable, which lets :meth:`restore` undo :meth:`update`."""

    def __init__(self) -> None:
        self._entries: dict[int, ProducerEntry] = {}

    def entries(self) -> dict[int, ProducerEntry]:
        """A copy of all entries, by producer id."""
        return dict(self._entries)

    def restore_all(self, entries: Mapping[int, ProducerEntry]) -> None:
        """Start with the entries as of some offset."""
        self._entries = dict(entries)

    def entry(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def check(self, header: BatchHeader) -> WrittenBatch | None:
        """None if the batch may be written, or the batch that it repeats.

        InvalidProducerEpoch for an older epoch, OutOfOrderSequence for a gap. An unknown producer may start with any
        sequence: its state may have expired.
        """
        entry = self._entries.get(header.producer_id) if header.producer_id != NO_PRODUCER else None
        if entry is None:
            return None
        if header.producer_epoch < entry.epoch:
            raise InvalidProducerEpoch(
                f"producer {header.producer_id}: epoch {header.producer_epoch} is older than {entry.epoch}"
            )
        if header.producer_epoch > entry.epoch:
            if header.base_sequence != 0:
                raise OutOfOrderSequence(
                    f"producer {header.producer_id}: new epoch {header.producer_epoch} "
                    f"starts with sequence {header.base_sequence}"
                )
            return None
        return self._check_sequence(header, entry)

    @staticmethod
    def _check_sequence(header: BatchHeader, entry: ProducerEntry) -> WrittenBatch | None:
        for batch in entry.batches:
            if batch.base_sequence == header.base_sequence and batch.last_sequence == header.last_sequence:
                return batch
        last = entry.batches[-1].last_sequence
        if header.base_sequence != (last + 1) & MAX_SEQUENCE:
            raise OutOfOrderSequence(
                f"producer {header.producer_id} epoch {entry.epoch}: sequence {header.base_sequence} after {last}"
            )
        return None

    def update(self, header: BatchHeader) -> ProducerEntry | None:
        """Record a batch with its offsets. Returns the entry for :meth:`restore` in case the write fails."""
        before = self._entries.get(header.producer_id)
        if header.producer_id == NO_PRODUCER or header.is_control:
            return before
        batch = WrittenBatch(
            header.base_sequence,
            header.last_sequence,
            header.base_offset,
            header.last_offset,
            header.max_timestamp_ms,
        )
        earlier = before.batches if before is not None and before.epoch == header.producer_epoch else ()
        self._entries[header.producer_id] = ProducerEntry(
            header.producer_epoch, (*earlier[-(CACHED_BATCHES - 1) :], batch)
        )
        return before

    def batch_offsets(self) -> frozenset[int]:
        """Base offsets of the recorded batches."""
        return frozenset(batch.base_offset for entry in self._entries.values() for batch in entry.batches)

    def expire(self, before_ms: int, below_offset: int) -> None:
        """Forget producers whose last batch is older than that and below that offset (producer.id.expiration.ms)."""
        old = [
            producer_id
            for producer_id, entry in self._entries.items()
            if entry.batches[-1].timestamp_ms < before_ms and entry.batches[-1].last_offset < below_offset
        ]
        for producer_id in old:
            del self._entries[producer_id]

    def restore(self, producer_id: int, before: ProducerEntry | None) -> None:
        """Undo one update. Undo several in reverse order."""
        if before is None:
            self._entries.pop(producer_id, None)
        else:
            self._entries[producer_id] = before
