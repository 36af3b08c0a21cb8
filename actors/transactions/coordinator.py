"""The transaction coordinator of one ``__transaction_state`` partition: a deterministic state machine.

No I/O, no clock, no randomness: time and producer ids are arguments. Every method that can change state returns an
Outcome. The shell loads the coordinator with :meth:`TransactionCoordinator.replay` and ``loaded``, passes it requests
and time, appends the records that it returns, reports when they are durable, and sends the markers that it returns.
After a failed append, the shell reports the failure and starts again from the log, with a new coordinator.

Every token gets exactly one response, at the latest when the coordinator resigns. No response rests on a record that is
not durable.
"""

from __future__ import annotations

from collections.abc import Mapping

from kio.schema.errors import ErrorCode

from muster.actors.group.errors import NOT_SERVED, ApiError
from muster.actors.group.types import Phase, Record, Token, WriteId
from muster.actors.transactions import expiry, markers
from muster.actors.transactions.apis import admin, end_txn, init_producer_id, partitions
from muster.actors.transactions.apis.arguments import check_arguments
from muster.actors.transactions.config import TransactionConfig
from muster.actors.transactions.events import PartitionLoaded
from muster.actors.transactions.hard import HardState
from muster.actors.transactions.messages import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    DescribeTransactions,
    EndTxn,
    InitProducerId,
    ListTransactions,
    Request,
    failed,
)
from muster.actors.transactions.shard import Sending, Shard, TimerKind, TimerName
from muster.actors.transactions.state import PREPARED
from muster.actors.transactions.types import Outcome, TopicPartition, TransactionalId
from muster.actors.wire.internal.verification import VerifyRequest
from muster.placement.client import Context


class TransactionCoordinator:
    """Owns the transactional ids that hash to one partition, during one leader epoch."""

    def __init__(self, *, partition: int, epoch: int, config: TransactionConfig) -> None:
        """``epoch``: the leader epoch, which every marker carries."""
        self.partition = partition
        self.epoch = epoch
        self._shard = Shard(config=config)
        self._phase = Phase.LOADING
        self._offsets: dict[TransactionalId, int] = {}

    def configure(self, config: TransactionConfig) -> None:
        """Apply another configuration from the next step on."""
        self._shard.config = config

    @property
    def phase(self) -> Phase:
        return self._phase

    @property
    def hard_state(self) -> HardState:
        """The state of the log, including everything returned to be appended. Read only."""
        return self._shard.hard

    @property
    def sendings(self) -> Mapping[TransactionalId, Sending]:
        """Decided transactions that are not complete. Read only."""
        return self._shard.sendings

    @property
    def needs_producer_ids(self) -> bool:
        """Whether the shell should allocate a block of producer ids, and give it."""
        return self._shard.producer_ids.is_low

    def give_producer_ids(self, block: range) -> None:
        """Take a block of ids that no other process has or gets. May be called at any time, also while loading."""
        self._shard.producer_ids.give(block)

    def replay(self, offset: int, record: Record, timestamp_ms: int) -> None:
        """Apply a record of the log, in log order. Raises CorruptRecord if it is unreadable: the partition cannot load.

        Records whose key has an unknown version are skipped.
        """
        transactional_id = self._shard.hard.replay(record)
        if transactional_id is not None:
            self._offsets[transactional_id] = offset

    def loaded(self, now_ms: int) -> Outcome:
        """Start serving: the whole log was replayed.

        Decided transactions continue with the markers of all partitions; others keep the time of their beginning, and
        time out as if nothing had happened.
        """
        shard = self._shard
        shard.begin(now_ms)
        self._phase = Phase.ACTIVE
        decided = [name for name, entry in shard.hard.entries.items() if entry.metadata.state in PREPARED]
        shard.report(
            PartitionLoaded(
                transactional_ids=len(shard.hard.entries),
                undecided=len(shard.hard.ongoing),
                unfinished=len(decided),
            )
        )
        for transactional_id in decided:
            markers.resume(shard, transactional_id, self._offsets[transactional_id])
        self._offsets.clear()
        expiry.arm_abort(shard)
        expiry.arm_remove(shard)
        return shard.finish()

    def step(self, request: Request, context: Context, token: Token, now_ms: int) -> Outcome:
        """Handle a request. Its token gets its reply here, or later from another method."""
        shard = self._shard
        shard.begin(now_ms)
        try:
            check_arguments(shard.config, request)
            self._check_phase(request)
        except ApiError as refused:
            shard.reply(token, failed(request, refused.error))
            return shard.finish()
        try:
            self._handle(request, token)
        except ApiError as refused:
            name = TransactionalId(getattr(request, "transactional_id", None) or "")
            shard.reply_of(name, token, request, failed(request, refused.error))
        return shard.finish()

    def tick(self, now_ms: int) -> Outcome:
        """Do everything that is due."""
        self._shard.begin(now_ms)
        for timer in self._shard.timers.due(now_ms):
            self._fire(timer)
        return self._shard.finish()

    def next_deadline_ms(self) -> int | None:
        """When to call ``tick``, possibly before anything is due; None: never, in the current state."""
        return self._shard.timers.next_ms()

    def written(self, write: WriteId, base_offset: int, now_ms: int) -> Outcome:
        """Continue after a write: its records, the first at ``base_offset``, are durable, like all earlier ones.

        Must be called for every write, in order.
        """
        self._shard.begin(now_ms)
        if self._phase is Phase.ACTIVE:
            self._shard.written(write, base_offset)
        return self._shard.finish()

    def write_failed(self, write: WriteId, error: ErrorCode, now_ms: int) -> Outcome:
        """Undo a write: its records and all later ones are not in the log. ``error`` is the log's error."""
        self._shard.begin(now_ms)
        self._shard.write_failed(write, error)
        return self._shard.finish()

    def marked(
        self,
        transactional_id: TransactionalId,
        decision: int,
        results: Mapping[TopicPartition, ErrorCode],
        now_ms: int,
    ) -> Outcome:
        """Handle results of markers of a MarkerRequest, all or some of them."""
        self._shard.begin(now_ms)
        if self._phase is Phase.ACTIVE:
            markers.marked(self._shard, transactional_id, decision, results)
        return self._shard.finish()

    def resign(self, now_ms: int) -> Outcome:
        """Stop serving: waiting requests get NOT_COORDINATOR. The next owner writes the markers that are missing."""
        shard = self._shard
        shard.begin(now_ms)
        self._phase = Phase.RESIGNED
        shard.timers.clear()
        shard.fail_all_held(ErrorCode.not_coordinator)
        return shard.finish()

    def _check_phase(self, request: Request) -> None:
        if self._phase is not Phase.ACTIVE:
            raise ApiError(NOT_SERVED[self._phase])

    def _handle(self, request: Request, token: Token) -> None:
        shard = self._shard
        match request:
            case VerifyRequest():
                partitions.verify(shard, request, token)
            case EndTxn():
                end_txn.end_txn(shard, request, token)
            case AddPartitionsToTxn():
                partitions.add_partitions(shard, request, token)
            case AddOffsetsToTxn():
                partitions.add_offsets(shard, request, token)
            case InitProducerId():
                init_producer_id.init_producer_id(shard, request, token)
            case DescribeTransactions():
                admin.describe_transactions(shard, request, token)
            case ListTransactions():
                admin.list_transactions(shard, request, token)

    def _fire(self, timer: TimerName) -> None:
        shard = self._shard
        transactional_id = TransactionalId(timer.transactional_id)
        match timer.kind:
            case TimerKind.ABORT:
                expiry.on_abort(shard)
            case TimerKind.REMOVE:
                expiry.on_remove(shard)
            case TimerKind.REPEAT:
                markers.on_repeat(shard, transactional_id)
            case TimerKind.RESPOND:
                markers.on_respond(shard, transactional_id)
