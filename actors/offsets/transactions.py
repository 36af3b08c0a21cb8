"""Transactions in an offsets partition: verification of TxnOffsetCommit, and markers.

Neither waits in line with anything else. The transaction coordinator that is queried for a commit may at the same time
wait for its marker to be written here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from uuid import UUID

from muster.actors.coordinator.appends import Appends
from muster.actors.coordinator.shell import WaitingRequest
from muster.actors.group.coordinator import Coordinator
from muster.actors.group.errors import not_verified, translate
from muster.actors.group.messages import Response, TxnOffsetCommit, WriteTxnMarker, failed
from muster.actors.group.types import Outcome, Phase, Producer, Token, TxnMarker, WriteId
from muster.actors.log.committer import Done
from muster.actors.log.errors import LogError
from muster.actors.log.partition import Append, PartitionLog
from muster.actors.log.transactions.guards import VerificationGuard
from muster.actors.runtime.process import now_ms
from muster.actors.wire.internal.markers import Marked, Marker
from muster.actors.wire.internal.verification import TransactionVerifier, VerifyRequest
from muster.actors.wire.kafka.codec import ErrorCode
from muster.placement.client import Context
from muster.placement.view import OFFSETS_TOPIC

log = logging.getLogger(__name__)

ADDS_PARTITION_FROM = 5
"""The first version of TxnOffsetCommit that no AddOffsetsToTxn precedes (KIP-890, part 2)."""
EPOCH_BUMPS = 2
"""The transaction version of such clients."""
_COORDINATOR = Context(client_id=None, host="")

OnEnded = Callable[[ErrorCode], None]
"""Called once with the result of a marker."""


class NoCoordinators:
    """A :class:`TransactionVerifier` without a way to any transaction coordinator."""

    async def verify(self, request: VerifyRequest) -> list[ErrorCode]:
        return [ErrorCode.coordinator_not_available] * len(request.partitions)


class OffsetTransactions:
    """The transactions of one partition. See the module."""

    def __init__(
        self,
        core: Coordinator,
        *,
        topic_id: UUID,
        partition: int,
        partition_log: PartitionLog,
        appends: Appends,
        verifier: TransactionVerifier,
        call_core: Callable[[WaitingRequest, TxnOffsetCommit, Context], None],
        apply: Callable[[Callable[[], Outcome]], None],
        respond: Callable[[WaitingRequest, Response], None],
    ) -> None:
        """``call_core``, ``apply`` and ``respond`` are the shell's."""
        self._core = core
        self._place = (topic_id, partition)
        self._partition = partition
        self._log = partition_log
        self._appends = appends
        self._verifier = verifier
        self._call_core = call_core
        self._apply = apply
        self._respond = respond
        self._verifying: dict[asyncio.Task[None], tuple[WaitingRequest, TxnOffsetCommit]] = {}
        self._guard: VerificationGuard | None = None
        """Guard of the commit that the core is handling."""
        self._marker: Append | None = None
        """The marker that the core is handling; it is in the log's queue."""
        self.ends: dict[Token, OnEnded] = {}
        """Markers that are not durable yet. Their tokens are negative, those of requests are not."""
        self._last_token = 0

    # -- commits ---------------------------------------------------------------------------------------

    def commit(self, waiting: WaitingRequest, request: TxnOffsetCommit, context: Context) -> None:
        """Let the core handle the commit, once the coordinator has confirmed its transaction."""
        if self._core.refusal(request, context) is not None:
            self._call_core(waiting, request, context)
            return
        version = EPOCH_BUMPS if request.api_version >= ADDS_PARTITION_FROM else 0
        try:
            guard = self._log.guard_for(request.producer_id, request.producer_epoch, transaction_version=version)
        except LogError as error:
            self._respond(waiting, failed(request, translate(error.code)))
            return
        if guard is None or not (version or self._log.config.transaction_partition_verification_enable):
            self._call_guarded(waiting, request, context, guard)
            return
        task = asyncio.get_running_loop().create_task(self._verify(waiting, request, context, guard))
        self._verifying[task] = (waiting, request)
        task.add_done_callback(lambda task: self._verifying.pop(task, None))

    async def _verify(
        self, waiting: WaitingRequest, request: TxnOffsetCommit, context: Context, guard: VerificationGuard
    ) -> None:
        query = VerifyRequest(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            [(OFFSETS_TOPIC, self._partition)],
            add=request.api_version >= ADDS_PARTITION_FROM,
            transaction_version=guard.transaction_version,
        )
        try:
            (error,) = await self._verifier.verify(query)
            if error is not ErrorCode.none:
                self._log.release(guard)
                self._respond(waiting, failed(request, not_verified(error, request.api_version)))
                return
            self._call_guarded(waiting, request, context, guard)
        except Exception:
            log.exception("a commit in a transaction failed")
            self._respond(waiting, failed(request, ErrorCode.unknown_server_error))

    def _call_guarded(
        self, waiting: WaitingRequest, request: TxnOffsetCommit, context: Context, guard: VerificationGuard | None
    ) -> None:
        self._guard = guard
        try:
            self._call_core(waiting, request, context)
        finally:
            self._guard = None

    # -- markers ---------------------------------------------------------------------------------------

    def markers(self, markers: Sequence[Marker], done: Callable[[Marked], None]) -> None:
        """Write and apply the markers of this partition. ``done`` gets the results of all of them."""
        results = _Results(markers, done)
        for marker, each in zip(markers, results.calls, strict=True):
            for place, ended in zip(marker.partitions, each, strict=True):
                if place == self._place:
                    self._end(marker, ended)
                else:
                    ended(ErrorCode.not_leader_or_follower)

    def _end(self, marker: Marker, ended: OnEnded) -> None:
        """Let the log decide about the marker before the core applies it: a late attempt must not end the next one."""
        if self._core.phase is not Phase.ACTIVE:
            ended(ErrorCode.not_leader_or_follower)
            return
        try:
            append = self._appends.add_marker(marker)
        except LogError as error:
            ended(_of_marker(error.code))
            return
        if append.result.duplicate:
            _when_done(append.done, ended)
            return
        self._last_token -= 1
        token = Token(self._last_token)
        self.ends[token] = ended
        producer = Producer(marker.producer_id, marker.producer_epoch)
        request = WriteTxnMarker(
            marker=TxnMarker(producer, marker.commit, marker.coordinator_epoch, marker.transaction_version)
        )
        self._marker = append
        self._apply(lambda: self._core.step(request, _COORDINATOR, token, now_ms()))
        self._marker = None

    # -- for the shell ---------------------------------------------------------------------------------

    def append(self, outcome: Outcome, write: WriteId) -> ErrorCode | None:
        """Pass a transactional batch or a marker to the log. Returns the log's error if it refuses the batch."""
        if outcome.producer is not None:
            return self._appends.add_transactional(outcome.records, write, outcome.producer, self._guard)
        assert self._marker is not None
        self._appends.written_as(write, self._marker)
        return None

    def replied(self, replies: Iterable[tuple[Token, Any]]) -> None:
        """Pass on the core's replies to markers; ignore the others."""
        for token, response in replies:
            if ended := self.ends.pop(token, None):
                ended(_of_marker(response.error_code))

    def stop(self) -> None:
        """Answer the commits that wait for a coordinator with NOT_COORDINATOR."""
        for task, (waiting, request) in [*self._verifying.items()]:
            task.cancel()
            self._respond(waiting, failed(request, ErrorCode.not_coordinator))
        self._verifying.clear()


class _Results:
    """Collects the results of markers."""

    def __init__(self, markers: Sequence[Marker], done: Callable[[Marked], None]) -> None:
        self._marked = [[ErrorCode.none] * len(marker.partitions) for marker in markers]
        self._missing = sum(map(len, self._marked))
        self._done = done
        self.calls = [[self._call(row, at) for at in range(len(row))] for row in self._marked]
        """Callbacks for the result of each marker and partition."""
        if not self._missing:
            done(self._marked)

    def _call(self, row: list[ErrorCode], at: int) -> OnEnded:
        def ended(error: ErrorCode) -> None:
            row[at] = error
            self._missing -= 1
            if not self._missing:
                self._done(self._marked)

        return ended


_LEADER_ERRORS = (
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
)


def _of_marker(error: ErrorCode) -> ErrorCode:
    """Translate an error for a transaction coordinator, which retries at NOT_LEADER_OR_FOLLOWER."""
    return ErrorCode.not_leader_or_follower if error in _LEADER_ERRORS else error


def _when_done(done: Done | None, ended: OnEnded) -> None:
    """Call ``ended`` when an earlier attempt of the same marker is durable, or has failed."""
    if done is None:
        ended(ErrorCode.none)
        return

    def settle(done: Done) -> None:
        ended(ErrorCode.none if done.result() is None else ErrorCode.not_leader_or_follower)

    done.add_done_callback(settle)
