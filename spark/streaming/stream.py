"""Starting and reading a job's stream.

A stream that is started for the first time begins with the files that the actors wrote and that are still there; hours
that were merged before are not whole in its output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from actors.tables.reading import folder_of
from actors.tables.schemas.samples import SAMPLES
from spark.jobs import JOBS
from spark.jobs.job import Job, Options, Section
from spark.streaming.checkpoint import Checkpoint, StreamRefused
from spark.streaming.folds import SAMPLES_STEP_S, folded_schema, time_of
from spark.streaming.output import BatchFolders
from spark.tables import damage_in, read_table, stream_table

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
) -> None:
    """Run a job's stream, with ``once`` to the end of what is there now, else until something is raised in here.

    ``output`` is ``<storage>/metrics/_streams/<job>`` if None, ``checkpoint`` a folder in it. Killed at any point, the
    next run goes on with each row counted once. KeyError for an unknown job; StreamRefused for one without a stream,
    a checkpoint of another stream, a second driver, or rows that would be missed; TableDamaged;
    StreamingQueryException; OSError.
    """
    tables = _streamed(JOBS[job_name])
    out = (output or default_output(storage, job_name)).absolute()
    held = Checkpoint.open((checkpoint or out / _CHECKPOINT).absolute(), out, tables)
    queries: list[StreamingQuery] = []
    try:
        for table in tables:
            queries.append(_start(session, storage, table, held, out, once=once))
        _await(queries)
    except StreamingQueryException as error:
        raise damage_in(error) or error from error
    finally:
        _stop(queries)
        held.release()


def read_stream_output(
    session: SparkSession, storage: Path, job_name: str, options: Options, *, output: Path | None = None
) -> Mapping[str, DataFrame]:
    """The job's tables for its ``sections``: those that its stream folds from its output, the others as they are.

    Samples are cut to ``options`` by whole minutes. StreamRefused if there is no output, or none as fine as is asked.
    """
    job = JOBS[job_name]
    streamed = _streamed(job)
    out = (output or default_output(storage, job_name)).absolute()
    if not out.is_dir():
        raise StreamRefused(f"there is no output of a stream in {out}")
    if SAMPLES in streamed and options.bucket_seconds % SAMPLES_STEP_S:
        step = f"{options.bucket_seconds} s"
        raise StreamRefused(f"a stream keeps samples in steps of {SAMPLES_STEP_S} s, of which {step} is no multiple")
    tables = {}
    for table in job.tables:
        start = None if table in job.history else options.start
        if table not in streamed:
            tables[table] = read_table(session, storage, table, start=start, end=options.end)
            continue
        rows = BatchFolders(out / table, table).read(session)
        rows = rows if start is None else rows.where(time_of(table) >= F.lit(start))
        tables[table] = rows if options.end is None else rows.where(time_of(table) < F.lit(options.end))
    return tables


def stream_sections(
    session: SparkSession, storage: Path, job_name: str, options: Options, *, output: Path | None = None
) -> Sequence[Section]:
    """The job's answer out of its stream's output; of samples in steps of minutes. StreamRefused."""
    tables = read_stream_output(session, storage, job_name, options, output=output)
    return JOBS[job_name].sections(tables, options)


def default_output(storage: Path, job_name: str) -> Path:
    """Where a job's stream writes if nothing is said."""
    return storage / "metrics" / "_streams" / job_name


def _start(
    session: SparkSession, storage: Path, table: str, held: Checkpoint, out: Path, *, once: bool
) -> StreamingQuery:
    held.check(folder_of(storage, table))
    folders = BatchFolders(out / table, table)
    folders.path.mkdir(parents=True, exist_ok=True)
    rows = stream_table(session, storage, table).select(*folded_schema(table).names)
    writer = rows.writeStream.queryName(table).option("checkpointLocation", str(held.of_table(table)))
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=_TRIGGER)
    return writer.foreachBatch(folders.write).start()


def _await(queries: Sequence[StreamingQuery]) -> None:
    """Until all have ended or one has failed."""
    running = list(queries)
    while running:
        running = [query for query in running if not query.awaitTermination(_POLL_S)]


def _stop(queries: Sequence[StreamingQuery]) -> None:
    for query in queries:
        with suppress(StreamingQueryException):
            query.stop()


def _streamed(job: Job) -> tuple[str, ...]:
    if not job.streamed:
        raise StreamRefused(f"job {job.name} has no streaming form")
    return job.streamed
