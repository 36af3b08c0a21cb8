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
Placed = Append | Exception | Submitted
"""The place of a batch or a marker, why it is refused, or what gets one of these."""
Respond = Callable[[Sequence[ProducedPartition]], None]
_PENDING = ProducedPartition(ErrorCode.unknown_server_error)


class Produce:
    """Responds once all batches or markers of a request are durable or refused. Needs no task."""

    __slots__ = ("_respond", "_results", "_waiting")

    def __init__(self, placed: Sequence[Placed], respond: Respond) -> None:
        self._results: list[ProducedPartition] = [_PENDING] * len(placed)
        self._waiting = len(placed)
        self._respond = respond
        if not placed:
            respond(())
        for index, each in enumerate(placed):
            if isinstance(each, Append):
                self._placed(index, each)
            elif isinstance(each, Exception):
                self._settle(index, _refused(each))
            elif each.done():
                self._submitted(index, each)
            else:
                each.add_done_callback(partial(self._submitted, index))

    def _submitted(self, index: int, outcome: Submitted) -> None:
        error = NotLeader("the log actor is closing") if outcome.cancelled() else outcome.exception()
        if error is not None:
            self._settle(index, _refused(error))
        else:
            self._placed(index, outcome.result())

    def _placed(self, index: int, append: Append) -> None:
        if append.done is None:
            self._settle(index, ProducedPartition(ErrorCode.none, *append.result[:3]))
        else:
            append.done.add_done_callback(partial(self._acknowledged, index, append))

    def _acknowledged(self, index: int, append: Append, done: Done) -> None:
        error = done.result()
        self._settle(index, ProducedPartition(ErrorCode.none, *append.result[:3]) if error is None else _refused(error))

    def _settle(self, index: int, result: ProducedPartition) -> None:
        self._results[index] = result
        self._waiting -= 1
        if not self._waiting:
            self._respond(self._results)


def _refused(error: BaseException) -> ProducedPartition:
    if isinstance(error, InvalidRecords):
        return ProducedPartition(error.code, error_message=str(error), record_errors=error.record_errors)
    if isinstance(error, LogError):
        return ProducedPartition(error.code, error_message=str(error))
    log.error("a produce failed", exc_info=error)
    return ProducedPartition(ErrorCode.unknown_server_error, error_message=repr(error))
