"""A partition that takes batches and markers: its owner's own checks and verification, on a log that has no disk."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple, cast

from kio.schema.errors import ErrorCode

from muster.actors.log.config import LogConfig
from muster.actors.log.errors import LogError
from muster.actors.log.format.batch import NO_SEQUENCE, BatchHeader, read_header
from muster.actors.log.format.client_batch import ClientBatch
from muster.actors.log.format.control import EndOfTransaction, control_batch
from muster.actors.log.partition import Append, PartitionLog
from muster.actors.log.producers import EPOCH_BUMPS, ProducerEntry, ProducerStates
from muster.actors.log.transactions.guards import VerificationGuard
from muster.actors.log.transactions.verification import Transaction, Verification
from muster.actors.wire.internal.verification import VerifyRequest
from tests.log.transactions.support import transactional
from tests.simulation.processes.process import Machine, Process

E = ErrorCode
Respond = Callable[[ErrorCode], None]
Verify = Callable[[VerifyRequest, Callable[[list[ErrorCode]], None]], None]
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


class Partition:
    """``committed`` and ``aborted`` have what readers see, in order of the markers.

    To its verification, it is a PartitionLog. What is appended is durable at once.
    """

    def __init__(self, place: tuple[str, int], machine: Machine, verify: Verify) -> None:
        self.place = place
        self.up = True
        self.incarnation = 0
        self.committed: list[Tag] = []
        self.aborted: list[Tag] = []
        self._machine, self._verify = machine, verify
        self._states = ProducerStates()
        self._end_offset = 0
        self._open_tags: defaultdict[int, list[Tag]] = defaultdict(list)
        """Batches of the open transactions, by producer id."""
        self._tags: dict[tuple[int, int, int], Tag] = {}
        """By producer id, epoch and sequence."""
        self._begin()

    @property
    def producers(self) -> Mapping[int, ProducerEntry]:
        return self._states.entries()

    def _begin(self) -> None:
        self.incarnation += 1
        self._process = Process(self._machine, f"{self.place[0]}-{self.place[1]}.{self.incarnation}")
        self._verification = Verification(self, LogConfig)
        self._executed: dict[int, int] = {}
        """The highest decision of each producer, in memory only."""

    def restart(self) -> None:
        """End the owner; another one reads the log."""
        self.up = False
        self._process.kill()
        entries = self._states.entries()
        self._states = ProducerStates()
        self._states.restore_all(entries)
        self._begin()

    # Batches.

    def produce(self, batch: Batch, respond: Respond) -> None:
        if not self.up:
            respond(E.not_leader_or_follower)
            return
        self._tags[batch.producer_id, batch.epoch, batch.sequence] = batch.tag
        self._process.after(0, lambda: self._submit(batch, respond))

    def _submit(self, batch: Batch, respond: Respond) -> None:
        outcome: asyncio.Future[Append] = self._process.loop.create_future()
        outcome.add_done_callback(lambda done: respond(_error_of(done.exception())))
        records = ClientBatch(_records(batch.producer_id, batch.epoch, batch.sequence))
        transaction = Transaction(batch.transactional_id, EPOCH_BUMPS if batch.is_newest else 0, knows_abortable=True)
        try:
            self._verification.submit(cast(PartitionLog, self), *self.place, records, transaction, outcome)
        except LogError as error:
            outcome.set_exception(error)

    async def verify(self, request: VerifyRequest) -> list[ErrorCode]:
        response: asyncio.Future[list[ErrorCode]] = self._process.loop.create_future()
        process = self._process

        def verified(errors: list[ErrorCode]) -> None:
            process.after(0, lambda: response.set_result(errors))

        self._verify(request, verified)
        return await response

    def enqueue_batch(self, batch: ClientBatch, guard: VerificationGuard | None = None) -> Append:
        """Append like PartitionLog. Raises LogError."""
        header = read_header(batch.records)
        if self._states.check(header, guard) is None:
            self._append(header)
            tag = self._tags[header.producer_id, header.producer_epoch, header.base_sequence]
            self._open_tags[header.producer_id].append(tag)
        return cast(Append, None)

    def guard_for(
        self, producer_id: int, producer_epoch: int, base_sequence: int = NO_SEQUENCE, transaction_version: int = 0
    ) -> VerificationGuard | None:
        """Return a guard like PartitionLog. Raises LogError."""
        if self._states.in_transaction(producer_id, producer_epoch):
            return None
        self._states.check_epoch(producer_id, producer_epoch)
        return self._states.guards.take(producer_id, producer_epoch, base_sequence, transaction_version)

    def release(self, guard: VerificationGuard) -> None:
        """Release like PartitionLog."""
        self._states.guards.release(guard)

    def _append(self, header: BatchHeader, end: EndOfTransaction | None = None) -> None:
        placed = header._replace(base_offset=self._end_offset)
        self._end_offset = placed.next_offset
        before = self._states.update(placed, end)
        if end is not None:
            self._states.ended(before)

    # Markers.

    def mark(self, marker: Marker) -> ErrorCode:
        """Write a marker like PartitionLog's ``enqueue_marker``."""
        producer = (marker.producer_id, marker.epoch)
        if not self.up:
            return E.not_leader_or_follower
        was_executed = marker.decision <= self._executed.get(marker.producer_id, -1)
        if was_executed and not self._states.is_coordinator_newer(*producer, marker.coordinator_epoch):
            return E.none
        try:
            self._states.check_end(*producer, marker.coordinator_epoch, marker.version)
        except LogError as error:
            return error.code
        end = EndOfTransaction(marker.commit, marker.coordinator_epoch)
        self._append(read_header(control_batch(*producer, end, 0, 0, 0)), end)
        (self.committed if marker.commit else self.aborted).extend(self._open_tags.pop(marker.producer_id, ()))
        self._executed[marker.producer_id] = marker.decision
        return E.none


@lru_cache(maxsize=1_000)
def _records(producer_id: int, epoch: int, sequence: int) -> bytes:
    return transactional(producer_id, epoch, sequence)


def _error_of(error: BaseException | None) -> ErrorCode:
    if error is None:
        return E.none
    return error.code if isinstance(error, LogError) else E.unknown_server_error
