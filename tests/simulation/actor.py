"""The shell around the coordinator, like actors/offsets/partition.py: it steps the core, writes, ticks, dies, and loads
again.

Every step of the core becomes a :class:`Step`, which the world checks before the responses leave.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from kio.schema.errors import ErrorCode

from muster.actors.group.codec import adapters
from muster.actors.group.config import GroupConfig
from muster.actors.group.coordinator import Coordinator
from muster.actors.group.messages import Request, Response, WriteTxnMarker, WriteTxnMarkerResponse
from muster.actors.group.state import IllegalMove
from muster.actors.group.types import Outcome, Phase, Token, WriteId
from muster.actors.wire.kafka import codec
from muster.placement.client import Context
from tests.group.transactions.logged import replay, replay_latest
from tests.simulation.log import SimulatedLog
from tests.simulation.planted.broken import Broken
from tests.simulation.schedule import Event, Schedule
from tests.simulation.shots import Shots, shoot

E = ErrorCode
WRITE_TXN_MARKERS = 27
LOG_ERRORS = (E.not_leader_or_follower, E.kafka_storage_error, E.not_enough_replicas)


class StepKind(Enum):
    REQUEST = "request"
    TICK = "tick"
    WRITTEN = "written"
    FAILED = "write failed"
    TOPICS_DELETED = "topics deleted"
    RESIGNED = "resigned"
    LOADED = "loaded"


@dataclass(slots=True, kw_only=True)
class Received:
    """A request at the coordinator. Times are the coordinator's own, in ms."""

    token: Token
    sender: str
    honest: bool
    api_key: int
    api_version: int
    request: Request
    entity: object
    arrived_ms: int
    stalled_ms: int
    """The total pause of the actor in its life, at the time of the request."""
    response: Callable[[bytes | None], None]
    write: WriteId | None = None
    """The write of this request's step."""
    expected: ErrorCode | None = None
    """The error that the protocol requires, determined on arrival; None: not determined."""


@dataclass(slots=True, kw_only=True)
class Step:
    kind: StepKind
    now_ms: int
    outcome: Outcome
    before: Shots
    after: Shots
    changed: Shots
    """The entries of ``after`` that are new or differ from ``before``."""
    received: Received | None = None
    """The request that this step handled, if any."""
    write: WriteId | None = None
    """The write that has become durable, or has failed."""
    topics: frozenset[str] = frozenset()
    answered: list[tuple[Received, Response]] = field(default_factory=list)
    strays: list[Token] = field(default_factory=list)
    """Tokens that got a response although no request waited under them."""
    loading: bool = False
    dying: bool = False
    """The actor is only shutting down: its state and decisions are lost."""


@dataclass(slots=True)
class Faults:
    """Probabilities of faults, per write. All 0: no faults."""

    slow_write: float = 0.0
    stuck_write: float = 0.0
    failed_write: float = 0.0
    refused_write: float = 0.0


class Actor:
    """One offsets partition, over all of its lives."""

    def __init__(
        self,
        schedule: Schedule,
        chance: random.Random,
        config: GroupConfig,
        observe: Callable[[Step], None],
        note: Callable[..., None],
    ) -> None:
        self.schedule = schedule
        self.chance = chance
        self.config = config
        self.log = SimulatedLog()
        self.faults = Faults()
        self.waiting: dict[Token, Received] = {}
        self.core: Coordinator | None = None
        self.shots: Shots = {}
        self.life = 0
        self._deaths = 0
        self.stalled_ms = 0
        """Total pause of this life."""
        self._observe = observe
        self._note = note
        self._skew_ms = 0
        self._stalled_until_ms = 0
        self._ids = itertools.count(1)
        self._tokens = itertools.count(1)
        self._tick: Event | None = None
        self._tick_at_ms: int | None = None
        self._last_write_ends_ms = 0

    @property
    def now_ms(self) -> int:
        """The clock of the actor's host."""
        return self.schedule.now_ms + self._skew_ms

    @property
    def serves(self) -> bool:
        return self.core is not None and self.core.phase is Phase.ACTIVE

    # Requests.

    def deliver(
        self,
        sender: str,
        honest: bool,
        host: str,
        connection: str,
        frame: bytes,
        response: Callable[[bytes | None], None],
    ) -> None:
        """Handle a request. ``response`` gets the response; None if the connection breaks instead."""
        context = Context(client_id=sender, host=host, connection=connection)
        self._when_running(lambda: self._deliver(context, honest, frame, response))

    def _deliver(self, context: Context, honest: bool, frame: bytes, response: Callable[[bytes | None], None]) -> None:
        header = codec.decode_header(frame)
        sender = header.client_id or ""
        entity = codec.decode_request(header, frame)
        received = Received(
            token=Token(next(self._tokens)),
            sender=sender,
            honest=honest,
            api_key=header.api_key,
            api_version=header.api_version,
            request=adapters.decode(header.api_key, header.api_version, entity),
            entity=entity,
            arrived_ms=self.now_ms,
            stalled_ms=self.stalled_ms,
            response=response,
        )
        if self.core is None:
            self._respond_while_down(received)
            return
        core = self.core
        self._note("%s asks %s: %s", sender, received.token, received.request)
        self.waiting[received.token] = received
        self._step(
            StepKind.REQUEST,
            lambda: core.step(received.request, context, received.token, self.now_ms),
            received=received,
        )

    def mark(self, sender: str, request: WriteTxnMarker, done: Callable[[bool], None]) -> None:
        """Handle a marker of a transaction coordinator. ``done`` is called with whether it is written."""
        self._when_running(lambda: self._mark(sender, request, done))

    def _mark(self, sender: str, request: WriteTxnMarker, done: Callable[[bool], None]) -> None:
        received = Received(
            token=Token(next(self._tokens)),
            sender=sender,
            honest=True,
            api_key=WRITE_TXN_MARKERS,
            api_version=1,
            request=request,
            entity=None,
            arrived_ms=self.now_ms,
            stalled_ms=self.stalled_ms,
            response=lambda written: done(written == b"\x01"),
        )
        core = self.core
        if core is None:
            done(False)
            return
        self._note("%s ends a transaction with %s: %s", sender, received.token, request)
        self.waiting[received.token] = received
        context = Context(client_id=None, host="")
        self._step(
            StepKind.REQUEST, lambda: core.step(request, context, received.token, self.now_ms), received=received
        )

    def _respond_while_down(self, received: Received) -> None:
        """Respond like the gateway (gateway/apis/groups/forwarding.py): with Kafka's error for loading."""
        if received.api_key == WRITE_TXN_MARKERS:
            received.response(None)
            return
        error = {adapters.HEARTBEAT: E.none, adapters.SYNC_GROUP: E.not_coordinator}.get(
            received.api_key, E.coordinator_load_in_progress
        )
        body = adapters.error_body(received.api_key, received.api_version, received.entity, error)
        received.response(codec.encode_response(received.api_key, received.api_version, 0, body))

    # Life and death.

    def start(self, config: GroupConfig | None = None) -> None:
        """Begin a new life: another host with its own clock loads the log. It serves a moment later."""
        self.config = config or self.config
        self.life += 1
        self.stalled_ms = 0
        self._skew_ms = self.chance.randint(-500, 500)
        self.core = Coordinator(
            partition=7, epoch=self.life, config=self.config, new_id=lambda: f"{next(self._ids):08x}"
        )
        self.schedule.after(self.chance.choice([0, 5, 300]), self._for_this_life(self._load))

    def _load(self) -> None:
        core = self.core
        assert core is not None
        self._note("life %s loads %s records", self.life, len(self.log.entries))
        load = self.chance.choice([replay, replay_latest])
        load(core, self.log.entries)
        self._step(StepKind.LOADED, lambda: core.loaded(self.now_ms))

    def die(self, down_ms: int, config: GroupConfig | None = None) -> None:
        """SIGKILL. The gateway answers waiting requests; writes in flight may or may not be in the log."""
        if self.core is None:
            return
        lost = self.log.tear(self.chance)
        self._note("life %s dies; %s batches are lost", self.life, lost)
        self._gone(down_ms, config)

    def resign(self, down_ms: int, config: GroupConfig | None = None) -> None:
        """End in order: waiting requests get a response, writes in flight are written."""
        core = self.core
        if core is None or not self.serves:
            return
        self._step(StepKind.RESIGNED, lambda: core.resign(self.now_ms), dying=True)
        if self.log.pending:
            self.log.finish(self.log.pending[-1].write)
        self._gone(down_ms, config)

    def _give_up(self, write: WriteId, error: ErrorCode) -> None:
        """Answer all requests, then die: the log failed, and memory may be ahead of it.

        A pause of the actor defers this, perhaps behind the end of a later write. That ends this one, too.
        """
        core = self.core
        assert core is not None
        if not self.log.pending or self.log.pending[0].write > write:
            return
        self.log.doubt(write)
        self._step(StepKind.FAILED, lambda: core.write_failed(write, error, self.now_ms), write=write, dying=True)
        self._step(StepKind.RESIGNED, lambda: core.resign(self.now_ms), dying=True)
        self.die(self.chance.choice([50, 1000]))

    def _gone(self, down_ms: int, config: GroupConfig | None) -> None:
        self.core = None
        self._deaths += 1
        self.shots = {}
        self._stalled_until_ms = self._last_write_ends_ms = 0
        waiting, self.waiting = self.waiting, {}
        for received in waiting.values():
            self._respond_while_down(received)
        self.schedule.after(down_ms, self._for_this_life(lambda: self.start(config)))

    def stall(self, ms: int) -> None:
        """Pause the process, while the world continues."""
        self._stalled_until_ms = max(self._stalled_until_ms, self.schedule.now_ms + ms)
        self.stalled_ms += ms
        self._note("the actor stands still for %s ms", ms)

    def topics_deleted(self, topics: frozenset[str]) -> None:
        core = self.core
        if core is not None and self.serves:
            self._step(StepKind.TOPICS_DELETED, lambda: core.topics_deleted(sorted(topics), self.now_ms), topics=topics)

    # Steps.

    def _step(
        self,
        kind: StepKind,
        act: Callable[[], Outcome],
        *,
        received: Received | None = None,
        write: WriteId | None = None,
        topics: frozenset[str] = frozenset(),
        dying: bool = False,
    ) -> None:
        core = self.core
        assert core is not None
        loading = core.phase is Phase.LOADING
        before = self.shots
        try:
            outcome = act()
        except IllegalMove as error:
            raise Broken(str(error), "states_move_as_the_table_says") from error
        except Exception as error:
            raise Broken(repr(error), "the_core_never_fails") from error
        self.shots = shoot(core.groups)
        changed = {group_id: shot for group_id, shot in self.shots.items() if shot != before.get(group_id)}
        step = Step(
            kind=kind,
            now_ms=self.now_ms,
            outcome=outcome,
            before=before,
            after=self.shots,
            changed=changed,
            received=received,
            write=write,
            topics=topics,
            loading=loading,
            dying=dying,
        )
        if received is not None:
            received.write = outcome.write
        if outcome.write is not None and not dying:
            self.log.begin(outcome.write, outcome)
        for token, response in outcome.replies:
            known = self.waiting.pop(token, None)
            if known is None:
                step.strays.append(token)
            else:
                step.answered.append((known, response))
        self._observe(step)
        for known, response in step.answered:
            if isinstance(response, WriteTxnMarkerResponse):
                known.response(bytes([response.error_code is E.none]))
                continue
            body = adapters.encode(known.api_version, response)
            known.response(codec.encode_response(known.api_key, known.api_version, 0, body))
        if outcome.write is not None and not dying:
            self._begin_write(outcome, outcome.write)
        self._arm()

    def _arm(self) -> None:
        due_ms = self.core.next_deadline_ms() if self.core is not None else None
        if due_ms == self._tick_at_ms and self._tick is not None and self._tick.do is not None:
            return
        if self._tick is not None:
            self._tick.cancel()
        self._tick, self._tick_at_ms = None, due_ms
        if due_ms is not None:
            self._tick = self.schedule.at(due_ms - self._skew_ms, self._for_this_life(self._do_tick))

    def _do_tick(self) -> None:
        core = self.core
        self._tick = None
        if core is not None and core.phase is not Phase.RESIGNED:
            self._step(StepKind.TICK, lambda: core.tick(self.now_ms))

    # Writes.

    def _begin_write(self, outcome: Outcome, write: WriteId) -> None:
        core, chance, faults = self.core, self.chance, self.faults
        assert core is not None
        only_tombstones = outcome.marker is None and all(record.value is None for record in outcome.records)
        if not only_tombstones and chance.random() < faults.refused_write:
            self.log.refuse(write)
            self._step(StepKind.FAILED, lambda: core.write_failed(write, E.message_too_large, self.now_ms), write=write)
            return
        latency_ms = chance.randint(0, 4)
        if chance.random() < faults.slow_write:
            latency_ms = chance.randint(50, 3_000)
        ends_ms = max(self.schedule.now_ms + latency_ms, self._last_write_ends_ms)
        limit_ms = self.schedule.now_ms + self.config.offsets_commit_timeout_ms
        if ends_ms > limit_ms or chance.random() < faults.stuck_write:
            self._last_write_ends_ms = limit_ms
            self.schedule.at(limit_ms, self._for_this_life(lambda: self._give_up(write, E.request_timed_out)))
        elif chance.random() < faults.failed_write:
            error, self._last_write_ends_ms = chance.choice(LOG_ERRORS), ends_ms
            self.schedule.at(ends_ms, self._for_this_life(lambda: self._give_up(write, error)))
        else:
            self._last_write_ends_ms = ends_ms
            self.schedule.at(ends_ms, self._for_this_life(lambda: self._written(write)))

    def _written(self, write: WriteId) -> None:
        core = self.core
        assert core is not None
        if not self.log.pending or self.log.pending[0].write > write:
            return
        self.log.finish(write)
        self._step(StepKind.WRITTEN, lambda: core.written(write, self.now_ms), write=write)

    # Time.

    def _for_this_life(self, do: Callable[[], None]) -> Callable[[], None]:
        """Not executed if the actor has died since; executed later while it is paused."""
        deaths = self._deaths

        def run() -> None:
            if deaths == self._deaths:
                self._when_running(run_now)

        def run_now() -> None:
            if deaths == self._deaths:
                do()

        return run

    def _when_running(self, do: Callable[[], None]) -> None:
        if self.schedule.now_ms < self._stalled_until_ms:
            self.schedule.at(self._stalled_until_ms, lambda: self._when_running(do))
        else:
            do()
