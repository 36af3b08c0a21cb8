"""How the records of a coordinator's steps get into its log, in the order of the steps."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from muster.actors.coordinator.batching import Batch, Lingering, Written, batches
from muster.actors.group.types import Producer, Record, WriteId
from muster.actors.log.committer import Done
from muster.actors.log.errors import LogError, NotLeader, StorageError
from muster.actors.log.partition import Append, PartitionLog
from muster.actors.log.transactions.guards import VerificationGuard
from muster.actors.runtime.process import now_ms
from muster.actors.wire.internal.markers import Marker
from muster.actors.wire.kafka.codec import ErrorCode
from muster.actors.wire.limited_log import LimitedLog

log = logging.getLogger(__name__)

_LAST_S = 5.0
"""How long an actor that stops waits for its disk."""


class Appends:
    """Appends records, and informs the shell when they are durable, or that the log has failed."""

    def __init__(
        self,
        name: str,
        partition_log: PartitionLog,
        *,
        linger_ms: int,
        timeout_ms: int,
        written: Callable[[Sequence[Written]], None],
        failed: Callable[[WriteId, ErrorCode], None],
    ) -> None:
        """``name`` is the partition's in the log file.

        ``written`` is called with writes that are durable, as are all before them; ``failed`` with the first write that
        is not in the log and never will be. After that nothing is appended, and neither is called.
        """
        self.timeout_ms = timeout_ms
        """How long an append may take before the log counts as failed."""
        self._name = name
        self._log = partition_log
        self._written = written
        self._failed = failed
        self._is_over = False
        self._appending: dict[Done, asyncio.TimerHandle] = {}
        """Appends that are not durable yet, and the timer that declares each one late."""
        self._lingering = Lingering(linger_ms, partition_log.config.max_batch_bytes, self._start)
        self._limited_log = LimitedLog(log)

    @property
    def limit_bytes(self) -> int:
        """Limit of a batch. It is that of the log's configuration when this was created, or what was set since."""
        return self._lingering.limit_bytes

    @limit_bytes.setter
    def limit_bytes(self, limit_bytes: int) -> None:
        self._lingering.limit_bytes = limit_bytes

    def add(self, records: Sequence[Record], write: WriteId) -> bool:
        """Append the records after all earlier ones. False if the batch exceeds the log's limit."""
        limit_bytes = self._lingering.limit_bytes
        chunks = batches(records, limit_bytes)
        if chunks is None:
            text = "%s: %d records do not fit %d bytes"
            self._limited_log.warning("too large", "clients", text, self._name, len(records), limit_bytes)
            return False
        self._lingering.add(write, chunks)
        return True

    def turn_ended(self) -> None:
        """Note that nothing will be added in this turn of the event loop."""
        self._lingering.turn_ended()

    def add_transactional(
        self, records: Sequence[Record], write: WriteId, producer: Producer, guard: VerificationGuard | None
    ) -> ErrorCode | None:
        """Append the records as a batch of the producer, after all earlier ones. Returns the error if it is refused."""
        self._lingering.flush()
        if self._is_over:
            return None
        try:
            append = self._log.enqueue_records(records, now_ms(), producer=producer, guard=guard)
        except (NotLeader, StorageError) as error:
            asyncio.get_running_loop().call_soon(self._append_failed, write, error)
        except LogError as error:
            return error.code
        else:
            self._expect(write, append.header.base_offset, append.done)
        return None

    def add_marker(self, marker: Marker) -> Append:
        """Append a marker after all earlier records. Unless it is a duplicate, :meth:`written_as` must follow at once.

        Raises LogError if the log refuses it.
        """
        self._lingering.flush()
        return self._log.enqueue_marker(marker)

    def written_as(self, write: WriteId, append: Append) -> None:
        """Identify a marker in the log's queue as that write."""
        if append.done is not None and not self._is_over:
            self._expect(write, append.result.base_offset, append.done)

    def _expect(self, write: WriteId, base_offset: int, done: Done) -> None:
        self._watch(write, done, self.timeout_ms / 1000)
        done.add_done_callback(partial(self._ended, [Written(write, base_offset)], False))

    def _start(self, writes: Sequence[Written], chunks: list[Batch]) -> None:
        """Pass the batches to the log. The outcome of the last one is that of all.

        Uses no tasks: in a burst of requests every turn of the event loop is long, and each task adds turns.
        """
        if self._is_over:
            return
        try:
            at_ms = now_ms()
            appended = [self._log.enqueue_records(chunk.records, at_ms) for chunk in chunks]
        except Exception as error:
            asyncio.get_running_loop().call_soon(self._append_failed, writes[0].write, error)
            return
        base_offset, done = appended[0].header.base_offset, appended[-1].done
        self._watch(writes[0].write, done, self.timeout_ms / 1000)
        placed = [Written(each.write, base_offset + each.offset) for each in writes]
        done.add_done_callback(partial(self._ended, placed, True))

    def _watch(self, first: WriteId, done: Done, timeout_s: float) -> None:
        self._appending[done] = asyncio.get_running_loop().call_later(timeout_s, self._is_late, first, done)

    def _ended(self, writes: Sequence[Written], lingered: bool, done: Done) -> None:
        self._appending.pop(done).cancel()
        if (error := done.result()) is not None:
            self._append_failed(writes[0].write, error)
        elif not self._is_over:
            if lingered:
                self._lingering.ended()
            self._written(writes)

    def _append_failed(self, first: WriteId, error: Exception) -> None:
        code = error.code if isinstance(error, LogError) else ErrorCode.not_coordinator
        trace = None if isinstance(error, LogError) else error
        if not self._is_over:  # the other pending writes fail, too
            log.error("%s: append failed, the actor ends: %s", self._name, error, exc_info=trace)
        self._fail(first, code)

    def _is_late(self, first: WriteId, done: Done) -> None:
        """Give up if the disk takes too long. Waiting for the event loop in a burst of requests does not count."""
        left_s = self.timeout_ms / 1000 - self._log.commit_s
        if left_s > 0:
            self._watch(first, done, left_s)
            return
        log.error("%s: an append takes longer than offsets.commit.timeout.ms", self._name)
        self._fail(first, ErrorCode.request_timed_out)

    def _fail(self, first: WriteId, code: ErrorCode) -> None:
        if not self._is_over:
            self._is_over = True
            self._failed(first, code)

    def end(self) -> None:
        """Append nothing more, and call nothing."""
        self._is_over = True

    async def stop(self) -> None:
        """Append what lingers, and wait a moment until it is durable. After a failure, there is nothing left to do."""
        self._limited_log.flush()
        if not self._is_over:
            self._lingering.flush()
            if self._appending:
                await asyncio.wait([*self._appending], timeout=_LAST_S)
