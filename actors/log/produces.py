"""Produce requests of gateways to a log actor."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from muster.actors.log.committer import Done
from muster.actors.log.errors import InvalidRecords, LogError, NotLeader
from muster.actors.log.partition import Append
from muster.actors.wire.internal.produce import ProducedPartition
from muster.actors.wire.kafka.codec import ErrorCode

log = logging.getLogger(__name__)

Submitted = asyncio.Future[Append]
"""A batch or a marker that has, or gets, its place in a log. Raises LogError if it is refused."""
Respond = Callable[[Sequence[ProducedPartition]], None]


class Produce:
    """Responds once all batches or markers of a request are durable or refused. Needs no task."""

    def __init__(self, submitted: Sequence[Submitted], respond: Respond) -> None:
        self._results: list[ProducedPartition | None] = [None] * len(submitted)
        self._waiting = len(submitted)
        self._respond = respond
        if not submitted:
            respond(())
        for index, outcome in enumerate(submitted):
            if outcome.done():
                self._placed(index, outcome)
            else:
                outcome.add_done_callback(partial(self._placed, index))

    def _placed(self, index: int, outcome: Submitted) -> None:
        error = NotLeader("the log actor is closing") if outcome.cancelled() else outcome.exception()
        if error is not None:
            self._settle(index, _refused(error))
            return
        append = outcome.result()
        if append.done is None or append.done.done():
            self._acknowledged(index, append, append.done)
        else:
            append.done.add_done_callback(partial(self._acknowledged, index, append))

    def _acknowledged(self, index: int, append: Append, done: Done | None) -> None:
        error = None if done is None else done.result()
        self._settle(index, _written(append) if error is None else _refused(error))

    def _settle(self, index: int, result: ProducedPartition) -> None:
        self._results[index] = result
        self._waiting -= 1
        if not self._waiting:
            self._respond([each for each in self._results if each is not None])


def _written(append: Append) -> ProducedPartition:
    result = append.result
    return ProducedPartition(ErrorCode.none, result.base_offset, result.log_append_time_ms, result.log_start_offset)


def _refused(error: BaseException) -> ProducedPartition:
    if isinstance(error, InvalidRecords):
        return ProducedPartition(error.code, error_message=str(error), record_errors=error.record_errors)
    if isinstance(error, LogError):
        return ProducedPartition(error.code, error_message=str(error))
    log.error("a produce failed", exc_info=error)
    return ProducedPartition(ErrorCode.unknown_server_error, error_message=repr(error))
