"""The coordinator with its log: appends that take time or fail, markers, and an end without notice."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kio.schema.errors import ErrorCode

from muster.actors.group.types import Token
from muster.actors.transactions.config import TransactionConfig
from muster.actors.transactions.coordinator import TransactionCoordinator
from muster.actors.transactions.types import MarkerRequest, Outcome, TopicPartition
from muster.placement.client import Context
from tests.simulation.schedule import Event, Schedule
from tests.simulation.transactions import rules
from tests.simulation.transactions.rules import broken

E = ErrorCode
_CONTEXT = Context(client_id="c", host="h")
Respond = Callable[[Any], None]
"""Called with the response, or None if the connection is lost."""


@dataclass(slots=True)
class Faults:
    slow_write: float = 0.0
    failed_write: float = 0.0
    refused_write: float = 0.0


class Actor:
    def __init__(
        self,
        schedule: Schedule,
        chance: random.Random,
        config: TransactionConfig,
        send: Callable[[MarkerRequest, int], None],
        note: Callable[..., None],
    ) -> None:
        """``send`` gets markers and the coordinator's epoch."""
        self.config = config
        self.faults = Faults()
        self.log = rules.Log()
        self.events: Counter[str] = Counter()
        self.epoch = 0
        self.steps = 0
        self._schedule, self._chance, self._send, self._note = schedule, chance, send, note
        self._next_producer_id = 1000
        self._next_token = 1
        self._core: TransactionCoordinator | None = None
        self._requests: dict[Token, tuple[Any, Respond]] = {}
        self._unwritten: deque[Outcome] = deque()
        self._timer: Event | None = None
        self._taken: dict[str, set[TopicPartition]] = {}
        """Partitions that have confirmed the marker of the present transaction, to this coordinator."""
        self._writing: Event | None = None

    @property
    def waiting(self) -> int:
        return len(self._requests)

    @property
    def core(self) -> TransactionCoordinator | None:
        return self._core

    def start(self) -> None:
        """Load the log and serve."""
        if self._core is not None:
            return
        self.epoch += 1
        core = self._core = TransactionCoordinator(partition=0, epoch=self.epoch, config=self.config)
        self._taken = {}
        for offset, record in enumerate(self.log.records):
            core.replay(offset, record, self._schedule.now_ms)
        self._note("coordinator %d begins", self.epoch)
        self._apply(core.loaded(self._schedule.now_ms))

    def die(self, down_ms: int) -> None:
        """End without notice. Some of what was being written is in the log."""
        if self._core is None:
            return
        self._note("coordinator %d dies", self.epoch)
        for outcome in [*self._unwritten][: self._chance.randint(0, len(self._unwritten))]:
            for record in outcome.records:
                self.log.append(record)
        self._end(down_ms)

    def resign(self, down_ms: int) -> None:
        """End in order: everyone who waits is answered."""
        if self._core is not None:
            self._note("coordinator %d resigns", self.epoch)
            self._finish(self._core.resign(self._schedule.now_ms))
            if self._requests:
                raise broken("every_request_is_answered", f"{[*self._requests.values()]}")
            self._end(down_ms)

    def _end(self, down_ms: int) -> None:
        self._core = None
        self._unwritten.clear()
        for event in (self._timer, self._writing):
            if event is not None:
                event.cancel()
        self._timer = self._writing = None
        requests, self._requests = self._requests, {}
        for _, respond in requests.values():
            respond(None)
        self._schedule.after(down_ms, self.start)

    def request(self, request: Any, respond: Respond) -> None:
        """Serve a request; without a coordinator the connection is lost."""
        core = self._core
        if core is None:
            respond(None)
            return
        token = Token(self._next_token)
        self._next_token += 1
        self._requests[token] = (request, respond)
        self._apply(core.step(request, _CONTEXT, token, self._schedule.now_ms))

    def marked(self, marker: MarkerRequest, epoch: int, place: TopicPartition, error: ErrorCode) -> None:
        """Take a response to the markers of the coordinator of that epoch."""
        core = self._core
        if core is None or epoch != self.epoch:
            return
        sending = core.sendings.get(marker.transactional_id)
        if sending is not None and sending.decision == marker.decision and error in (E.none, E.invalid_producer_epoch):
            self._taken.setdefault(marker.transactional_id, set()).add(place)
        outcome = core.marked(marker.transactional_id, marker.decision, {place: error}, self._schedule.now_ms)
        self._apply(outcome)

    def _tick(self) -> None:
        assert self._core is not None
        self._timer = None
        self._apply(self._core.tick(self._schedule.now_ms))

    def _apply(self, outcome: Outcome) -> None:
        core = self._core
        assert core is not None
        rules.check_complete(outcome.records, self.log.values, self._taken)
        self._finish(outcome)
        if outcome.write is not None:
            self._note("  writes %s", outcome.records)
            self._unwritten.append(outcome)
            if self._chance.random() < self.faults.refused_write:
                self._unwritten.pop()
                self._apply(core.write_failed(outcome.write, E.message_too_large, self._schedule.now_ms))
                return
            self._write_later()
        rules.check_state(core, self.log, [record for each in self._unwritten for record in each.records])
        self._arm()

    def _finish(self, outcome: Outcome) -> None:
        """Responses, markers and events of a step."""
        self.steps += 1
        rules.check_markers(self.log, outcome.markers)
        for event in outcome.events:
            self.events[type(event).__name__] += 1
            self._note("  %s", event)
        for token, response in outcome.replies:
            if token not in self._requests:
                raise broken("a_request_is_answered_once", f"{response}")
            request, respond = self._requests.pop(token)
            self._note("  answers %s: %s", request, response)
            rules.check_reply(self.log, request, response)
            respond(response)
        for marker in outcome.markers:
            for place in marker.partitions:
                self._taken.get(marker.transactional_id, set()).discard(place)
            self._send(marker, self.epoch)

    def _write_later(self) -> None:
        if self._writing is not None:
            return
        slow = self._chance.random() < self.faults.slow_write
        delay_ms = self._chance.randint(300, 3_000) if slow else self._chance.randint(0, 8)
        self._writing = self._schedule.after(delay_ms, self._written)

    def _written(self) -> None:
        """Everything that waits is durable, or the log has failed."""
        self._writing = None
        core = self._core
        assert core is not None
        if self._chance.random() < self.faults.failed_write:
            first = self._unwritten[0].write
            assert first is not None
            self._unwritten.clear()
            self._note("the log fails")
            self._finish(core.write_failed(first, E.not_leader_or_follower, self._schedule.now_ms))
            self.resign(self._chance.choice([0, 100, 2_000]))
            return
        for _ in range(len(self._unwritten)):
            outcome = self._unwritten.popleft()
            base_offset = len(self.log.records)
            for record in outcome.records:
                self.log.append(record)
            assert outcome.write is not None
            self._apply(core.written(outcome.write, base_offset, self._schedule.now_ms))
            if self._core is not core:
                return

    def _arm(self) -> None:
        core = self._core
        if core is None:
            return
        if core.needs_producer_ids and self._chance.random() < 0.5:
            core.give_producer_ids(range(self._next_producer_id, self._next_producer_id + 110))
            self._next_producer_id += 110
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_ms = core.next_deadline_ms()
        if due_ms is not None:
            self._timer = self._schedule.at(due_ms, self._tick)
