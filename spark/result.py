"""A job's answer as Python objects: the rows of its sections, few and aggregated, ready to be shown."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import NumericType

from muster.actors.tables.schemas.samples import SAMPLES
from muster.spark.jobs.job import Job, Options, Plot, Section
from muster.spark.jobs.shared.sent import STEP_S
from muster.spark.out import said
from muster.spark.render.plotted import reduced
from muster.spark.rollups import read_samples, read_sent
from muster.spark.tables import damage_in, read_table

MAX_ROWS = 10_000
"""Limit per section of an answer, so that the driver's memory does not depend on the length of the time range."""

_MAX_PLOTTED_ROWS = 10_000
_JAVA_EXCEPTION = re.compile(r"(?:[a-z][\w$]*\.)+[A-Z]\w*(?:Exception|Error): ")
_OUT_OF_HEAP = ("Java heap space", "GC overhead limit exceeded", "SparkOutOfMemoryError")


class JobFailed(RuntimeError):
    """Spark could not run the job; the message is one line."""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: str
    """Spark's name of the type: bigint, timestamp, array<string>."""
    is_number: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Plotted:
    """The result of :func:`muster.spark.render.plotted.reduced`."""

    columns: Sequence[str]
    rows: Sequence[tuple[Any, ...]]
    in_all: int
    step_seconds: int

    def values(self, column: str) -> list[Any]:
        """Return the values of one column, as :meth:`Shown.values` does."""
        place = self.columns.index(column)
        return [row[place] for row in self.rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A section with its rows; timestamps are aware, in the requested zone; NaN and infinity are None."""

    name: str
    title: str
    note: str
    columns: Sequence[Column]
    rows: Sequence[tuple[Any, ...]]
    cut: bool
    """Whether there are more rows than :data:`MAX_ROWS`; the others are missing."""
    total: Mapping[str, Any] | None = None
    """Sums over all rows, the missing ones included; None: the section has none."""
    plot: Plot | None = None
    plotted: Plotted | None = None
    """Data of the plot for a section that is cut, if plots were requested; otherwise they are in ``rows``."""

    def values(self, column: str) -> list[Any]:
        """Return the values of one column, row by row. Raises KeyError."""
        place = {column.name: place for place, column in enumerate(self.columns)}[column]
        return [row[place] for row in self.rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    job: str
    title: str
    sections: Sequence[Shown]


def tables_of(job: Job, spark: SparkSession, storage: Path | str, options: Options) -> Mapping[str, DataFrame]:
    """Return the job's tables, limited to the requested time range except for ``job.history``.

    ``storage`` is a path or the URI of a bucket.
    Samples with their roll-ups, if the job takes these and the steps of time allow it.
    """
    found = {
        name: read_table(spark, storage, name, start=None if name in job.history else options.start, end=options.end)
        for name in job.tables
        if name != SAMPLES
    }
    if SAMPLES in job.tables:
        takes_rollups = job.rollups and options.bucket_seconds % STEP_S == 0
        if takes_rollups and isinstance(storage, Path):  # a bucket has no roll-ups
            found |= read_sent(spark, storage, start=options.start, end=options.end)
        else:
            found |= read_samples(spark, storage, start=options.start, end=options.end)
    return found


def run_job(
    job: Job,
    spark: SparkSession,
    storage: Path | str,
    options: Options,
    *,
    tables: Mapping[str, DataFrame] | None = None,
    plots: bool = False,
    alone: bool = True,
    step: Callable[[str], None] = lambda _: None,
) -> JobResult:
    """Run the job and fetch its sections; ``step`` is called with what is being computed.

    ``tables`` are its input; those below ``storage`` if None. ``plots``: also fetch what plots draw. ``alone``:
    release what an earlier job persisted in the session.

    Raises :class:`muster.spark.tables.TableDamaged`; JobFailed for any other error in Spark.
    """
    shown = []
    with spark_errors_in_one_line(job.name):
        if alone:
            spark.catalog.clearCache()
        tables = tables_of(job, spark, storage, options) if tables is None else tables
        for section in job.sections(tables, options):
            if section.bulk:
                continue
            step(f"{job.name}: {section.title}")
            shown.append(_shown(section, options, plots))
    return JobResult(job=job.name, title=job.title, sections=shown)


@contextmanager
def spark_errors_in_one_line(job: str) -> Iterator[None]:
    """Turn Spark's errors into JobFailed with the innermost cause as its text, or the underlying TableDamaged.

    Unreadable files are JobFailed, too.
    """
    try:
        yield
    except BrokenPipeError:  # the reader of the answer has closed the pipe
        raise
    except ConnectionError as error:
        raise JobFailed(f"job {job}: the JVM of Spark has ended") from error
    except OSError as error:
        raise JobFailed(f"job {job}: {said(error)}") from error
    except (PySparkException, Py4JError) as error:
        if (damage := damage_in(error)) is not None:
            raise damage from error
        raise JobFailed(f"job {job}: {_cause(error)}") from error


def _cause(error: Exception) -> str:
    """Return the last "Caused by", else the first line, without the names of Java's exceptions."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    if any(name in line for line in lines for name in _OUT_OF_HEAP):
        return "Spark ran out of heap: give it more with --executor-memory, or a shorter time with --from and --to"
    return _JAVA_EXCEPTION.sub("", causes[-1] if causes else lines[0])


def _shown(section: Section, options: Options, plots: bool) -> Shown:
    frame, total, zone = section.frame, section.total, ZoneInfo(options.timezone)
    rows = frame.limit(MAX_ROWS + 1).collect()
    is_cut = len(rows) > MAX_ROWS
    return Shown(
        name=section.name,
        title=section.title,
        note=section.note,
        columns=[
            Column(field.name, field.dataType.simpleString(), isinstance(field.dataType, NumericType))
            for field in frame.schema.fields
        ],
        rows=[tuple(_plain(value, zone) for value in row) for row in rows[:MAX_ROWS]],
        cut=is_cut,
        total=None
        if total is None
        else {name: _plain(sum_, zone) for name, sum_ in total.collect()[0].asDict().items()},
        plot=section.plot,
        plotted=_plotted(section.frame, section.plot, options) if plots and is_cut and section.plot else None,
    )


def _plotted(frame: DataFrame, plot: Plot, options: Options) -> Plotted:
    found = reduced(frame, plot, bucket_seconds=options.bucket_seconds)
    zone = ZoneInfo(options.timezone)
    rows = [tuple(_plain(value, zone) for value in row) for row in found.frame.limit(_MAX_PLOTTED_ROWS).collect()]
    return Plotted(columns=found.frame.columns, rows=rows, in_all=found.in_all, step_seconds=found.step_seconds)


def _plain(value: Any, zone: ZoneInfo) -> Any:
    """Return rows as mappings; times, which Spark returns naive and local, as aware ones; None for NaN and infinity."""
    match value:
        case float() if not math.isfinite(value):
            return None  # JSON has neither NaN nor infinity
        case datetime():
            return value.astimezone(zone)
        case Row():
            return {name: _plain(part, zone) for name, part in value.asDict().items()}
        case list():
            return [_plain(part, zone) for part in value]
        case dict():
            return {key: _plain(part, zone) for key, part in value.items()}
        case _:
            return value
