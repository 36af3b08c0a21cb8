"""``muster spark JOB --stream``: runs the stream and shows its answers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from muster.spark.jobs.job import Job, Options
from muster.spark.request import Request
from muster.spark.result import JobResult, run_job, spark_errors_in_one_line
from muster.spark.streaming.stream import default_output, read_stream_output, run_stream

Show = Callable[[JobResult, Options], None]
"""Takes the answer and its options: ``now`` is when it was computed."""


@contextmanager
def stream_folder(request: Request, job: Job) -> Iterator[Path]:
    """Yield the stream's output folder, with its checkpoint: ``out``, else a temporary one. Raises OSError.

    A temporary one is on this machine for local Spark; executors on the cluster's nodes share nothing but the storage.
    """
    if request.out is not None:
        yield request.out.absolute()
        return
    shared = None if request.ray_address is None else default_output(request.storage, job.name).parent
    if shared is not None:
        shared.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"muster-{job.name}-", dir=shared, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def show_stream(
    request: Request, job: Job, session: SparkSession, folder: Path, *, step: Callable[[str], None], show: Show
) -> None:
    """Show the answer after each trigger with rows; with ``once`` at the end, with ``out`` then or never.

    Without ``once`` it ends with an exception: KeyboardInterrupt, SystemExit. ``step`` is called with what is being
    done. Raises JobFailed, StreamRefused, TableDamaged, OSError.
    """

    def answered() -> None:
        options = request.options.at_present()
        with spark_errors_in_one_line(job.name):
            tables = read_stream_output(session, request.storage, job.name, options, output=folder)
        show(run_job(job, session, request.storage, options, tables=tables), options)
        session.catalog.clearCache()  # jobs keep what they persist until the session ends, which is not soon

    shows_meanwhile = request.out is None and not request.once
    step(f"{job.name}: {_what_is_done(request, folder)}")
    with spark_errors_in_one_line(job.name):
        on_rows = answered if shows_meanwhile else _nothing
        run_stream(session, request.storage, job.name, output=folder, once=request.once, on_rows=on_rows)
    answered()


def _what_is_done(request: Request, folder: Path) -> str:
    if request.once:
        return "reading the current rows" if request.out is None else f"streaming the current rows to {folder}"
    if request.out is None:
        return "streaming; nothing is stored without --out; interrupt ends it"
    return f"streaming to {folder}, where the same command continues; interrupt ends it"


def _nothing() -> None:
    """Do nothing with rows if no answer is shown meanwhile."""
