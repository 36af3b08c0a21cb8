"""The state that the modules of one coordinator share, and the effects of the current step.

A step begins with :meth:`Shard.begin` and ends with :meth:`Shard.finish`. In between, the modules reply, write records,
and hold replies until the log has what they rest on. A request is decided on top of records that are still being
written, where Kafka answers CONCURRENT_TRANSACTIONS: its reply waits for them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from muster.actors.group.errors import ApiError, translate
from muster.actors.group.timers import Timers
from muster.actors.group.types import Record, Token, WriteId
from muster.actors.transactions.codec.records import transaction_record
from muster.actors.transactions.config import TransactionConfig
from muster.actors.transactions.events import Event
from muster.actors.transactions.hard import HardState
from muster.actors.transactions.messages import Request, Response, failed
from muster.actors.transactions.state import MAY_COME_FROM, Entry, IllegalMove, TransactionMetadata
from muster.actors.transactions.types import (
    NO_PRODUCER_EPOCH,
    MarkerRequest,
    Outcome,
    TopicPartition,
    TransactionalId,
)

_LOW_PRODUCER_IDS = 100
"""Ids left of a block of 1000, like in Kafka's brokers: the next one is allocated when 90 % are used."""


class TimerKind(IntEnum):
    ABORT = 0
    """Check for transactions that have timed out."""
    REMOVE = 1
    """Check for transactional ids that have expired."""
    REPEAT = 2
    """Send the markers of a transaction again that could not be written."""
    RESPOND = 3
    """Send the response to an EndTxn that waits for the markers."""


class TimerName(NamedTuple):
    kind: TimerKind
    transactional_id: str = ""


class Held(NamedTuple):
    """A reply that is sent when a write is durable."""

    token: Token
    request: Request
    response: Response
    after_markers_of: TransactionalId | None = None
    """The transaction for whose markers it waits a little then."""


class Follow(NamedTuple):
    """Work after the write: when it is durable (with the offset of its first record), or has failed."""

    written: Callable[[int], None]
    failed: Callable[[], None]


@dataclass(slots=True)
class Write:
    """An append that the log has not confirmed."""

    id: WriteId
    records: list[Record] = field(default_factory=list)
    priors: list[tuple[TransactionalId, Entry | None]] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    follows: list[Follow] = field(default_factory=list)


@dataclass(slots=True)
class Sending:
    """A decided transaction whose markers are being written."""

    decision: int
    """Offset of the record that decided it."""
    remaining: set[TopicPartition]
    """Partitions that have not confirmed their marker."""
    repeat: set[TopicPartition] = field(default_factory=set)
    """Remaining partitions to which nothing is under way."""
    completing: bool = False
    """All have confirmed, and the transaction's last record is being written."""
    stopped: bool = False
    """There is another coordinator."""
    held: Held | None = None
    """The response to EndTxn, which waits for the markers."""


class _ProducerIds:
    """Producer ids that the shell has allocated ahead."""

    def __init__(self) -> None:
        self._blocks: deque[range] = deque()

    @property
    def is_low(self) -> bool:
        """Whether the next block should be allocated."""
        return sum(map(len, self._blocks)) < _LOW_PRODUCER_IDS

    def give(self, block: range) -> None:
        """Ids that no other process has."""
        if block:
            self._blocks.append(block)

    def take(self) -> int | None:
        """Return an id, each only once; None if there is none."""
        if not self._blocks:
            return None
        block = self._blocks.popleft()
        if len(block) > 1:
            self._blocks.appendleft(block[1:])
        return block[0]


class Shard:
    def __init__(self, *, config: TransactionConfig) -> None:
        self.config = config
        self.hard = HardState()
        self.producer_ids = _ProducerIds()
        self.sendings: dict[TransactionalId, Sending] = {}
        self.timers: Timers[TimerName] = Timers()
        self.timed_out: deque[TransactionalId] = deque()
        """Transactions that the last check has found, and that are not fenced yet."""
        self.now_ms = 0
        self._writes: dict[WriteId, Write] = {}
        self._writes_of: dict[TransactionalId, list[WriteId]] = {}
        """The writes that change an id, oldest first."""
        self._open = Write(WriteId(1))
        self._replies: list[tuple[Token, Response]] = []
        self._markers: list[MarkerRequest] = []
        self._events: list[Event] = []

    def begin(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def finish(self) -> Outcome:
        """Return the outcome of the step."""
        step = self._open
        if step.records:
            self._open = Write(WriteId(step.id + 1))
            self._writes[step.id] = step
        outcome = Outcome(
            replies=tuple(self._replies),
            records=tuple(step.records),
            write=step.id if step.records else None,
            markers=tuple(self._markers),
            events=tuple(self._events),
        )
        self._replies, self._markers, self._events = [], [], []
        return outcome

    def entry(self, transactional_id: TransactionalId) -> Entry:
        """INVALID_PRODUCER_ID_MAPPING if the id is not known."""
        entry = self.hard.entries.get(transactional_id)
        if entry is None:
            raise ApiError(ErrorCode.invalid_producer_id_mapping)
        return entry

    def new_producer_id(self) -> int:
        """COORDINATOR_LOAD_IN_PROGRESS, which every client repeats, if there is none."""
        producer_id = self.producer_ids.take()
        if producer_id is None:
            raise ApiError(ErrorCode.coordinator_load_in_progress)
        return producer_id

    def write(
        self,
        transactional_id: TransactionalId,
        metadata: TransactionMetadata | None,
        last_epoch: int = NO_PRODUCER_EPOCH,
    ) -> None:
        """Write the id's record (None: its tombstone) and apply it immediately. Raises IllegalMove."""
        prior = self.hard.entries.get(transactional_id)
        before = None if prior is None else prior.metadata.state
        after = None if metadata is None else metadata.state
        if before not in MAY_COME_FROM[after]:
            raise IllegalMove(f"transactional id {transactional_id!r}: {before} to {after}")
        self._open.records.append(transaction_record(transactional_id, metadata, self.config.transaction_version))
        self._open.priors.append((transactional_id, prior))
        self.hard.put(transactional_id, None if metadata is None else Entry(metadata, last_epoch))
        self._writes_of.setdefault(transactional_id, []).append(self._open.id)

    def follow(self, written: Callable[[int], None], failed: Callable[[], None] = lambda: None) -> None:
        """Call one of these when the latest record of this step is durable, with its offset, or if it is lost."""
        index = len(self._open.records) - 1
        self._open.follows.append(Follow(lambda base_offset: written(base_offset + index), failed))

    def reply(self, token: Token, response: Response) -> None:
        """Reply with what rests on no record."""
        self._replies.append((token, response))

    def reply_of(self, transactional_id: TransactionalId, token: Token, request: Request, response: Response) -> None:
        """Reply once everything that is known of that id is durable."""
        writes = self._writes_of.get(transactional_id)
        self._hold(writes[-1] if writes else None, Held(token, request, response))

    def reply_after_markers(
        self, transactional_id: TransactionalId, token: Token, request: Request, response: Response
    ) -> None:
        """Reply once the decision that this step has written is durable, and soon after also its markers."""
        self._open.held.append(Held(token, request, response, transactional_id))

    def reply_of_all(self, token: Token, request: Request, response: Response) -> None:
        """Reply once everything that is known is durable."""
        latest = self._open.id if self._open.records else next(reversed(self._writes), None)
        self._hold(latest, Held(token, request, response))

    def _hold(self, write: WriteId | None, held: Held) -> None:
        if write is None:
            self.reply(held.token, held.response)
        elif write == self._open.id:
            self._open.held.append(held)
        else:
            self._writes[write].held.append(held)

    def send_markers(self, request: MarkerRequest) -> None:
        self._markers.append(request)

    def report(self, event: Event) -> None:
        self._events.append(event)

    def written(self, write: WriteId, base_offset: int) -> None:
        """Complete a durable write. Unknown ids are ignored."""
        settled = self._writes.pop(write, None)
        if settled is None:
            return
        self._forget(settled)
        for follow in settled.follows:
            follow.written(base_offset)
        for held in settled.held:
            self._release(held)

    def _release(self, held: Held) -> None:
        """Release a reply that the log's content permits now."""
        transactional_id = held.after_markers_of
        sending = None if transactional_id is None else self.sendings.get(transactional_id)
        wait_ms = self.config.transaction_end_wait_ms
        if transactional_id is None or sending is None or sending.completing or wait_ms <= 0:
            self.reply(held.token, held.response)
            return
        sending.held = held
        self.timers.set(TimerName(TimerKind.RESPOND, transactional_id), self.now_ms + wait_ms)

    def write_failed(self, write: WriteId, error: ErrorCode) -> None:
        """Undo that write and all later ones, which were decided on top of it."""
        if write not in self._writes:
            return
        lost = [self._writes.pop(known) for known in [*self._writes] if known >= write]
        for settled in reversed(lost):
            self._forget(settled)
            for transactional_id, prior in reversed(settled.priors):
                self.hard.put(transactional_id, prior)
        for settled in lost:
            for follow in settled.follows:
                follow.failed()
            self._fail(settled.held, error)

    def fail_all_held(self, error: ErrorCode) -> None:
        """Answer all requests that wait for the log or for markers. Follow-ups of the writes are dropped."""
        for write in self._writes.values():
            self._fail(write.held, error)
            write.held, write.follows = [], []
        for sending in self.sendings.values():
            if sending.held is not None:
                self._fail([sending.held], error)
                sending.held = None

    def _forget(self, settled: Write) -> None:
        for transactional_id, _ in settled.priors:
            writes = self._writes_of[transactional_id]
            writes.remove(settled.id)
            if not writes:
                del self._writes_of[transactional_id]

    def _fail(self, held: Iterable[Held], error: ErrorCode) -> None:
        for each in held:
            self.reply(each.token, failed(each.request, translate(error)))
