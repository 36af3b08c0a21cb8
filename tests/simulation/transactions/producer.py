"""Producers: one transaction after another, of one protocol or the other. They crash, wait too long, and come again."""

from __future__ import annotations

import random
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from muster.actors.transactions.messages import EndTxn
from muster.actors.transactions.types import TransactionalId
from tests.simulation.transactions.partition import Batch, Tag
from tests.simulation.transactions.rules import broken
from tests.transactions.driver import add, add_offsets, error_of, init

if TYPE_CHECKING:
    from tests.simulation.transactions.world import World

E = ErrorCode
AGAIN = frozenset(
    {
        E.concurrent_transactions,
        E.coordinator_load_in_progress,
        E.coordinator_not_available,
        E.not_coordinator,
        E.not_enough_replicas,
        E.not_leader_or_follower,
        E.unknown_server_error,
    }
)
"""A request with this error is repeated. UNKNOWN_SERVER_ERROR: a record was refused."""
Act = Generator[tuple[str, Any], Any, Any]
"""Yields ("request", request), ("produce", (place, batch)) or ("sleep", ms); gets the response, None without one."""


class Stopped(Exception):
    """The producer cannot continue."""


class Producer:
    def __init__(self, world: World, name: str, transactional_id: str, *, is_newest: bool) -> None:
        self.world, self.name, self.is_newest = world, name, is_newest
        self.transactional_id = TransactionalId(transactional_id)
        self.chance: random.Random = world.chance
        self._producer = (-1, -1)
        self._sequences: dict[tuple[str, int], int] = {}
        self._transactions = 0
        self._unsure = False
        """Whether a batch may arrive later, so that its sequence is taken."""

    def life(self) -> Act:
        """Until the faults stop."""
        yield "sleep", self.chance.randint(0, 2_000)
        while self.world.faulty:
            try:
                knows_itself = self._producer[0] >= 0 and self.chance.random() < 0.2
                yield from self._initialize(self._producer if knows_itself else None)
                while self.world.faulty and self.chance.random() < 0.8:
                    yield from self._transaction()
            except Stopped:
                pass
            yield "sleep", self.chance.choice([10, 500, 4_000])

    def _initialize(self, present: tuple[int, int] | None) -> Act:
        timeout_ms = self.chance.choice([500, 3_000, 20_000])
        response = yield from self._call(init(present, timeout_ms=timeout_ms, name=self.transactional_id))
        if response.error_code is not E.none:
            raise Stopped
        self._become((response.producer_id, response.producer_epoch))

    def _become(self, producer: tuple[int, int]) -> None:
        if producer != self._producer:
            self._producer, self._sequences = producer, {}
        self._unsure = False

    def _call(self, request: Any) -> Act:
        """Return the first response that is final. Raises Stopped if the producer loses its patience."""
        for _ in range(self.chance.choice([3, 30, 30])):
            response = yield "request", request
            if response is not None and error_of(response) not in AGAIN:
                return response
            yield "sleep", self.chance.randint(1, 100)
        raise Stopped

    def _transaction(self) -> Act:
        self._transactions += 1
        tag = (self.name, self._transactions)
        places = self.chance.sample([*self.world.partitions], self.chance.randint(0, 3))
        if not self.is_newest and places:
            added = yield from self._call(add(self._producer, *places, name=self.transactional_id))
            if error_of(added) is not E.none:
                raise Stopped
        if not self.is_newest and self.chance.random() < 0.1:
            yield from self._call(add_offsets(self._producer, name=self.transactional_id))
        written = True
        for place in places:
            for _ in range(self.chance.randint(1, 2)):
                written = written and (yield from self._produce(tag, place))
        if self.chance.random() < 0.15:
            yield "sleep", self.chance.choice([100, 1_000, 10_000])
        if self.chance.random() < 0.1:
            raise Stopped
        yield from self._finish(tag, commit=written and self.chance.random() < 0.7, has_data=bool(places))

    def _produce(self, tag: Tag, place: tuple[str, int]) -> Act:
        """Whether the batch is acknowledged."""
        sequence = self._sequences.get(place, -1) + 1
        batch = Batch(self.transactional_id, *self._producer, sequence, tag, self.is_newest)
        self.world.promises.written.setdefault(tag, set())
        for _ in range(4):
            error = yield "produce", (place, batch)
            if error is E.none:
                self._sequences[place] = sequence
                self.world.promises.written[tag].add(place)
                return True
            if error is E.invalid_txn_state and self.is_newest:
                raise broken("correct_batches_are_not_refused", f"{batch} in {place}: {error.name}")
            if error is not None and error not in AGAIN:
                break
            yield "sleep", self.chance.randint(1, 60)
        self._unsure = True
        return False

    def _finish(self, tag: Tag, *, commit: bool, has_data: bool) -> Act:
        if not has_data and (not self.is_newest or commit):
            return
        promises, before = self.world.promises, self._producer
        if commit:
            promises.commit_requested.add(tag)
        request = EndTxn(
            api_version=5 if self.is_newest else 4,
            transactional_id=self.transactional_id,
            producer_id=before[0],
            producer_epoch=before[1],
            committed=commit,
        )
        response = yield from self._call(request)
        if response.error_code is not E.none:
            raise Stopped
        (promises.committed if commit else promises.aborted).add(tag)
        if self.is_newest:
            self._become((response.producer_id, response.producer_epoch))
        elif self._unsure:
            yield from self._initialize(before)
