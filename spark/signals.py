"""SIGINT and SIGTERM while Spark works: its jobs are cancelled, and the process ends in order.

Py4J keeps a connection whose response was not awaited: the next call on it, such as stop, would wait for the job to
end. So the jobs are cancelled in the handler, for which Py4J opens another connection, as PySpark does for SIGINT.

An exception of a handler is lost where Python discards exceptions, as in the finalizers by which Py4J releases Java
objects, and a cancelled job is reported as failed first. So the signal is remembered: :func:`ended_by`.
"""

from __future__ import annotations

import logging
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_came: list[int] = []


def end_on_signals(session: SparkSession) -> None:
    """Let SIGINT and SIGTERM cancel that session's jobs from now on, and raise :func:`ending`. In the main thread
    only."""

    def end(number: int, frame: object) -> None:
        _came.append(number)
        logging.disable()  # Py4J would log each call that the signal or the end of the JVM interrupted
        with suppress(Exception):  # the JVM may have ended
            session.sparkContext.cancelAllJobs()
        raise ending(number)

    _came.clear()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)


def ended_by() -> int | None:
    """Return the first signal received."""
    return _came[0] if _came else None


def ending(number: int) -> BaseException:
    """Return the usual exception: KeyboardInterrupt for SIGINT, else SystemExit with 128 plus the number."""
    return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)
