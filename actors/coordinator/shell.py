"""The shell around a coordinator: socket and log outside, the pure core inside.

The shell reads a request, lets the core decide, appends the core's records, waits until they are durable, and sends
the responses. It contains no rules of the protocol. If the log fails, the process informs its clients and exits. The
successor replays the log, which is the only form of recovery.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Any, Generic, NamedTuple, ParamSpec, Protocol, TypeVar, cast
from uuid import UUID

from muster.actors.coordinator.appends import Appends
from muster.actors.coordinator.batching import Written
from muster.actors.coordinator.observers import Observers
from muster.actors.coordinator.reads import PARTITION_APIS, PartitionReads
from muster.actors.group.types import Record, Token, WriteId
from muster.actors.log.config import LogConfig
from muster.actors.log.format.records import Record as LogRecord
from muster.actors.log.partition import PartitionLog
from muster.actors.log.progress import append_times
from muster.actors.log.upkeep.schedule import Upkeep
from muster.actors.runtime.memory import gc_paused
from muster.actors.runtime.process import now_ms
from muster.actors.wire.internal.envelope import SeenLease
from muster.actors.wire.internal.fetch import FetchRequest
from muster.actors.wire.internal.leader_epochs import LeaderEpoch, write_epochs
from muster.actors.wire.internal.listener import Peer
from muster.actors.wire.internal.markers import Marker, write_marked
from muster.actors.wire.internal.produce import ProduceRequest
from muster.actors.wire.internal.queries import Handler, QueryHandlers
from muster.actors.wire.internal.verification import VerifyRequest
from muster.actors.wire.kafka import codec
from muster.actors.wire.kafka.codec import ErrorCode, Header, UndecodableRequest, UnknownApi
from muster.placement.client import Context, of_client

log = logging.getLogger(__name__)

_EXIT_S = 0.05
"""How long the last responses have before the process exits."""


class Outcome(Protocol):
    """Work for the shell after a step of a core."""

    @property
    def replies(self) -> tuple[tuple[Token, Any], ...]:
        """May be sent immediately."""

    @property
    def records(self) -> tuple[Record, ...]:
        """To append as one batch."""

    @property
    def write(self) -> WriteId | None:
        """If set, the core must hear when the records and all before them are durable, or that they failed."""

    @property
    def events(self) -> tuple[Any, ...]:
        """For operators."""


P = ParamSpec("P")
OutcomeT = TypeVar("OutcomeT", bound=Outcome)
OutcomeT_co = TypeVar("OutcomeT_co", bound=Outcome, covariant=True)


class Core(Protocol[OutcomeT_co]):
    """A coordinator: a deterministic state machine. Its steps are applied to memory before they are in the log."""

    def replay(self, offset: int, record: Record, timestamp_ms: int) -> None:
        """Apply a record of the log."""

    def loaded(self, now_ms: int) -> OutcomeT_co:
        """Start serving: the whole log was replayed."""

    def step(self, request: Any, context: Context, token: Token, now_ms: int) -> OutcomeT_co:
        """Handle a request. The reply may come with a later outcome."""

    def write_failed(self, write: WriteId, error: ErrorCode, now_ms: int) -> OutcomeT_co:
        """Handle a failed write: its records and all later ones are not in the log."""

    def tick(self, now_ms: int) -> OutcomeT_co:
        """Do everything that is due."""

    def next_deadline_ms(self) -> int | None:
        """When to call ``tick``; None: never, in the current state."""

    def resign(self, now_ms: int) -> OutcomeT_co:
        """Stop serving: every request without a reply gets one."""


class WaitingRequest(NamedTuple):
    """A request without a response so far."""

    peer: Peer
    token: int
    header: Header


class CoordinatorShell(ABC, Generic[OutcomeT]):
    """Serves one partition of a coordinator's topic; a :class:`muster.actors.wire.internal.listener.Handler`."""

    _routine: frozenset[type]
    """Kinds of events that are too frequent for the log file."""

    def __init__(
        self,
        core: Core[OutcomeT],
        *,
        topic: str,
        topic_id: UUID,
        partition: int,
        epoch: int,
        partition_log: PartitionLog,
        linger_ms: int,
        timeout_ms: int,
        fail: Callable[[], None],
    ) -> None:
        """``timeout_ms`` is how long an append may take.

        ``fail`` is called shortly after the log or a step has failed. A successor must then replay the log.
        """
        self.partition = partition
        self.epoch = epoch
        self.observers = Observers()
        """Observers of the core's events. Add before ``activate``."""
        self._name = f"{topic}-{partition}"
        self._core = core
        self._log = partition_log
        self._fail = fail
        self._failed = False
        self._waiting_requests: dict[Token, WaitingRequest] = {}
        self._late_requests: list[tuple[Peer, int, Context, bytes]] | None = None
        """Requests that have come since :meth:`stop` was called, until they can be refused."""
        self._tokens = cast("Iterator[Token]", count())
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms: int | None = None
        self._appends = Appends(
            self._name,
            partition_log,
            linger_ms=linger_ms,
            timeout_ms=timeout_ms,
            written=self._on_written,
            failed=self._give_up,
        )
        self._reads = PartitionReads(topic, topic_id, partition, partition_log)
        self._upkeep = Upkeep(
            self._logs,
            retention_interval_ms=partition_log.config.log_retention_check_interval_ms,
            cleaner_interval_ms=partition_log.config.log_cleaner_backoff_ms,
        )
        self._queries = QueryHandlers()
        self.query_handlers["append_times"] = lambda query: append_times(query, self._reads.log_of, now_ms)

    # -- of each kind of coordinator -------------------------------------------------------------------

    @abstractmethod
    def _read(self, header: Header, frame: bytes) -> Any:
        """Return the request for the core. Raises UndecodableRequest or UnknownApi."""

    @abstractmethod
    def _write(self, header: Header, response: Any) -> bytes:
        """Return the response frame."""

    @abstractmethod
    def _refused(self, request: Any) -> Any:
        """Return the response to a request that the core could not handle."""

    @abstractmethod
    def _written(self, writes: Sequence[Written]) -> OutcomeT:
        """Inform the core that these writes are durable."""

    def _send(self, outcome: OutcomeT) -> None:
        """Send the replies. Others may send more, before and after them."""
        for token, response in outcome.replies:
            waiting = self._waiting_requests.pop(token, None)
            if waiting is not None:
                self._reply(waiting, response)

    def _reply(self, waiting: WaitingRequest, response: Any) -> None:
        """Send one response."""
        waiting.peer.reply(waiting.token, self._write(waiting.header, response))

    # -- life ------------------------------------------------------------------------------------------

    @property
    def query_handlers(self) -> dict[str, Handler]:
        """Handlers of queries other than Kafka's APIs, by name; callers may add to it."""
        return self._queries.handlers

    def _configure(self, log_config: LogConfig, timeout_ms: int) -> None:
        """Apply other configurations from now on. The linger does not change."""
        self._appends.timeout_ms = timeout_ms
        self._log.config = log_config
        self._appends.limit_bytes = log_config.max_batch_bytes
        self._upkeep.configure(
            retention_interval_ms=log_config.log_retention_check_interval_ms,
            cleaner_interval_ms=log_config.log_cleaner_backoff_ms,
        )

    def load(self) -> int:
        """Replay the log into the core. Blocks. Returns the number of records in the log.

        The core gets only the last record of each key, which is what a compacted log would hold.
        """
        count = 0
        latest: dict[bytes, LogRecord] = {}
        with gc_paused():
            for entry in self._log.replay():
                latest[entry.key or b""] = entry
                count += 1
            for key, entry in latest.items():
                self._core.replay(entry.offset, Record(key, entry.value), entry.timestamp_ms)
        return count

    def activate(self) -> None:
        """Start serving what was loaded."""
        self._apply(self._core.loaded(now_ms()))
        self._upkeep.start()

    async def stop(self) -> None:
        """Write what is pending, answer all requests that still wait with NOT_COORDINATOR, close the log.

        A request whose records become durable gets its response: the successor might refuse it as a retry. After a
        failure of the log, there is nothing left to answer or write.
        """
        self._end_turn()
        self._late_requests = []
        await self._appends.stop()
        if not self._failed:
            self._apply(self._core.resign(now_ms()))
        late, self._late_requests = self._late_requests, None
        for request in late:
            self.request(*request)
        self._end_turn()
        if self._timer is not None:
            self._timer.cancel()
        self._reads.stop()
        self._queries.stop()
        await self._upkeep.stop()
        await self._log.close()

    async def _logs(self) -> list[PartitionLog]:
        return [self._log]

    # -- requests --------------------------------------------------------------------------------------

    def joined(self, peer: Peer) -> None:
        """Inform a new gateway of the log's leader epoch."""
        if peer.is_gateway:
            peer.send(write_epochs([LeaderEpoch(self._log.topic_id, self.partition, self.epoch)]))

    def left(self, peer: Peer) -> None:
        self._reads.left(peer)
        self._queries.left(peer)

    def query(self, peer: Peer, token: int, query: dict[str, Any]) -> None:
        self._queries.query(peer, token, query)

    def cancel(self, peer: Peer, token: int) -> None:
        self._reads.cancel(peer, token)
        self._queries.cancel(peer, token)

    def heartbeats_seen(self, peer: Peer, leases: list[SeenLease]) -> None:
        raise ValueError("only groups have members")

    def lease_confirmed(self, peer: Peer, lease: int) -> None:
        raise ValueError("only groups have leases")

    def produce(self, peer: Peer, token: int, request: ProduceRequest) -> None:
        raise ValueError("only the coordinator writes to its partition")

    def markers(self, peer: Peer, token: int, markers: list[Marker]) -> None:
        """Refuse them: an administrator may send some to any partition, but this one holds no transactional records."""
        error = ErrorCode.unsupported_for_message_format
        peer.send(write_marked(token, [[error] * len(marker.partitions) for marker in markers]))

    def verify(self, peer: Peer, token: int, request: VerifyRequest) -> None:
        raise ValueError("this partition has no transactions")

    def fetch(self, peer: Peer, token: int, request: FetchRequest) -> None:
        self._reads.fetch(peer, token, request)

    def request(self, peer: Peer, token: int, context: Context, frame: bytes) -> None:
        if self._late_requests is not None:
            self._late_requests.append((peer, token, context, frame))
            return
        try:
            header = codec.decode_header(frame)
            if header.api_key in PARTITION_APIS:
                self._reads.request(peer, token, header, frame)
                return
            request = self._read(header, frame)
        except (UndecodableRequest, UnknownApi) as error:
            log.warning("a gateway forwarded what cannot be read: %s", error)
            peer.close()
            return
        waiting = WaitingRequest(peer, token, header)
        try:
            self._call_core(waiting, request, of_client(context, header.client_id))
        except Exception:
            self._refuse(waiting, request)

    def _refuse(self, waiting: WaitingRequest, request: Any) -> None:
        """Respond to a request at which the core raised the exception that is being handled."""
        header = waiting.header
        log.exception("api key %d version %d failed", header.api_key, header.api_version, extra=header.log_fields)
        self._reply(waiting, self._refused(request))

    def _call_core(self, waiting: WaitingRequest, request: Any, context: Context) -> None:
        token = self._expect(waiting)
        try:
            outcome = self._core.step(request, context, token, now_ms())
        except Exception:
            self._drop([token])
            raise
        self._applied(outcome)

    def _expect(self, waiting: WaitingRequest) -> Token:
        """Return the token of the response that the core will give."""
        token = next(self._tokens)
        self._waiting_requests[token] = waiting
        return token

    def _drop(self, tokens: Iterable[Token]) -> None:
        """Forget requests: the core has failed at them."""
        for token in tokens:
            del self._waiting_requests[token]

    def _end_turn(self) -> None:
        """Handle requests that were put off to the end of this turn of the event loop, if any."""

    # -- steps -----------------------------------------------------------------------------------------

    def _apply(self, outcome: OutcomeT) -> None:
        refusal = None if outcome.write is None else self._append(outcome, outcome.write)
        self._send(outcome)
        if outcome.events:
            self._report(outcome.events)
        if outcome.write is not None and refusal is not None:
            # A refused write, not a failed log: no later step depends on this one yet.
            self._apply(self._core.write_failed(outcome.write, refusal, now_ms()))
        self._arm()

    def _append(self, outcome: OutcomeT, write: WriteId) -> ErrorCode | None:
        """Pass the records of a step to the log. Returns the error if it refuses them."""
        return None if self._appends.add(outcome.records, write) else ErrorCode.message_too_large

    def _report(self, events: Iterable[Any]) -> None:
        """Report the events of one step, all with the same time."""
        happened_ms, level = now_ms(), log.getEffectiveLevel()
        for event in events:
            kind = type(event)
            if kind not in self._routine:
                log.info("%s", event)
            elif level <= logging.DEBUG:
                log.debug("%s", event)
            for observer in self.observers.of(kind):
                try:
                    observer(event, happened_ms)
                except Exception:
                    log.exception("%s: %s is not counted", self._name, event)

    def _on_written(self, writes: Sequence[Written]) -> None:
        self._guarded(self._written, writes)

    def _guarded(self, step: Callable[P, OutcomeT], *args: P.args, **kwargs: P.kwargs) -> None:
        """Make a step without a request to answer, and apply it."""
        try:
            self._apply(step(*args, **kwargs))
        except Exception:
            self._has_broken()

    def _applied(self, outcome: OutcomeT) -> None:
        """Apply a step that the core has made."""
        try:
            self._apply(outcome)
        except Exception:
            self._has_broken()

    def _has_broken(self) -> None:
        """No client can be informed of the exception that is being handled: the actor exits."""
        log.exception("%s failed, the actor ends", self._name)
        self._give_up(None, ErrorCode.not_coordinator)

    def _give_up(self, write: WriteId | None, error: ErrorCode) -> None:
        """Answer all requests, then let a successor replay the log: the core's state may be ahead of it."""
        if self._failed:
            return
        self._failed = True
        self._appends.end()
        asyncio.get_running_loop().call_later(_EXIT_S, self._fail)
        if write is not None:
            self._respond_to_last(self._core.write_failed(write, error, now_ms()))
        self._respond_to_last(self._core.resign(now_ms()))

    def _respond_to_last(self, outcome: OutcomeT) -> None:
        """Send the replies of a step whose records are not appended any more."""
        self._report(outcome.events)
        for token, response in outcome.replies:
            if waiting := self._waiting_requests.pop(token, None):
                self._reply(waiting, response)

    def _arm(self) -> None:
        due_ms = self._core.next_deadline_ms()
        if due_ms == self._timer_at_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at_ms = None, due_ms
        if due_ms is not None:
            delay_s = max(0.0, (due_ms - now_ms()) / 1000)
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._timer = self._timer_at_ms = None
        self._guarded(self._core.tick, now_ms())
