"""Guards: what a producer's batch needs to begin a transaction in a partition (KIP-890).

A batch that was delayed beyond the end of its transaction would begin one that no one ends. So before the first batch,
the coordinator is queried whether the transaction is open and the partition part of it. A marker may arrive between its
response and the append; it takes the guard away, and the batch is refused.
"""

from __future__ import annotations

from muster.actors.log.errors import InvalidProducerEpoch, OutOfOrderSequence


class VerificationGuard:
    """The right of one producer's batches to begin a transaction, once the coordinator has confirmed it."""

    __slots__ = ("lowest_sequence", "producer_epoch", "producer_id", "transaction_version")

    def __init__(self, producer_id: int, producer_epoch: int, base_sequence: int, transaction_version: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.lowest_sequence = base_sequence
        """Lowest sequence of the batches that wait for the coordinator; -1 if they have none."""
        self.transaction_version = transaction_version

    def check_sequence(self, base_sequence: int) -> None:
        """Raise OutOfOrderSequence for a batch that overtook another one: the lowest must be first."""
        if base_sequence > self.lowest_sequence:
            raise OutOfOrderSequence(
                f"producer {self.producer_id} epoch {self.producer_epoch}: sequence {base_sequence} before "
                f"{self.lowest_sequence}"
            )


class VerificationGuards:
    """The guards of one partition: at most one for each producer id."""

    def __init__(self) -> None:
        self._guards: dict[int, VerificationGuard] = {}

    def take(
        self, producer_id: int, producer_epoch: int, base_sequence: int, transaction_version: int
    ) -> VerificationGuard:
        """Return the producer's guard, and end one of an older epoch.

        Raises InvalidProducerEpoch if there is one of a newer.
        """
        guard = self._guards.get(producer_id)
        if guard is not None and guard.producer_epoch > producer_epoch:
            raise InvalidProducerEpoch(
                f"producer {producer_id}: epoch {producer_epoch} is older than {guard.producer_epoch}"
            )
        if guard is None or guard.producer_epoch < producer_epoch:
            guard = VerificationGuard(producer_id, producer_epoch, base_sequence, transaction_version)
            self._guards[producer_id] = guard
        guard.lowest_sequence = min(guard.lowest_sequence, base_sequence)
        return guard

    def holds(self, guard: VerificationGuard, producer_id: int, producer_epoch: int) -> bool:
        """Whether it is still the guard of that producer and epoch."""
        return self._guards.get(producer_id) is guard and guard.producer_epoch == producer_epoch

    def drop(self, producer_id: int) -> None:
        """End the effect of the producer's guard."""
        if self._guards:
            self._guards.pop(producer_id, None)

    def release(self, guard: VerificationGuard) -> None:
        """Drop a guard that is no longer needed."""
        if self._guards.get(guard.producer_id) is guard:
            del self._guards[guard.producer_id]
