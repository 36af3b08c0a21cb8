"""Drives a bare transaction coordinator: clients, a log, and partitions that take markers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kio.schema.errors import ErrorCode

from muster.actors.group.types import Record, Token
from muster.actors.transactions.codec.records import transaction_record
from muster.actors.transactions.config import TransactionConfig
from muster.actors.transactions.coordinator import TransactionCoordinator
from muster.actors.transactions.hard import HardState
from muster.actors.transactions.messages import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    DescribedTransaction,
    DescribeTransactions,
    EndTxn,
    InitProducerId,
    PartitionsOfTransaction,
    Request,
    Response,
)
from muster.actors.transactions.state import TransactionMetadata
from muster.actors.transactions.types import MarkerRequest, Outcome, TopicPartition, TransactionalId
from muster.actors.wire.internal.verification import VerifyRequest
from muster.placement.client import Context

T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)
X = TransactionalId("x")
START_MS = 1_000_000
Producer = tuple[int, int]
"""Producer id and epoch."""


def init(
    producer: Producer | None = None, *, timeout_ms: int = 60_000, name: str | None = X, version: int = 5
) -> InitProducerId:
    producer_id, epoch = producer or (-1, -1)
    return InitProducerId(
        api_version=version,
        transactional_id=None if name is None else TransactionalId(name),
        transaction_timeout_ms=timeout_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
    )


def add(producer: Producer, *partitions: TopicPartition, name: str = X, version: int = 3) -> AddPartitionsToTxn:
    transaction = PartitionsOfTransaction(
        transactional_id=TransactionalId(name),
        producer_id=producer[0],
        producer_epoch=producer[1],
        partitions=partitions,
    )
    return AddPartitionsToTxn(api_version=version, transactions=(transaction,))


def add_offsets(producer: Producer, group: str = "g", *, name: str = X) -> AddOffsetsToTxn:
    return AddOffsetsToTxn(
        api_version=3,
        transactional_id=TransactionalId(name),
        producer_id=producer[0],
        producer_epoch=producer[1],
        group_id=group,
    )


def end(producer: Producer, *, commit: bool = True, version: int = 4, name: str = X) -> EndTxn:
    return EndTxn(
        api_version=version,
        transactional_id=TransactionalId(name),
        producer_id=producer[0],
        producer_epoch=producer[1],
        committed=commit,
    )


def verify(producer: Producer, *partitions: TopicPartition, add: bool = False, name: str = X) -> VerifyRequest:
    return VerifyRequest(name, *producer, partitions, add=add, transaction_version=2 if add else 0)


class Driver:
    """Drives one coordinator. With ``auto`` every append is durable at once; with ``takes`` every partition takes its
    marker at once."""

    def __init__(self, config: TransactionConfig | None = None, *, auto: bool = True, takes: bool = True) -> None:
        self.config = config or TransactionConfig()
        self.auto, self.takes = auto, takes
        self.now_ms = START_MS
        self.log: list[Record] = []
        self.unwritten: list[Outcome] = []
        self.unmarked: list[MarkerRequest] = []
        """Markers that no partition has taken."""
        self.markers: list[MarkerRequest] = []
        """All of them."""
        self.responses: dict[Token, Response] = {}
        self.requests: dict[Token, Request] = {}
        self.events: list[Any] = []
        self._tokens = itertools.count(1)
        self._next_producer_id = 1000
        self.core = self._new_core()
        self._take(self.core.loaded(self.now_ms))

    def _new_core(self) -> TransactionCoordinator:
        core = TransactionCoordinator(partition=7, epoch=1, config=self.config)
        core.give_producer_ids(range(self._next_producer_id, self._next_producer_id + 1000))
        self._next_producer_id += 1000
        return core

    def send(self, request: Request) -> Token:
        token = Token(next(self._tokens))
        self.requests[token] = request
        self._take(self.core.step(request, Context(client_id="c", host="h"), token, self.now_ms))
        return token

    def exchange(self, request: Request) -> Any:
        """Send a request; return the response, which must be there at once."""
        token = self.send(request)
        assert token in self.responses, f"parked: {request}"
        return self.responses[token]

    def park(self, request: Request) -> Token:
        """Send a request that must not get a response at once; return its token."""
        token = self.send(request)
        assert token not in self.responses, f"answered: {self.responses[token]}"
        return token

    def error(self, request: Request) -> ErrorCode:
        return error_of(self.exchange(request))

    def producer(self, request: InitProducerId | EndTxn) -> Producer:
        """Return producer id and epoch of a response that must be a success."""
        response = self.exchange(request)
        assert response.error_code is ErrorCode.none, response.error_code
        return response.producer_id, response.producer_epoch

    def described(self, name: str = X) -> DescribedTransaction:
        request = DescribeTransactions(api_version=0, transactional_ids=(TransactionalId(name),))
        (state,) = self.exchange(request).transaction_states
        assert isinstance(state, DescribedTransaction)
        return state

    def metadata(self, name: str = X) -> TransactionMetadata:
        return self.core.hard_state.entries[TransactionalId(name)].metadata

    def advance(self, ms: int) -> None:
        """Let time pass, firing every timer when it is due."""
        target = self.now_ms + ms
        while (due := self.core.next_deadline_ms()) is not None and due <= target:
            self.now_ms = max(self.now_ms, due)
            self.tick()
        self.now_ms = target

    def tick(self) -> None:
        """Do what is due now."""
        self._take(self.core.tick(self.now_ms))

    def write_all(self) -> None:
        while self.unwritten:
            outcome = self.unwritten.pop(0)
            base_offset = len(self.log)
            self.log += outcome.records
            assert outcome.write is not None
            self._take(self.core.written(outcome.write, base_offset, self.now_ms))

    def fail(self, error: ErrorCode = ErrorCode.not_leader_or_follower) -> None:
        """Fail the oldest append, and with it all later ones."""
        lost, self.unwritten = self.unwritten, []
        assert lost[0].write is not None
        self._take(self.core.write_failed(lost[0].write, error, self.now_ms))

    def mark(self, results: Mapping[TopicPartition, ErrorCode] | None = None) -> None:
        """Report what became of all markers; NONE for those that are not named."""
        waiting, self.unmarked = self.unmarked, []
        for request in waiting:
            errors = {each: (results or {}).get(each, ErrorCode.none) for each in request.partitions}
            self.marked(request, errors)

    def marked(self, request: MarkerRequest, results: Mapping[TopicPartition, ErrorCode]) -> None:
        self._take(self.core.marked(request.transactional_id, request.decision, results, self.now_ms))

    def resign(self) -> None:
        self._take(self.core.resign(self.now_ms))

    def restart(self) -> None:
        """End the actor, with everything that is not in the log; another one loads the log."""
        self.load()
        self._take(self.core.loaded(self.now_ms))

    def load(self) -> None:
        """Another one begins to load the log."""
        self.unwritten.clear()
        self.unmarked.clear()
        for token in self.requests.keys() - self.responses.keys():
            del self.requests[token]
        self.core = self._new_core()
        for offset, record in enumerate(self.log):
            self.core.replay(offset, record, self.now_ms)

    def replayed(self) -> HardState:
        hard = HardState()
        for record in self.log:
            hard.replay(record)
        return hard

    def _take(self, outcome: Outcome) -> None:
        for token, response in outcome.replies:
            assert token in self.requests, f"no request has {token}"
            assert token not in self.responses, f"{token} is answered twice"
            self.responses[token] = response
        self.events += outcome.events
        self.markers += outcome.markers
        self.unmarked += outcome.markers
        assert bool(outcome.records) == (outcome.write is not None)
        if outcome.write is not None:
            self.unwritten.append(outcome)
            if self.auto:
                self.write_all()
        if self.takes and self.unmarked:
            self.mark()


def error_of(response: Any) -> ErrorCode:
    """Return the one error of a response, wherever its API carries it."""
    if hasattr(response, "results_by_transaction"):
        errors = {
            partition.partition_error_code
            for result in response.results_by_transaction
            for topic in result.topic_results
            for partition in topic.results_by_partition
        }
    elif hasattr(response, "errors"):
        errors = set(response.errors)
    else:
        errors = {response.error_code}
    (error,) = errors
    return ErrorCode(error)


def at_epoch(driver: Driver, epoch: int, name: str = X, timeout_ms: int = 60_000) -> Producer:
    """Bring a producer to that epoch, as if it had initialized often enough: write its record, and load it."""
    producer_id, _ = driver.producer(init(name=name, timeout_ms=timeout_ms))
    record = transaction_record(TransactionalId(name), replace(driver.metadata(name), producer_epoch=epoch), 2)
    driver.log.append(record)
    driver.restart()
    return producer_id, epoch
