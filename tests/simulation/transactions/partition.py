"""A partition that takes batches and markers: the checks of its owner, as Kafka has them (KIP-98, KIP-890)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from muster.actors.wire.verifying import VerifyRequest

E = ErrorCode
Respond = Callable[[ErrorCode], None]
Verify = Callable[[VerifyRequest, Respond], None]
Tag = tuple[str, int]
"""A transaction: its producer, and the number among the producer's transactions."""


class Batch(NamedTuple):
    transactional_id: str
    producer_id: int
    epoch: int
    sequence: int
    tag: Tag
    is_newest: bool
    """Whether the batch itself adds the partition to the transaction."""


class Marker(NamedTuple):
    producer_id: int
    epoch: int
    coordinator_epoch: int
    commit: bool
    version: int
    decision: int


@dataclass(slots=True)
class ProducerState:
    epoch: int
    coordinator_epoch: int = -1
    sequence: int | None = None
    """The last one; None after a marker with a higher epoch."""
    open_tags: list[Tag] = field(default_factory=list)
    """Batches of the open transaction."""
    is_open: bool = False


class Partition:
    """``committed`` and ``aborted`` have what readers see, in order of the markers."""

    def __init__(self, place: tuple[str, int], verify: Verify) -> None:
        self.place = place
        self.up = True
        self.incarnation = 1
        self.committed: list[Tag] = []
        self.aborted: list[Tag] = []
        self.producers: dict[int, ProducerState] = {}
        self._verify = verify
        self._guards: dict[int, object] = {}
        self._executed: dict[int, int] = {}
        """The highest decision of each producer, in memory only."""

    def restart(self) -> None:
        """The owner ends, and another one reads the log."""
        self.up = False
        self.incarnation += 1
        self._guards.clear()
        self._executed.clear()

    def produce(self, batch: Batch, respond: Respond) -> None:
        error = self._check(batch)
        if error is not None:
            respond(error)
        elif self._is_open(batch):
            respond(self._append(batch))
        else:
            self._verify_first(batch, respond)

    def _check(self, batch: Batch) -> ErrorCode | None:
        """None: the batch may be appended, if its transaction is open."""
        if not self.up:
            return E.not_leader_or_follower
        known = self.producers.get(batch.producer_id)
        if known is None:
            return None
        if (known.epoch, known.sequence) == (batch.epoch, batch.sequence):
            return E.none
        if batch.epoch < known.epoch:
            return E.invalid_producer_epoch
        expected = 0 if batch.epoch > known.epoch or known.sequence is None else known.sequence + 1
        return None if batch.sequence == expected else E.out_of_order_sequence_number

    def _is_open(self, batch: Batch) -> bool:
        known = self.producers.get(batch.producer_id)
        return known is not None and known.is_open and known.epoch == batch.epoch

    def _verify_first(self, batch: Batch, respond: Respond) -> None:
        guard = self._guards[batch.producer_id] = object()

        def verified(error: ErrorCode) -> None:
            if error is not E.none:
                respond(error)
            elif self._guards.get(batch.producer_id) is not guard:
                respond(E.invalid_txn_state)
            elif (late := self._check(batch)) is not None:
                respond(late)
            else:
                respond(self._append(batch))

        request = VerifyRequest(
            batch.transactional_id,
            batch.producer_id,
            batch.epoch,
            (self.place,),
            add=batch.is_newest,
            transaction_version=2 if batch.is_newest else 0,
        )
        self._verify(request, verified)

    def _append(self, batch: Batch) -> ErrorCode:
        known = self.producers.setdefault(batch.producer_id, ProducerState(batch.epoch))
        known.epoch, known.sequence, known.is_open = batch.epoch, batch.sequence, True
        known.open_tags.append(batch.tag)
        self._guards.pop(batch.producer_id, None)
        return E.none

    def mark(self, marker: Marker) -> ErrorCode:
        if not self.up:
            return E.not_leader_or_follower
        if marker.decision <= self._executed.get(marker.producer_id, -1):
            return E.none
        known = self.producers.setdefault(marker.producer_id, ProducerState(marker.epoch))
        if marker.epoch < known.epoch:
            return E.invalid_producer_epoch
        if marker.version >= 2 and marker.epoch == known.epoch and known.is_open:
            return E.invalid_producer_epoch
        if marker.coordinator_epoch < known.coordinator_epoch:
            return E.transaction_coordinator_fenced
        if marker.epoch > known.epoch:
            known.sequence = None
        known.epoch, known.coordinator_epoch = marker.epoch, marker.coordinator_epoch
        (self.committed if marker.commit else self.aborted).extend(known.open_tags)
        known.open_tags, known.is_open = [], False
        self._guards.pop(marker.producer_id, None)
        self._executed[marker.producer_id] = marker.decision
        return E.none
