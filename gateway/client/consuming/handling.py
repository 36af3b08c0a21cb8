"""How a batch is handled: attempts, then record by record, then dead letters."""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from muster.gateway.client.errors import HandlerFailed

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

Handler = Callable[["pa.Table"], None]
_MIN_PAUSE_S, _MAX_PAUSE_S = 0.1, 5.0
_MAX_TEXT = 1_000


class Abandoned(Exception):
    """Raised when the member stops while a batch that failed is to be handled again."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One record that could not be handled."""

    row: dict[str, Any]
    """The record, by column; headers as pairs."""
    error: str
    attempts: int
    """Calls of the handler that had the record."""

    @property
    def place(self) -> str:
        """``topic-partition@offset``."""
        return f"{self.row['topic']}-{self.row['partition']}@{self.row['offset']}"


class DeadLetters(Protocol):
    """Where records go that could not be handled."""

    def write(self, failures: list[Failure]) -> None:
        """Return once they are stored. Raises MusterError."""


@dataclass(slots=True)
class Counts:
    """Work that a member has done. One thread writes, others read."""

    batches: int = 0
    records: int = 0
    """Handled, also as dead letters."""
    failed_attempts: int = 0
    dead_letters: int = 0
    refused_commits: int = 0
    """Commits during a rebalance, and others that failed; they are repeated while the member has the partitions."""
    last_error: str = ""
    """The last error of the handler or of the consumer, in one line; empty if there was none."""


class Handling:
    """Handles batches, each with all its attempts."""

    def __init__(
        self, attempts: int, dead_letters: DeadLetters | None, counts: Counts, stopping: threading.Event
    ) -> None:
        """Take what they need. ``stopping``: once set, no attempt follows one that failed."""
        self._attempts, self._dead_letters = attempts, dead_letters
        self._counts, self._stopping = counts, stopping

    def handle(self, handler: Handler, table: pa.Table) -> None:
        """Return once each record is handled, or is a dead letter. Raises Abandoned, HandlerFailed or MusterError.

        After ``attempts`` for the batch, with pauses in between, each record of it has one more by itself.
        """
        error = self._as_a_whole(handler, table)
        if error is not None:
            self._one_by_one(handler, table, error)
        self._counts.batches += 1
        self._counts.records += table.num_rows

    def _as_a_whole(self, handler: Handler, table: pa.Table) -> str | None:
        pause_s = _MIN_PAUSE_S
        for attempt in range(1, self._attempts + 1):
            error = self._call(handler, table)
            if error is None or attempt == self._attempts:
                return error
            if self._stopping.wait(pause_s):
                raise Abandoned
            pause_s = min(2 * pause_s, _MAX_PAUSE_S)
        raise AssertionError("unreachable")

    def _one_by_one(self, handler: Handler, table: pa.Table, error_of_all: str) -> None:
        failures: list[Failure] = []
        for number in range(table.num_rows):
            one = table.slice(number, 1)
            alone = table.num_rows > 1
            if self._stopping.is_set():
                raise Abandoned
            error = self._call(handler, one) if alone else error_of_all
            if error is None:
                continue
            (row,) = one.to_pylist()
            failure = Failure(row, error, self._attempts + alone)
            if self._dead_letters is None:
                raise HandlerFailed(f"{failure.place} cannot be handled: {failure.error}")
            failures.append(failure)
        if self._dead_letters is not None and failures:
            self._dead_letters.write(failures)
            self._counts.dead_letters += len(failures)

    def _call(self, handler: Handler, table: pa.Table) -> str | None:
        """Return the error in one line; None if there is none."""
        try:
            _call(handler, table)
        except BaseException as error:  # the handler is the user's, and may also raise SystemExit
            text = text_of(error)
            self._counts.failed_attempts += 1
            self._counts.last_error = text
            log.warning("the handler failed", exc_info=True)
            return text
        return None


def _call(handler: Callable[[pa.Table], Any], table: pa.Table) -> None:
    """Call the handler. Raises TypeError if it is async: its result would be lost."""
    result = handler(table)
    if inspect.iscoroutine(result):
        result.close()
        raise TypeError("the handler is async: what it returns is not awaited")


def text_of(error: BaseException) -> str:
    """Return the type and the message in one line, also of an error whose message cannot be formatted."""
    try:
        message = " ".join(str(error).split())
    except BaseException:
        message = "(its message cannot be shown)"
    name = type(error).__name__
    return f"{name}: {message}"[:_MAX_TEXT] if message else name
