"""Folds: from rows of a table to fewer rows of the same table, in windows of a minute.

The tables are thinned already: a row stands for a flush window of its writer. A fold makes these windows a minute, of
the time column, and changes nothing else, so whatever runs over a table runs over it folded, in steps of a minute or
of several. Folding what was folded before, in any parts, gives the same as folding it all at once.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType, TimestampType

from actors.tables.schemas import TABLES
from actors.tables.schemas.offsets import COMMITS, END_OFFSETS
from actors.tables.schemas.samples import SAMPLES
from spark.jobs.buckets import step_of
from spark.jobs.runs import merged_runs

Fold = Callable[[DataFrame], DataFrame]

WINDOW_S = 60
"""Width of the windows, in s."""

_WINDOW = "window_start"
_FIRST_TS = "first_ts"
"""When the first window of a folded row of commits ended: orders what was before it. Null in a row of the table."""


def folded_schema(table: str) -> StructType:
    """Of what :data:`FOLDS` of that table takes and returns. KeyError for a table that has no fold."""
    schema = from_arrow_schema(TABLES[table])
    for field in schema:
        field.nullable = True
    return schema.add(_FIRST_TS, TimestampType()) if table == COMMITS else schema


def fold_samples(samples: DataFrame) -> DataFrame:
    """What one gateway sent in one minute to one client with one attribution: a row per run of offsets.

    ``ts`` and ``last_ts`` are the earliest and the latest of a run, so runs that overlap say less of when.
    """
    keys = ["gateway", "group", "member_id", "client_id", "host", "topic", "partition", "evidence", "reason"]
    times = F.min("ts").alias("ts"), F.max("last_ts").alias("last_ts")
    sums = (F.sum(name).alias(name) for name in ("messages", "bytes", "fetches"))
    windows = samples.withColumn(_WINDOW, window_of("ts"))
    return merged_runs(windows, [_WINDOW, *keys], *times, *sums).select(*TABLES[SAMPLES].names)


def fold_commits(commits: DataFrame) -> DataFrame:
    """Where a group stood in a partition at the end of a minute in which it moved."""
    names = TABLES[COMMITS].names
    first_ts = F.coalesce(F.col(_FIRST_TS), F.col("ts")) if _FIRST_TS in commits.columns else F.col("ts")
    folded = commits.groupBy(window_of("ts").alias(_WINDOW), "group", "topic", "partition").agg(
        _latest(names, "ts", "epoch", "offset").alias("last"),
        F.min(F.struct(first_ts.alias(_FIRST_TS), "previous")).alias("first"),
        F.min("lowest").alias("lowest"),
        F.sum("commits").alias("commits"),
    )
    own = {"lowest": F.col("lowest"), "commits": F.col("commits"), "previous": F.col("first.previous")}
    columns = [own.get(name, F.col(f"last.{name}")).alias(name) for name in names]
    return folded.select(*columns, F.col(f"first.{_FIRST_TS}").alias(_FIRST_TS))


def fold_end_offsets(ends: DataFrame) -> DataFrame:
    """Where a partition's log ended at the end of a minute in which it moved."""
    latest = _latest(TABLES[END_OFFSETS].names, "ts", "epoch", "log_end_offset").alias("last")
    folded = ends.groupBy(window_of("ts").alias(_WINDOW), "topic", "partition").agg(latest)
    return folded.select(*(F.col(f"last.{name}").alias(name) for name in TABLES[END_OFFSETS].names))


FOLDS: dict[str, Fold] = {SAMPLES: fold_samples, COMMITS: fold_commits, END_OFFSETS: fold_end_offsets}
"""By the table's name."""


def window_of(time_column: str) -> Column:
    """The beginning of the window that a row is folded into."""
    return step_of(F.col(time_column), WINDOW_S).start


def _latest(names: list[str], *order: str) -> Column:
    """The row that comes last by ``order`` and, among equals, by whatever tells them apart: never by chance."""
    return F.max(F.struct(*order, *(name for name in names if name not in order)))
