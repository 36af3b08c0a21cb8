"""``python -m muster.spark.command REQUEST``: the process of ``muster spark`` and ``muster report``. REQUEST:
:mod:`muster.spark.request`.

The answer goes to stdout or to a file, everything else to stderr. Exit code 0; 1 with one line of the reason; 130 and
143 after SIGINT and SIGTERM. The session ends with the process, however that ends.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from muster.actors.object_storage.location import NotALocation
from muster.actors.object_storage.store import ObjectStorageError
from muster.actors.runtime import rich_console, terminal
from muster.actors.runtime.storage import cluster_id_in
from muster.actors.tables.hours import HOUR_MS, TableDamaged, hours
from muster.actors.tables.schemas.cluster import LIFECYCLE
from muster.actors.tables.schemas.samples import SAMPLES
from muster.spark import out, priority, sizing
from muster.spark.bucket import TablesInBucket, bucket_settings
from muster.spark.jobs import JOBS
from muster.spark.jobs.job import Job, Options
from muster.spark.jobs.shared.sent import STEP_S
from muster.spark.request import BadRequest, Request
from muster.spark.session import SparkUnavailable, is_short, local_session, make_active, raydp_session
from muster.spark.signals import end_on_signals, ended_by

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from muster.spark.progress import Progress
    from muster.spark.result import JobResult

_CONTROLLER = "controller"
_INTERRUPTED = 128 + signal.SIGINT
_JOBS_AT_ONCE = 2
"""Limit for small tables."""


class RequestRefused(RuntimeError):
    """The request cannot be met; the message is one line for the user."""


def main(arguments: list[str] | None = None) -> int:
    """Run the request. Returns the exit code."""
    terminal.guard()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that sessions are stopped
    priority.yield_own()
    try:
        (text,) = arguments if arguments is not None else sys.argv[1:]
        request = Request.from_json(text)
        return _run(request, _jobs(request.jobs))
    except KeyboardInterrupt:
        return _failed("interrupted", _INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python reports it again at exit
        return 1
    except (RequestRefused, BadRequest, SparkUnavailable, out.CannotWrite, ObjectStorageError, TableDamaged) as error:
        return _ended(str(error))
    except OSError as error:
        return _ended(out.said(error))


def _ended(why: str) -> int:
    """Return the exit code for this error, unless a signal caused it."""
    return _failed(why) if (number := ended_by()) is None else _failed("interrupted", 128 + number)


def _failed(text: str, code: int = 1) -> int:
    terminal.line(f"muster: {' '.join(text.split())}", err=True)
    return code


def _jobs(names: tuple[str, ...]) -> list[Job]:
    unknown = [name for name in names if name not in JOBS]
    if unknown:
        raise RequestRefused(f"there is no job {unknown[0]}; there are {', '.join(JOBS)}")
    return [JOBS[name] for name in names] if names else list(JOBS.values())


def _run(request: Request, jobs: list[Job]) -> int:
    if request.stream:
        _check_stream(request, jobs)
    elif request.out is not None:
        (out.check_folder if request.format == "parquet" else out.check_file)(request.out)
    if request.bucket is not None:
        _check_bucket(request, request.bucket)
    elif not (request.storage / "metrics").is_dir():
        raise RequestRefused(f"there are no tables in {request.storage}: it has no folder metrics; check --storage")
    from muster.spark.progress import Progress

    request = replace(request, options=_of_cluster(request))
    with Progress() as progress, ExitStack() as ending:
        folder = ending.enter_context(_stream_folder(request, jobs)) if request.stream else None
        progress.step("starting Spark" + (f" on Ray at {request.ray_address}" if request.ray_address else ""))
        session = ending.enter_context(session_for(request, jobs))
        end_on_signals(session)
        ending.callback(progress.step, "ending Spark")
        ending.callback(progress.rest)
        progress.follow(session)
        request = request.as_of_now()
        if folder is not None:
            return _stream(request, jobs[0], session, folder, progress)
        if request.format == "parquet":
            return _write_parquet(request, jobs[0], session, progress)
        results, damage = _results(request, jobs, session, progress)
    _show(request, results, damage)
    return 0 if not damage else _failed("; ".join(damage))


def _of_cluster(request: Request) -> Options:
    """Add to the request's options what the storage says. A stream goes on when the cluster starts again."""
    stopped = None if request.stream or request.says_now else stopped_at(request.tables)
    return replace(request.options, cluster=cluster_id_in(request.storage) or "", stopped=stopped)


def stopped_at(storage: Path | str) -> datetime | None:
    """Find when the cluster was stopped in order, by the last row of its controller in ``lifecycle``; None if by that
    it runs, or was lost. A damaged file is for the jobs to report."""
    from muster.actors.tables.reading import read

    with suppress(TableDamaged):
        for start_ms in _hours_of(storage):
            end_ms = start_ms + HOUR_MS
            rows = read(storage, LIFECYCLE, start_ms, end_ms, columns=["ts", "actor", "event"]).to_pylist()
            if own := [row for row in rows if row["actor"] == _CONTROLLER]:
                last: Mapping[str, Any] = max(own, key=lambda row: row["ts"])
                return last["ts"] if last["event"] == "stopped" else None
    return None


def _hours_of(storage: Path | str) -> list[int]:
    """Return when the hours of ``lifecycle`` began, newest first."""
    if isinstance(storage, str):
        found = {each.start_ms for each in TablesInBucket.of(storage).objects(LIFECYCLE)}
    else:
        found = {hour.start_ms for hour in hours(storage / "metrics" / LIFECYCLE)}
    return sorted(found, reverse=True)


def _check_bucket(request: Request, uri: str) -> None:
    """Raise RequestRefused if jobs cannot read it."""
    if request.stream:
        raise RequestRefused(f"a stream cannot read the tables of {uri}: run the job without --stream")
    try:
        TablesInBucket.of(uri)
    except NotALocation as error:
        raise RequestRefused(str(error)) from error


def _check_stream(request: Request, jobs: list[Job]) -> None:
    """Raise RequestRefused if the request cannot be streamed."""
    if len(jobs) != 1:
        raise RequestRefused("a stream has one job")
    if not jobs[0].streamed:
        having = ", ".join(job.name for job in JOBS.values() if job.streamed)
        raise RequestRefused(f"job {jobs[0].name} has no streaming form; {having} have one")
    if request.format not in ("table", "json"):
        raise RequestRefused(
            f"a stream is shown as table or json, not as {request.format}; with --out it is kept as Parquet"
        )


def session_for(
    request: Request, jobs: list[Job], *, low_priority: bool = True
) -> AbstractContextManager[SparkSession]:
    """Return the request's Spark session, configured for the size of the jobs' input. Raises SparkUnavailable.

    ``low_priority``: see :func:`muster.spark.session.raydp_session`.
    """
    cores = request.executor_cores * (request.executors if request.ray_address else 1)
    names = {name for job in jobs for name in job.tables}
    history = {name for job in jobs for name in job.history}
    options = request.options
    takes_rollups = all(job.rollups for job in jobs if SAMPLES in job.tables) and options.bucket_seconds % STEP_S == 0
    size = sizing.size_of(
        request.tables,
        sorted(names),
        options.start,
        options.end,
        cores=cores,
        history=history,
        rolled_up={SAMPLES} if takes_rollups else (),
    )
    settings = {} if request.bucket is None else bucket_settings()
    if request.ray_address is None:
        return local_session(
            cores=request.executor_cores,
            shuffle_partitions=size.shuffle_partitions,
            short_job=size.short_job,
            memory_bytes=request.executor_memory_bytes,
            settings=settings,
        )
    return raydp_session(
        request.ray_address,
        token_path=request.ray_token_path,
        executors=request.executors,
        executor_cores=request.executor_cores,
        executor_memory_bytes=request.executor_memory_bytes,
        shuffle_partitions=size.shuffle_partitions,
        short_job=size.short_job,
        low_priority=low_priority,
        settings=settings,
    )


def _results(
    request: Request, jobs: list[Job], session: SparkSession, progress: Progress
) -> tuple[list[JobResult], list[str]]:
    """Return the results of all jobs, and the errors of failed ones. Raises RequestRefused if the only one failed.

    Jobs on small tables spend more time in planning than in running, on one core each: so several run at a time.
    """
    from muster.spark.result import JobFailed, JobResult, run_job, spark_errors_in_one_line, tables_of

    at_once = _JOBS_AT_ONCE if len(jobs) > 1 and is_short(session) else 1

    def step(text: str) -> None:
        if ended_by() is not None:
            raise JobFailed("interrupted")
        progress.step(text)

    def result(job: Job) -> JobResult | str:
        try:
            step(f"{job.name}: reading {', '.join(job.tables)}")
            with spark_errors_in_one_line(job.name):
                tables = tables_of(job, session, request.tables, request.options)
            return run_job(
                job,
                session,
                request.tables,
                request.as_of_now().options,  # after reading: no row is later than now, unless clocks differ
                tables=tables,
                plots=request.format == "html",
                alone=at_once == 1,
                step=step,
            )
        except (JobFailed, TableDamaged) as error:
            if len(jobs) == 1 or ended_by() is not None:
                raise RequestRefused(str(error)) from error
            return str(error)

    if at_once == 1:
        found = [result(job) for job in jobs]
    else:
        with ThreadPoolExecutor(at_once, initializer=make_active, initargs=(session,)) as pool:
            found = list(pool.map(result, jobs))
    return [each for each in found if isinstance(each, JobResult)], [each for each in found if isinstance(each, str)]


def _show(request: Request, results: list[JobResult], damage: list[str]) -> None:
    if request.format == "table" and request.out is None:
        _print(request, results)
    else:
        text = _text(request, results, damage)
        if request.out is None:
            terminal.json_text(text)
        else:
            out.write_file(request.out, text)
            terminal.line(str(request.out), err=True)
    if request.options.now == request.options.stopped:
        terminal.line(
            f"muster: as of {request.options.stopped:%Y-%m-%d %H:%M:%S} UTC, when Muster was stopped", err=True
        )
    for group in _groups_without_rows(request, results):
        terminal.line(f"muster: there is no report on group {group}: no such group in that time", err=True)


def _print(request: Request, results: list[JobResult]) -> None:
    from muster.spark.render import job_screens, showing

    console = rich_console.console(wide=request.extent == "wide")
    if request.extent == "wide" or not (request.extent or rich_console.is_live(console)):
        showing.print_results(results, console)
        return
    left_out = job_screens.print_screens(results, console, details=request.extent == "details")
    for text in left_out if not request.stream else ():
        terminal.line(text, err=True)


def _groups_without_rows(request: Request, results: list[JobResult]) -> list[str]:
    """Return the requested groups that occur in no result of the jobs that take groups into account."""
    found = {
        group
        for result in results
        for section in result.sections
        if any(column.name == "group" for column in section.columns)
        for group in section.values("group")
        if group is not None
    }
    return sorted(request.options.groups - found) if found <= request.options.groups else []


def _text(request: Request, results: list[JobResult], damage: list[str]) -> str:
    from muster.spark.render import showing

    match request.format:
        case "json":
            a_line_each = request.stream and not request.once
            return showing.to_json(results, request.options, indent=None if a_line_each else 2)
        case "html":
            from muster.spark.render.report_page import render_results

            return render_results(results, request.options, damage)
        case _:
            text = StringIO()
            showing.print_results(results, rich_console.console(file=text))
            return text.getvalue()


def _write_parquet(request: Request, job: Job, session: SparkSession, progress: Progress) -> int:
    from muster.spark.render.showing import write_parquet
    from muster.spark.result import JobFailed, spark_errors_in_one_line, tables_of

    assert request.out is not None
    progress.step(f"{job.name}: writing {request.out}")
    try:
        with out.whole_folder(request.out.absolute()) as folder, spark_errors_in_one_line(job.name):
            tables = tables_of(job, session, request.tables, request.options)
            write_parquet(job.sections(tables, request.as_of_now().options), folder)
    except (JobFailed, TableDamaged) as error:
        raise RequestRefused(str(error)) from error
    return 0


@contextmanager
def _stream_folder(request: Request, jobs: list[Job]) -> Iterator[Path]:
    from muster.spark.streaming.showing import stream_folder

    with ExitStack() as ending:
        try:
            folder = ending.enter_context(stream_folder(request, jobs[0]))
        except OSError as error:
            raise RequestRefused(f"the stream cannot be stored: {error}") from error
        yield folder


def _stream(request: Request, job: Job, session: SparkSession, folder: Path, progress: Progress) -> int:
    from muster.spark.result import JobFailed
    from muster.spark.streaming.checkpoint import StreamRefused
    from muster.spark.streaming.showing import show_stream

    def show(result: JobResult, options: Options) -> None:
        with progress.cleared():
            if request.format == "table" and not request.once:
                now = options.now.astimezone(ZoneInfo(options.timezone))
                terminal.line()
                terminal.line(f"== {now:%Y-%m-%d %H:%M:%S %Z}")
            _show(replace(request, out=None, options=options), [result], [])

    try:
        show_stream(request, job, session, folder, step=progress.step, show=show)
    except BrokenPipeError:
        raise
    except (JobFailed, StreamRefused, TableDamaged, OSError) as error:
        raise RequestRefused(str(error)) from error
    return 0


if __name__ == "__main__":
    sys.exit(main())
