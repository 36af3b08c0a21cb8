"""Starts and reads a job's stream.

A stream that is started for the first time begins with the files that the actors wrote and that still exist; hours
that were merged before are incomplete in its output.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from muster.actors.tables.reading import folder_of
from muster.spark.jobs import JOBS
from muster.spark.jobs.job import Job, Options, Section
from muster.spark.signals import ended_by, ending
from muster.spark.streaming.checkpoint import Checkpoint, StreamRefused
from muster.spark.streaming.folds import fold_of, folded_schema
from muster.spark.streaming.output import BatchFolders
from muster.spark.tables import damage_in, read_table, stream_table

__all__ = ["read_stream_output", "run_stream", "stream_sections"]

_CHECKPOINT = "_checkpoint"
_TRIGGER = "10 seconds"
_POLL_S = 1


def run_stream(
    session: SparkSession,
    storage: Path,
    job_name: str,
    *,
    checkpoint: Path | None = None,
    output: Path | None = None,
    once: bool = False,
    on_rows: Callable[[], None] = lambda: None,
) -> None:
    """Run a job's stream: with ``once`` to the end of the current rows, else until an exception is raised in here.

    ``output`` is ``<storage>/metrics/_streams/<job>`` if None, ``checkpoint`` a folder in it. ``on_rows`` is called in
    this thread after rows were stored, once for all that arrive within a moment; an exception from it ends the stream.
    If killed at any point, the next run continues with each row counted once.

    KeyError for an unknown job; StreamRefused for one without a stream, a checkpoint of another stream, a second
    driver, or rows that would be missed; TableDamaged; StreamingQueryException; OSError.
    """
    tables = _streamed(JOBS[job_name])
    out = (output or default_output(storage, job_name)).absolute()
    held = Checkpoint.open((checkpoint or out / _CHECKPOINT).absolute(), out, tables)
    queries: list[StreamingQuery] = []
    keeping = _Keeping()
    try:
        for table in tables:
            held.check(folder_of(storage, table))
            folders = BatchFolders(out / table, table, fold_of(job_name, table))
            queries.append(_start(stream_table(session, storage, table), folders, held.of_table(table), once, keeping))
        _await(queries, keeping.rows, on_rows)
    except StreamingQueryException as error:
        cause = keeping.failure or error
        raise damage_in(cause) or cause from error
    finally:
        _stop(queries)
        held.release()


def read_stream_output(
    session: SparkSession, storage: Path, job_name: str, options: Options, *, output: Path | None = None
) -> Mapping[str, DataFrame]:
    """Read the job's tables for its ``sections``: streamed ones from the stream's output, the others directly.

    Tables folded to steps of time are limited to ``options`` by whole steps. Raises StreamRefused if there is no
    output, or if its steps do not fit the requested ones.
    """
    job = JOBS[job_name]
    streamed = _streamed(job)
    out = (output or default_output(storage, job_name)).absolute()
    if not out.is_dir():
        raise StreamRefused(f"there is no output of a stream in {out}")
    tables = {}
    for table in job.tables:
        start = None if table in job.history else options.start
        if table not in streamed:
            tables[table] = read_table(session, storage, table, start=start, end=options.end)
            continue
        fold = fold_of(job_name, table)
        if fold.step_s is not None and options.bucket_seconds % fold.step_s:
            raise StreamRefused(
                f"the stream of {job_name} keeps {table} in steps of {fold.step_s} s, of which "
                f"{options.bucket_seconds} s is no multiple"
            )
        rows = BatchFolders(out / table, table, fold).read(session)
        rows = rows if start is None else rows.where(fold.time() >= F.lit(start))
        tables[table] = rows if options.end is None else rows.where(fold.time() < F.lit(options.end))
    return tables


def stream_sections(
    session: SparkSession, storage: Path, job_name: str, options: Options, *, output: Path | None = None
) -> Sequence[Section]:
    """Return the job's answer from its stream's output. Raises StreamRefused."""
    tables = read_stream_output(session, storage, job_name, options, output=output)
    return JOBS[job_name].sections(tables, options)


def default_output(storage: Path, job_name: str) -> Path:
    """Return the default output folder of a job's stream."""
    return storage / "metrics" / "_streams" / job_name


@dataclass(slots=True)
class _Keeping:
    """Stores of queries, in threads of their own, and the exception if one failed: Spark has only its text."""

    rows: threading.Event = field(default_factory=threading.Event)
    """Set when some were stored."""
    failure: Exception | None = None

    def into(self, folders: BatchFolders) -> Callable[[DataFrame, int], None]:
        def keep(rows: DataFrame, batch: int) -> None:
            try:
                folders.write(rows, batch)
            except Exception as error:
                self.failure = error
                raise
            self.rows.set()

        return keep


def _start(rows: DataFrame, folders: BatchFolders, checkpoint: Path, once: bool, keeping: _Keeping) -> StreamingQuery:
    folders.path.mkdir(parents=True, exist_ok=True)
    writer = rows.select(*folded_schema(folders.table).names).writeStream.queryName(folders.table)
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=_TRIGGER)
    return writer.option("checkpointLocation", str(checkpoint)).foreachBatch(keeping.into(folders)).start()


def _await(queries: Sequence[StreamingQuery], kept: threading.Event, on_rows: Callable[[], None]) -> None:
    """Wait until all have ended, one has failed, or a signal was received."""
    running, untold = list(queries), False
    while running:
        running = [query for query in running if not query.awaitTermination(_POLL_S)]
        if (number := ended_by()) is not None:
            raise ending(number)
        more = kept.is_set()
        kept.clear()
        if untold and not more:
            on_rows()
        untold = more


def _stop(queries: Sequence[StreamingQuery]) -> None:
    for query in queries:
        with suppress(PySparkException, Py4JError, OSError):  # it has failed, or the JVM has ended
            query.stop()


def _streamed(job: Job) -> tuple[str, ...]:
    if not job.streamed:
        raise StreamRefused(f"job {job.name} has no streaming form")
    return job.streamed
